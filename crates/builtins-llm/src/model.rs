//! The model: where it is installed, and what it makes of a text.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use rten::{Model, NodeId, RunOptions, ThreadPool, Value};

use crate::words::Words;

/// Numbers of a vector.
pub(crate) const WIDTH: usize = 384;
/// The folder of the model, below that of models.
const NAME: &str = "all-MiniLM-L6-v2";
const WEIGHTS: &str = "model.onnx";
const WORDS: &str = "tokenizer.json";
/// Bytes of either file, at most.
const MOST: u64 = 512 << 20;

/// A model that was found, and is read when it is first needed.
#[derive(Debug)]
pub struct Installed {
    folder: PathBuf,
    read: OnceLock<Result<Sentences, String>>,
}

impl Installed {
    /// The model below the folder `models`.
    ///
    /// # Errors
    /// What is missing, in words that follow "are not offered:".
    pub fn find(models: &Path) -> Result<Self, String> {
        let folder = models.join(NAME);
        let there = |name| folder.join(name).is_file();
        if there(WEIGHTS) && there(WORDS) {
            return Ok(Self { folder, read: OnceLock::new() });
        }
        Err("no language model is installed".to_owned())
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The model itself. Takes some 50 ms the first time.
    ///
    /// # Errors
    /// Why its files cannot be used.
    pub fn sentences(&self) -> Result<&Sentences, String> {
        let read = || Sentences::read(&self.folder.join(WEIGHTS), &self.folder.join(WORDS));
        self.read.get_or_init(read).as_ref().map_err(Clone::clone)
    }
}

/// Copies a model from `from` to its place below `models`, after it has shown that it works. `from` is its
/// folder, or its `.onnx` file beside a `tokenizer.json`. Answers where it is then.
///
/// # Errors
/// What is wrong with the files, or with copying them; what was installed before is still there then.
pub fn install(from: &Path, models: &Path) -> Result<PathBuf, String> {
    let weights = weights(from)?;
    let words = weights.with_file_name(WORDS);
    tried(&Sentences::read(&weights, &words)?)?;
    let (folder, fresh) = (models.join(NAME), models.join(format!(".{NAME}.new")));
    let told = |error: std::io::Error| format!("{}: {error}", models.display());
    if fresh.exists() {
        std::fs::remove_dir_all(&fresh).map_err(told)?;
    }
    std::fs::create_dir_all(&fresh).map_err(told)?;
    for (from, name) in [(&weights, WEIGHTS), (&words, WORDS)] {
        // Read and written, not copied: what is protected where it comes from need not be here.
        let bytes = content(from)?;
        std::fs::write(fresh.join(name), bytes).map_err(told)?;
    }
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(told)?;
    }
    std::fs::rename(&fresh, &folder).map_err(told)?;
    Ok(folder)
}

/// All of a regular file.
fn content(path: &Path) -> Result<Vec<u8>, String> {
    guard::files::read(path, MOST).map_err(|error| format!("{}: {error}", path.display()))
}

/// The one file of weights that is meant.
fn weights(from: &Path) -> Result<PathBuf, String> {
    let is_onnx = |path: &Path| path.extension().is_some_and(|it| it == "onnx");
    if !from.is_dir() {
        let fine = is_onnx(from) && from.is_file();
        let why = || format!("{} is neither a folder nor an `.onnx` file", from.display());
        return fine.then(|| from.to_owned()).ok_or_else(why);
    }
    let entries =
        std::fs::read_dir(from).map_err(|error| format!("{}: {error}", from.display()))?;
    let mut found: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_onnx(path)).collect();
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
fn tried(model: &Sentences) -> Result<(), String> {
    let [cat, kitten, market] =
        ["A cat sat on the mat.", "A kitten rests on a rug.", "Shares fell."]
            .map(|text| model.vector(text));
    let (cat, kitten, market) = (cat?, kitten?, market?);
    let (near, far) = (likeness(&cat, &kitten), likeness(&cat, &market));
    if near > far + 0.1 {
        return Ok(());
    }
    Err(format!("it finds a cat as like to shares ({far:.2}) as to a kitten ({near:.2})"))
}

/// A model of sentences, ready.
pub struct Sentences {
    model: Model,
    words: Words,
    ids: NodeId,
    mask: NodeId,
    vector: NodeId,
    /// Texts at the same time are computed on a thread each.
    pools: Vec<Arc<ThreadPool>>,
    next: AtomicUsize,
}

impl std::fmt::Debug for Sentences {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sentences").field("words", &self.words).finish_non_exhaustive()
    }
}

impl Sentences {
    /// Reads the weights, and the words that they were made with.
    ///
    /// # Errors
    /// What is wrong with the files.
    pub fn read(weights: &Path, words: &Path) -> Result<Self, String> {
        let told = |path: &Path, why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        let cut = Words::read(&content(words)?).map_err(|why| told(words, &why))?;
        // From its bytes: a model that is loaded by its path may name other files to read.
        let model = Model::load(content(weights)?).map_err(|error| told(weights, &error))?;
        let node = |name: &str| {
            model
                .node_id(name)
                .map_err(|_| told(weights, &format!("it has no input or output `{name}`")))
        };
        let (ids, mask, vector) = (node("ids")?, node("mask")?, node("emb")?);
        let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let pools = (0..threads).map(|_| Arc::new(ThreadPool::with_num_threads(1))).collect();
        let read = Self { model, words: cut, ids, mask, vector, pools, next: AtomicUsize::new(0) };
        // A vocabulary that is larger than the weights shows at its last piece.
        read.of(&[read.words.largest()]).map_err(|why| told(weights, &why))?;
        Ok(read)
    }

    /// What a text means: 384 numbers, of length 1.
    ///
    /// # Errors
    /// Where the model fails.
    pub fn vector(&self, text: &str) -> Result<Vec<f32>, String> {
        self.of(&self.words.numbers(text))
    }

    /// The numbers of a text's pieces, as the model is given them.
    pub fn numbers(&self, text: &str) -> Vec<i32> {
        self.words.numbers(text)
    }

    fn of(&self, numbers: &[i32]) -> Result<Vec<f32>, String> {
        let shape = [1, numbers.len()];
        let told = |error: &dyn std::fmt::Display| format!("the model failed: {error}");
        let ids = Value::from_shape(&shape, numbers.to_vec()).map_err(|error| told(&error))?;
        let ones = vec![1.0_f32; numbers.len()];
        let mask = Value::from_shape(&shape, ones).map_err(|error| told(&error))?;
        let at = self.next.fetch_add(1, Ordering::Relaxed) % self.pools.len().max(1);
        let options = RunOptions::default().with_thread_pool(self.pools.get(at).cloned());
        let inputs = vec![(self.ids, ids.into()), (self.mask, mask.into())];
        let made = self.model.run(inputs, &[self.vector], Some(options));
        let made = made.map_err(|error| told(&error))?.into_iter().next();
        let vector = made.and_then(|value| value.into_shape_vec::<f32, 2>().ok());
        let (_, vector) = vector.ok_or_else(|| told(&"it answers no rows of numbers"))?;
        unit(vector).ok_or_else(|| told(&format!("it answers no vector of {WIDTH} numbers")))
    }
}

fn unit(vector: Vec<f32>) -> Option<Vec<f32>> {
    let length = vector.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    let good = vector.len() == WIDTH && length.is_finite() && length > 0.0;
    #[expect(clippy::cast_possible_truncation, reason = "a vector of the model's own precision")]
    let scaled = |x: f32| (f64::from(x) / length) as f32;
    good.then(|| vector.into_iter().map(scaled).collect())
}

/// The cosine of the angle between two vectors of length 1.
pub(crate) fn likeness(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>().clamp(-1.0, 1.0)
}
