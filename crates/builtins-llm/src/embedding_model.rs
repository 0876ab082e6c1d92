//! The embedding model: its location, installation and use.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use builtins::{DedicatedWorker, SandboxProvider, WorkerError};
use serde::{Deserialize, Serialize};
use word_vectors::cosine_similarity;

use crate::model_worker::{MOST, ModelWorker, describe_error};

/// Folder of the model, below the models folder.
const PLACE: &str = "embedding";
/// Folder of earlier versions, named after the only model that they supported.
const EARLIER: &str = "all-MiniLM-L6-v2";
const WEIGHTS: &str = "model.onnx";
const TOKENIZER_FILE: &str = "tokenizer.json";
const FACTS: &str = "model.json";
/// Maximum bytes of the facts file.
const MOST_FACTS: u64 = 64 << 10;
/// Maximum letters of a model's name.
const MOST_NAME: usize = 64;

/// Facts about an installed model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFacts {
    /// Name of the model: letters, digits and `-_.` only.
    pub name: String,
    /// Dimensions of a vector.
    pub dimensions: usize,
    /// Address that it was downloaded from, if it was downloaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl ModelFacts {
    /// Returns name and dimensions, as shown in answers and descriptions.
    pub fn label(&self) -> String {
        format_label(&self.name, self.dimensions)
    }
}

/// Formats a model's name and dimensions.
pub(crate) fn format_label(name: &str, dimensions: usize) -> String {
    format!("{name}, {dimensions} dimensions")
}

/// Installed model. A worker loads it on first use.
#[derive(Debug)]
pub struct InstalledModel {
    folder: PathBuf,
    facts: ModelFacts,
    worker: ModelWorker,
}

impl InstalledModel {
    /// Finds the model below the folder `models_dir`, to run in a worker of `sandboxes`; `None` if
    /// none is installed.
    pub fn locate_model(models_dir: &Path, sandboxes: &Arc<SandboxProvider>) -> Option<Self> {
        [PLACE, EARLIER].into_iter().find_map(|place| {
            let folder = models_dir.join(place);
            let (weights, tokenizer) = (folder.join(WEIGHTS), folder.join(TOKENIZER_FILE));
            if !(weights.is_file() && tokenizer.is_file()) {
                return None;
            }
            let facts = read_facts(&folder);
            let expected = (facts.dimensions, folder.join(FACTS));
            let worker = ModelWorker::new(sandboxes, (&weights, &tokenizer), Some(expected));
            Some(Self { folder, facts, worker })
        })
    }

    /// Returns the folder of the model.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the model's name, dimensions and source.
    pub fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    /// Loads the model in its worker, unless it is loaded.
    ///
    /// # Errors
    /// Describes why the model cannot be used; [`WorkerError::Blocked`] if there is no sandbox for
    /// it.
    pub async fn load_model(&self) -> Result<(), WorkerError> {
        self.worker.load().await
    }

    /// Computes the embeddings of texts, with length 1, in one request to the worker. The requests of
    /// different users take turns.
    ///
    /// # Errors
    /// Describes why there are none.
    pub async fn embed_texts(&self, user: &str, texts: &[&str]) -> Result<Vec<Vec<f32>>, String> {
        self.worker.compute_vectors(user, texts).await
    }

    /// Returns the worker's process, with its queue and counters.
    pub fn process(&self) -> &DedicatedWorker {
        self.worker.process()
    }

    pub(crate) fn worker(&self) -> &ModelWorker {
        &self.worker
    }
}

/// Reads the facts file beside the model. Without one, it is the model of earlier versions.
fn read_facts(folder: &Path) -> ModelFacts {
    let read = rooted_fs::regular_file::read_bytes(folder.join(FACTS), MOST_FACTS).ok();
    let read = read.and_then(|bytes| serde_json::from_slice::<ModelFacts>(&bytes).ok());
    let read = read.map(|facts| ModelFacts { name: plain_name(&facts.name), ..facts });
    let earlier = || ModelFacts { name: EARLIER.to_owned(), dimensions: 384, source: None };
    read.unwrap_or_else(earlier)
}

/// Reduces a name to safe characters, so that it can only be read as a name.
fn plain_name(text: &str) -> String {
    let plain = |letter: &char| letter.is_ascii_alphanumeric() || "-_.".contains(*letter);
    let name: String = text.chars().filter(plain).take(MOST_NAME).collect();
    if name.is_empty() { "model".to_owned() } else { name }
}

/// Tests a model from `source_dir` and copies it to its place below `models_dir`. `source_dir` is
/// its folder or its `.onnx` file; `tokenizer.json` is beside the file, or in the folder above one
/// named `onnx`. The test runs in a worker of `sandboxes`. Returns the installed model.
///
/// # Errors
/// Describes the fault of the files or of the copy. The model that was installed before stays in
/// place.
pub async fn install_model(
    source_dir: &Path,
    models_dir: &Path,
    sandboxes: &Arc<SandboxProvider>,
) -> Result<InstalledModel, String> {
    let weights = find_weights_file(source_dir)?;
    let tokenizer = tokenizer_path(&weights);
    let resolved = tokenizer.canonicalize().ok();
    let folder = resolved.as_deref().and_then(Path::parent).and_then(Path::file_name);
    let name = plain_name(&folder.unwrap_or_default().to_string_lossy());
    install_files((&weights, &tokenizer), (&name, None), models_dir, sandboxes).await
}

/// Installs a model from its two files, with its name and source.
pub(crate) async fn install_files(
    (weights, tokenizer): (&Path, &Path),
    (name, source): (&str, Option<String>),
    models_dir: &Path,
    sandboxes: &Arc<SandboxProvider>,
) -> Result<InstalledModel, String> {
    let dimensions = try_model(weights, tokenizer, sandboxes).await?;
    let facts = ModelFacts { name: plain_name(name), dimensions, source };
    let (weights, tokenizer) = (weights.to_owned(), tokenizer.to_owned());
    let place = models_dir.to_owned();
    let copied =
        tokio::task::spawn_blocking(move || copy_files((&weights, &tokenizer), &facts, &place));
    copied.await.map_err(|_| "the installation failed".to_owned())??;
    let gone = || format!("{}: the model was removed", models_dir.display());
    InstalledModel::locate_model(models_dir, sandboxes).ok_or_else(gone)
}

/// Checks that there is a sandbox in which a model can be tested and run.
///
/// # Errors
/// Describes why there is none, and names the replacement.
pub(crate) async fn check_sandbox_available(sandboxes: &SandboxProvider) -> Result<(), String> {
    let why = sandboxes.usable_level().await.err();
    why.map_or(Ok(()), |why| Err(without_sandbox(&why)))
}

fn without_sandbox(why: &str) -> String {
    format!(
        "a language model requires a sandbox, but {why}; the built-in word vectors are used \
        instead"
    )
}

/// Loads the model in a worker and checks its ranking. Returns its dimensions.
async fn try_model(
    weights: &Path,
    tokenizer: &Path,
    sandboxes: &Arc<SandboxProvider>,
) -> Result<usize, String> {
    check_sandbox_available(sandboxes).await?;
    let model = ModelWorker::new(sandboxes, (weights, tokenizer), None);
    model.load().await.map_err(|error| match error {
        WorkerError::Ended(why) => {
            format!("{}: the worker that tested it ended: {why}", weights.display())
        }
        other => describe_error(other),
    })?;
    check_ranking(&model).await?;
    model.dimensions().ok_or_else(|| "the model has no dimensions".to_owned())
}

/// Copies the files and the facts into the model's folder.
fn copy_files(
    (weights, tokenizer): (&Path, &Path),
    facts: &ModelFacts,
    models: &Path,
) -> Result<(), String> {
    let text = serde_json::to_vec_pretty(facts).map_err(|error| error.to_string())?;
    let fresh = models.join(format!(".{PLACE}.new"));
    let told = |error: std::io::Error| format!("{}: {error}", models.display());
    clear_folder(&fresh).map_err(told)?;
    for (from, name) in [(weights, WEIGHTS), (tokenizer, TOKENIZER_FILE)] {
        // Read and written, not copied: file attributes of the source need not apply here.
        let bytes = read_content(from)?;
        std::fs::write(fresh.join(name), bytes).map_err(told)?;
    }
    std::fs::write(fresh.join(FACTS), text).map_err(told)?;
    swap_folders(&fresh, models).map_err(told)
}

/// Creates the folder, or empties it.
fn clear_folder(folder: &Path) -> std::io::Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)
}

/// Moves `fresh` to the model's folder and removes the model that was installed before.
fn swap_folders(fresh: &Path, models: &Path) -> std::io::Result<()> {
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

/// Reads a whole regular file.
fn read_content(path: &Path) -> Result<Vec<u8>, String> {
    rooted_fs::regular_file::read_bytes(path, MOST)
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the tokenizer of a weights file. Public repositories store the weights in a folder
/// `onnx`.
fn tokenizer_path(weights: &Path) -> PathBuf {
    let beside = weights.with_file_name(TOKENIZER_FILE);
    let folder = weights.parent();
    let above = folder.filter(|it| it.ends_with("onnx")).and_then(Path::parent);
    let above = above.map(|folder| folder.join(TOKENIZER_FILE)).filter(|path| path.is_file());
    if beside.is_file() { beside } else { above.unwrap_or(beside) }
}

/// Finds the single weights file at this path.
fn find_weights_file(from: &Path) -> Result<PathBuf, String> {
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
            Err(format!("{} has {all} `.onnx` files; name one of them", from.display()))
        }
    }
}

/// Checks that the model ranks related sentences above unrelated ones.
async fn check_ranking(model: &ModelWorker) -> Result<(), String> {
    let texts = ["A cat sat on the mat.", "A kitten rests on a rug.", "Shares fell."];
    let vectors = model.compute_vectors("", &texts).await?;
    let [cat, kitten, market] = vectors.as_slice() else {
        return Err("the model's worker returned no vectors".to_owned());
    };
    let (near, far) = (cosine_similarity(cat, kitten), cosine_similarity(cat, market));
    if near > far + 0.1 {
        return Ok(());
    }
    Err(format!(
        "the check of similarities failed: \"cat\" is as close to \"shares\" ({far:.2}) as to \"kitten\" ({near:.2}); is \
         this a model of sentences?"
    ))
}
