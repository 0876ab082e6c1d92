//! The language model: where it is installed, and how it comes there.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::onnx::Sentences;
use crate::vector::likeness;

/// The folder of the model, below that of models.
const PLACE: &str = "embedding";
/// The one that earlier versions used, for the only model that they took.
const EARLIER: &str = "all-MiniLM-L6-v2";
const WEIGHTS: &str = "model.onnx";
const WORDS: &str = "tokenizer.json";
const FACTS: &str = "model.json";
/// Bytes of either file, at most.
const MOST: u64 = 512 << 20;
/// The same of the facts.
const MOST_FACTS: u64 = 64 << 10;
/// Letters of a model's name.
const MOST_NAME: usize = 64;

/// Which model it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFacts {
    /// Its name: letters, digits and `-_.` alone.
    pub name: String,
    /// Numbers of a vector.
    pub dimensions: usize,
    /// Where it was downloaded from, where it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl ModelFacts {
    /// In words, as answers and descriptions have it.
    pub fn label(&self) -> String {
        label(&self.name, self.dimensions)
    }
}

/// A model in words: its name, and the numbers of its vectors.
pub(crate) fn label(name: &str, dimensions: usize) -> String {
    format!("{name}, {dimensions} dimensions")
}

/// A model that was found, and is read when it is first needed.
#[derive(Debug)]
pub struct Installed {
    folder: PathBuf,
    facts: ModelFacts,
    read: OnceLock<Result<Sentences, String>>,
}

impl Installed {
    /// The model below the folder `models`; nothing where none is installed.
    pub fn find(models: &Path) -> Option<Self> {
        [PLACE, EARLIER].into_iter().find_map(|place| {
            let folder = models.join(place);
            let there = |name| folder.join(name).is_file();
            let found = there(WEIGHTS) && there(WORDS);
            found.then(|| Self { facts: facts(&folder), folder, read: OnceLock::new() })
        })
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Which it is.
    pub fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    /// The model itself. Takes some 50 ms the first time.
    ///
    /// # Errors
    /// Why its files cannot be used.
    pub fn sentences(&self) -> Result<&Sentences, String> {
        let read = || {
            let read = Sentences::read(&self.folder.join(WEIGHTS), &self.folder.join(WORDS))?;
            let (has, says) = (read.dimensions(), self.facts.dimensions);
            let place = self.folder.join(FACTS);
            let other = || {
                format!("{}: it says {says} dimensions, and the model has {has}", place.display())
            };
            (has == says).then_some(read).ok_or_else(other)
        };
        self.read.get_or_init(read).as_ref().map_err(Clone::clone)
    }
}

/// What is written beside the model. Without it, it is the one that earlier versions took.
fn facts(folder: &Path) -> ModelFacts {
    let read = rooted_fs::files::read(folder.join(FACTS), MOST_FACTS).ok();
    let read = read.and_then(|bytes| serde_json::from_slice::<ModelFacts>(&bytes).ok());
    let read = read.map(|facts| ModelFacts { name: plain_name(&facts.name), ..facts });
    let earlier = || ModelFacts { name: EARLIER.to_owned(), dimensions: 384, source: None };
    read.unwrap_or_else(earlier)
}

/// A name for answers and descriptions: nothing in it can pass for more than a name.
fn plain_name(text: &str) -> String {
    let plain = |letter: &char| letter.is_ascii_alphanumeric() || "-_.".contains(*letter);
    let name: String = text.chars().filter(plain).take(MOST_NAME).collect();
    if name.is_empty() { "model".to_owned() } else { name }
}

/// Copies a model from `from` to its place below `models`, after it has shown that it works. `from` is its
/// folder, or its `.onnx` file; `tokenizer.json` is beside the file, or in the folder above one named `onnx`.
/// Answers where it is then.
///
/// # Errors
/// What is wrong with the files, or with copying them; what was installed before is still there then.
pub fn install(from: &Path, models: &Path) -> Result<Installed, String> {
    let weights = weights(from)?;
    let words = words(&weights);
    let resolved = words.canonicalize().ok();
    let folder = resolved.as_deref().and_then(Path::parent).and_then(Path::file_name);
    let name = plain_name(&folder.unwrap_or_default().to_string_lossy());
    put(&weights, &words, (&name, None), models)
}

/// The same with the two files, and the model's name and source.
pub(crate) fn put(
    weights: &Path,
    words: &Path,
    (name, source): (&str, Option<String>),
    models: &Path,
) -> Result<Installed, String> {
    let read = Sentences::read(weights, words)?;
    check_ranking(&read)?;
    let facts = ModelFacts { name: plain_name(name), dimensions: read.dimensions(), source };
    let text = serde_json::to_vec_pretty(&facts).map_err(|error| error.to_string())?;
    let fresh = models.join(format!(".{PLACE}.new"));
    let told = |error: std::io::Error| format!("{}: {error}", models.display());
    emptied(&fresh).map_err(told)?;
    for (from, name) in [(weights, WEIGHTS), (words, WORDS)] {
        // Read and written, not copied: what is protected where it comes from need not be here.
        let bytes = content(from)?;
        std::fs::write(fresh.join(name), bytes).map_err(told)?;
    }
    std::fs::write(fresh.join(FACTS), text).map_err(told)?;
    swap(&fresh, models).map_err(told)?;
    Installed::find(models).ok_or_else(|| format!("{}: the model is gone again", models.display()))
}

/// The folder, with nothing in it.
pub(crate) fn emptied(folder: &Path) -> std::io::Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)
}

/// Puts what is in `fresh` into the model's place, and removes what was installed before.
fn swap(fresh: &Path, models: &Path) -> std::io::Result<()> {
    let (place, before) = (models.join(PLACE), models.join(format!(".{PLACE}.old")));
    if before.exists() {
        std::fs::remove_dir_all(&before)?;
    }
    let had = place.exists();
    if had {
        std::fs::rename(&place, &before)?;
    }
    if let Err(error) = std::fs::rename(fresh, &place) {
        if had {
            std::fs::rename(&before, &place)?;
        }
        return Err(error);
    }
    for old in [before, models.join(EARLIER)] {
        if old.exists() {
            std::fs::remove_dir_all(old)?;
        }
    }
    Ok(())
}

/// All of a regular file.
pub(crate) fn content(path: &Path) -> Result<Vec<u8>, String> {
    rooted_fs::files::read(path, MOST).map_err(|error| format!("{}: {error}", path.display()))
}

/// The tokenizer that belongs to a file of weights. Public repositories have the weights in a folder `onnx`.
fn words(weights: &Path) -> PathBuf {
    let beside = weights.with_file_name(WORDS);
    let folder = weights.parent();
    let above = folder.filter(|it| it.ends_with("onnx")).and_then(Path::parent);
    let above = above.map(|folder| folder.join(WORDS)).filter(|path| path.is_file());
    if beside.is_file() { beside } else { above.unwrap_or(beside) }
}

/// The one file of weights that is meant.
fn weights(from: &Path) -> Result<PathBuf, String> {
    let is_onnx = |path: &Path| path.extension().is_some_and(|it| it == "onnx");
    if !from.is_dir() {
        let fine = is_onnx(from) && from.is_file();
        let why = || format!("{} is neither a folder nor an `.onnx` file", from.display());
        return fine.then(|| from.to_owned()).ok_or_else(why);
    }
    let files = |folder: &Path| -> Result<Vec<PathBuf>, String> {
        let read = std::fs::read_dir(folder);
        let entries = read.map_err(|error| format!("{}: {error}", folder.display()))?;
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        Ok(paths.filter(|path| is_onnx(path) && path.is_file()).collect())
    };
    let mut found = files(from)?;
    let below = from.join("onnx");
    if found.is_empty() && below.is_dir() {
        found = files(&below)?;
    }
    match (found.pop(), found.len()) {
        (Some(only), 0) => Ok(only),
        (None, _) => Err(format!("{} has no `.onnx` file", from.display())),
        (Some(_), more) => {
            let all = more + 1;
            Err(format!("{} has {all} `.onnx` files; name the one that is meant", from.display()))
        }
    }
}

/// Whether the model does what a model of sentences is for.
fn check_ranking(model: &Sentences) -> Result<(), String> {
    let [cat, kitten, market] =
        ["A cat sat on the mat.", "A kitten rests on a rug.", "Shares fell."]
            .map(|text| model.vector(text));
    let (cat, kitten, market) = (cat?, kitten?, market?);
    let (near, far) = (likeness(&cat, &kitten), likeness(&cat, &market));
    if near > far + 0.1 {
        return Ok(());
    }
    Err(format!(
        "the check of similarities failed: \"cat\" is as close to \"shares\" ({far:.2}) as to \"kitten\" ({near:.2}); is \
         this a model of sentences?"
    ))
}
