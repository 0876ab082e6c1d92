//! The embedding model: its location, installation and use.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use builtins::{Cages, DedicatedWorker, WorkerError};
use serde::{Deserialize, Serialize};

use crate::model_worker::{MOST, ModelWorker, message};
use crate::vector::likeness;

/// The folder of the model, below that of models.
const PLACE: &str = "embedding";
/// The one that earlier versions used, for the only model that they took.
const EARLIER: &str = "all-MiniLM-L6-v2";
const WEIGHTS: &str = "model.onnx";
const WORDS: &str = "tokenizer.json";
const FACTS: &str = "model.json";
/// Bytes of the facts, at most.
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

/// A model that was found. A worker loads it when it is first needed.
#[derive(Debug)]
pub struct Installed {
    folder: PathBuf,
    facts: ModelFacts,
    worker: ModelWorker,
}

impl Installed {
    /// The model below the folder `models`, to run in a worker of `cages`; nothing where none is installed.
    pub fn find(models: &Path, cages: &Arc<Cages>) -> Option<Self> {
        [PLACE, EARLIER].into_iter().find_map(|place| {
            let folder = models.join(place);
            let (weights, words) = (folder.join(WEIGHTS), folder.join(WORDS));
            if !(weights.is_file() && words.is_file()) {
                return None;
            }
            let facts = facts(&folder);
            let expected = (facts.dimensions, folder.join(FACTS));
            let worker = ModelWorker::new(cages, (&weights, &words), Some(expected));
            Some(Self { folder, facts, worker })
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

    /// Loads the model in its worker, where that has not happened.
    ///
    /// # Errors
    /// Why it cannot be used; [`WorkerError::Blocked`] where there is no sandbox for it.
    pub async fn load(&self) -> Result<(), WorkerError> {
        self.worker.load().await
    }

    /// The vectors of texts, with length 1, in one request to the worker.
    ///
    /// # Errors
    /// Why there are none.
    pub async fn vectors(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, String> {
        self.worker.vectors(texts).await
    }

    /// The worker's process, its queue and its counts.
    pub fn process(&self) -> &DedicatedWorker {
        self.worker.process()
    }

    pub(crate) fn worker(&self) -> &ModelWorker {
        &self.worker
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
/// folder, or its `.onnx` file; `tokenizer.json` is beside the file, or in the folder above one named `onnx`. The
/// trial runs in a worker of `cages`. Answers where it is then.
///
/// # Errors
/// What is wrong with the files, or with copying them; what was installed before is still there then.
pub async fn install(from: &Path, models: &Path, cages: &Arc<Cages>) -> Result<Installed, String> {
    let weights = weights(from)?;
    let words = words(&weights);
    let resolved = words.canonicalize().ok();
    let folder = resolved.as_deref().and_then(Path::parent).and_then(Path::file_name);
    let name = plain_name(&folder.unwrap_or_default().to_string_lossy());
    put((&weights, &words), (&name, None), models, cages).await
}

/// The same with the two files, and the model's name and source.
pub(crate) async fn put(
    (weights, words): (&Path, &Path),
    (name, source): (&str, Option<String>),
    models: &Path,
    cages: &Arc<Cages>,
) -> Result<Installed, String> {
    let dimensions = tried(weights, words, cages).await?;
    let facts = ModelFacts { name: plain_name(name), dimensions, source };
    let (weights, words) = (weights.to_owned(), words.to_owned());
    let place = models.to_owned();
    let copied = tokio::task::spawn_blocking(move || copied((&weights, &words), &facts, &place));
    copied.await.map_err(|_| "the installation broke down".to_owned())??;
    let gone = || format!("{}: the model is gone again", models.display());
    Installed::find(models, cages).ok_or_else(gone)
}

/// Whether there is a sandbox in which a model can be tried and run.
///
/// # Errors
/// Why there is none, and what answers instead.
pub(crate) async fn sandboxed(cages: &Cages) -> Result<(), String> {
    let why = cages.tier().await.err();
    why.map_or(Ok(()), |why| Err(without_sandbox(&why)))
}

fn without_sandbox(why: &str) -> String {
    format!("a language model runs in a sandbox alone, and {why}; the built-in word vectors answer")
}

/// Loads the model in a worker, and checks that it ranks. Returns its dimensions.
async fn tried(weights: &Path, words: &Path, cages: &Arc<Cages>) -> Result<usize, String> {
    sandboxed(cages).await?;
    let model = ModelWorker::new(cages, (weights, words), None);
    model.load().await.map_err(|error| match error {
        WorkerError::Ended(why) => {
            format!("{}: the worker that tried it ended: {why}", weights.display())
        }
        other => message(other),
    })?;
    check_ranking(&model).await?;
    model.dimensions().ok_or_else(|| "the model has no dimensions".to_owned())
}

/// Puts copies of the files and the facts into the model's place.
fn copied(
    (weights, words): (&Path, &Path),
    facts: &ModelFacts,
    models: &Path,
) -> Result<(), String> {
    let text = serde_json::to_vec_pretty(facts).map_err(|error| error.to_string())?;
    let fresh = models.join(format!(".{PLACE}.new"));
    let told = |error: std::io::Error| format!("{}: {error}", models.display());
    emptied(&fresh).map_err(told)?;
    for (from, name) in [(weights, WEIGHTS), (words, WORDS)] {
        // Read and written, not copied: what is protected where it comes from need not be here.
        let bytes = content(from)?;
        std::fs::write(fresh.join(name), bytes).map_err(told)?;
    }
    std::fs::write(fresh.join(FACTS), text).map_err(told)?;
    swap(&fresh, models).map_err(told)
}

/// The folder, with nothing in it.
fn emptied(folder: &Path) -> std::io::Result<()> {
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
fn content(path: &Path) -> Result<Vec<u8>, String> {
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
async fn check_ranking(model: &ModelWorker) -> Result<(), String> {
    let texts = ["A cat sat on the mat.", "A kitten rests on a rug.", "Shares fell."];
    let vectors = model.vectors(&texts).await?;
    let [cat, kitten, market] = vectors.as_slice() else {
        return Err("the model's worker answered no vectors".to_owned());
    };
    let (near, far) = (likeness(cat, kitten), likeness(cat, market));
    if near > far + 0.1 {
        return Ok(());
    }
    Err(format!(
        "the check of similarities failed: \"cat\" is as close to \"shares\" ({far:.2}) as to \"kitten\" ({near:.2}); is \
         this a model of sentences?"
    ))
}
