//! Vectors of texts by a sentence model, kept in a file between runs.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use builtins_llm::SentenceModel;
use search::QuantizedVector;
use sha2::{Digest as _, Sha256};

/// SHA-256 of a text.
type TextDigest = [u8; 32];

/// Number of threads that embed texts.
const THREADS: usize = 2;

/// A sentence model with the vectors that it computed before.
#[derive(Debug)]
pub(super) struct SentenceEncoder {
    model: SentenceModel,
    file: PathBuf,
    known: HashMap<TextDigest, QuantizedVector>,
}

impl SentenceEncoder {
    /// Loads the only `.onnx` file of a folder with its `tokenizer.json`, and the vectors in `kept`.
    pub(super) fn load(folder: &Path, kept: &Path) -> Result<Self, String> {
        let fault =
            |path: &Path, error: &dyn std::fmt::Display| format!("`{}`: {error}", path.display());
        let read = |path: &Path| fs::read(path).map_err(|error| fault(path, &error));
        let files = fs::read_dir(folder).map_err(|error| fault(folder, &error))?;
        let mut files = files.filter_map(|entry| Some(entry.ok()?.path()));
        let weights = files.find(|path| path.extension().is_some_and(|kind| kind == "onnx"));
        let weights = read(&weights.ok_or_else(|| fault(folder, &"it has no `.onnx` file"))?)?;
        let name = digest_of(&weights).first_chunk().map_or(0, |it| u64::from_be_bytes(*it));
        let model = SentenceModel::parse_model(&read(&folder.join("tokenizer.json"))?, weights)?;
        let file = kept.join(format!("sentence-vectors-{name:016x}.bin"));
        let row = size_of::<TextDigest>() + 4 + model.dimensions();
        let bytes = fs::read(&file).unwrap_or_default();
        let rows = bytes.chunks_exact(row).filter_map(|row| {
            let (digest, vector) = row.split_first_chunk()?;
            Some((*digest, QuantizedVector::from_bytes(vector)?))
        });
        Ok(Self { model, file, known: rows.collect() })
    }

    /// Embeds texts that are not known, and keeps their vectors.
    pub(super) fn embed_texts<'t>(
        &mut self,
        texts: impl IntoIterator<Item = &'t str>,
    ) -> Result<(), String> {
        let new = texts.into_iter().map(|text| (digest_of(text.as_bytes()), text));
        let new: HashMap<TextDigest, &str> =
            new.filter(|it| !self.known.contains_key(&it.0)).collect();
        if new.is_empty() {
            return Ok(());
        }
        println!("{} texts are embedded", new.len());
        let new: Vec<(TextDigest, &str)> = new.into_iter().collect();
        let model = &self.model;
        let embed = |part: &[(TextDigest, &str)]| {
            let one = |(digest, text): &(TextDigest, &str)| {
                let vector = QuantizedVector::from_numbers(&model.embed_text(text)?);
                Ok((*digest, vector.ok_or("a vector of nothing")?))
            };
            part.iter().map(one).collect::<Result<Vec<_>, String>>()
        };
        let parts = new.chunks(new.len().div_ceil(THREADS));
        let computed = std::thread::scope(|scope| {
            let threads: Vec<_> = parts.map(|part| scope.spawn(move || embed(part))).collect();
            threads
                .into_iter()
                .map(|it| it.join().map_err(|_| "a thread ended".to_owned())?)
                .collect::<Result<Vec<_>, String>>()
        })?;
        self.known.extend(computed.into_iter().flatten());
        let rows =
            self.known.iter().flat_map(|(digest, vector)| [digest.to_vec(), vector.to_bytes()]);
        let bytes = rows.collect::<Vec<_>>().concat();
        fs::write(&self.file, bytes).map_err(|error| format!("`{}`: {error}", self.file.display()))
    }

    /// Returns the vector of a text that was embedded.
    pub(super) fn vector_of(&self, text: &str) -> Option<&QuantizedVector> {
        self.known.get(&digest_of(text.as_bytes()))
    }
}

fn digest_of(bytes: &[u8]) -> TextDigest {
    Sha256::digest(bytes).into()
}
