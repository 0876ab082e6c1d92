//! Client side of the language model worker: the requests it receives and the answers it returns.

use std::fmt::Display;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use builtins::{
    DedicatedWorker, FreshWorker, SandboxProvider, WorkerError, WorkerJob, WorkerPreparation,
    WorkerResources,
};
use bytes::Bytes;
use tool::BoxFuture;
use word_vectors::TextEmbedding;

use crate::model_worker_main::{
    APPEND, MODEL_WORKER_COMMAND, RESERVE, TOKENIZER, VECTORS, WEIGHTS,
};

/// Maximum bytes of either file.
pub(crate) const MOST: u64 = 512 << 20;
/// Bytes of a file per message: as many as fit into a pipe.
const PIECE: usize = 1 << 20;
/// Memory limit of the worker per byte of the files: as received, as parsed, as arranged for
/// computing.
const MEMORY_PER_BYTE: u64 = 3;
/// Additional memory for computing, in bytes.
const MEMORY: u64 = 256 << 20;
/// Number of compute threads.
const THREADS: usize = 4;
/// Environment variable with which rten sets the number of threads.
const THREADS_VARIABLE: &str = "RTEN_NUM_THREADS";

/// Worker for the model in two files, started on first use. Both files are opened at once, so that
/// each start loads the same model even if another is installed meanwhile.
#[derive(Debug)]
pub(crate) struct ModelWorker {
    worker: DedicatedWorker,
    dimensions: Arc<OnceLock<usize>>,
}

impl ModelWorker {
    /// Creates the worker and starts nothing yet. `expected` holds the dimensions that the facts
    /// file at this path states.
    pub(crate) fn new(
        sandboxes: &Arc<SandboxProvider>,
        (weights, tokenizer): (&Path, &Path),
        expected: Option<(usize, PathBuf)>,
    ) -> Self {
        let dimensions = Arc::default();
        let (weights, tokenizer) = (ModelFile::open(weights), ModelFile::open(tokenizer));
        let bytes = weights.size().saturating_add(tokenizer.size());
        let memory = bytes.saturating_mul(MEMORY_PER_BYTE).saturating_add(MEMORY);
        let memory = usize::try_from(memory).unwrap_or(usize::MAX);
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let share = WorkerResources { memory, threads: cores.min(THREADS) };
        let files = Files { weights, tokenizer, expected, dimensions: Arc::clone(&dimensions) };
        let worker =
            DedicatedWorker::new(sandboxes, (MODEL_WORKER_COMMAND, share), Box::new(files));
        let worker = worker.with_env(THREADS_VARIABLE, &share.threads.to_string());
        Self { worker, dimensions }
    }

    /// Returns the process, with its queue and counters.
    pub(crate) fn process(&self) -> &DedicatedWorker {
        &self.worker
    }

    /// Dimensions of a vector; `None` before the model was first loaded.
    pub(crate) fn dimensions(&self) -> Option<usize> {
        self.dimensions.get().copied()
    }

    /// Computes the vectors of texts without a record, in the turn of a user: a root key, or a part of
    /// Toolkeep.
    ///
    /// # Errors
    /// Describes why there are none.
    pub(crate) async fn compute_vectors(
        &self,
        user: &str,
        texts: &[&str],
    ) -> Result<Vec<TextEmbedding>, String> {
        let request = encode_request(texts)?;
        let turn = self.worker.acquire_turn(user).await.map_err(describe_error)?;
        let answer = turn.run_job(VECTORS, &request).await.map_err(describe_error)?;
        self.decode_vectors(&answer, texts.len())
    }

    /// Loads the model, unless it is loaded.
    ///
    /// # Errors
    /// Describes why the model cannot be used.
    pub(crate) async fn load(&self) -> Result<(), WorkerError> {
        self.worker.acquire_turn("").await?.ensure_prepared().await
    }

    /// Decodes the vectors of `count` texts from an answer. The worker is not trusted: each vector
    /// must have the model's dimensions and length 1.
    ///
    /// # Errors
    /// Fails if the answer has any other form.
    pub(crate) fn decode_vectors(
        &self,
        answer: &[u8],
        count: usize,
    ) -> Result<Vec<TextEmbedding>, String> {
        let dimensions = self.dimensions().unwrap_or_default();
        let (numbers, rest) = answer.as_chunks::<4>();
        let numbers: Vec<f32> = numbers.iter().map(|it| f32::from_le_bytes(*it)).collect();
        let fits = rest.is_empty() && dimensions > 0 && numbers.len() == count * dimensions;
        let vectors: Vec<TextEmbedding> =
            numbers.chunks_exact(dimensions.max(1)).map(<[f32]>::to_vec).collect();
        let is_unit = |vector: &TextEmbedding| {
            let length: f64 = vector.iter().map(|it| f64::from(*it).powi(2)).sum();
            (length - 1.0).abs() < 1e-2
        };
        let fine = fits && vectors.iter().all(is_unit);
        fine.then_some(vectors).ok_or_else(|| "the model's worker returned no vectors".to_owned())
    }
}

/// Encodes a request for the vectors of texts.
///
/// # Errors
/// No text causes an error.
pub(crate) fn encode_request(texts: &[&str]) -> Result<Bytes, String> {
    serde_json::to_vec(texts).map(Bytes::from).map_err(|error| error.to_string())
}

/// Describes the error for the caller.
pub(crate) fn describe_error(error: WorkerError) -> String {
    match error {
        WorkerError::Ended(why) => {
            format!("the language model's worker ended; the next call starts a new one: {why}")
        }
        other => other.into_message(),
    }
}

/// Weights and tokenizer files of a model.
#[derive(Debug)]
struct Files {
    weights: ModelFile,
    tokenizer: ModelFile,
    expected: Option<(usize, PathBuf)>,
    dimensions: Arc<OnceLock<usize>>,
}

impl Files {
    async fn send(&self, worker: &mut FreshWorker) -> Result<(), WorkerError> {
        self.tokenizer.send(worker, TOKENIZER).await?;
        let answer = self.weights.send(worker, WEIGHTS).await?;
        let dimensions = answer.as_slice().try_into().map(u32::from_le_bytes).unwrap_or_default();
        let has = usize::try_from(dimensions).unwrap_or_default();
        if let Some((says, place)) = self.expected.as_ref().filter(|(says, _)| *says != has) {
            return Err(WorkerError::Refused(format!(
                "{}: it states {says} dimensions, but the model has {has}",
                place.display()
            )));
        }
        let before = *self.dimensions.get_or_init(|| has);
        if before == has { Ok(()) } else { Err(self.weights.refused(&"its dimensions changed")) }
    }
}

impl WorkerPreparation for Files {
    fn prepare_worker<'a>(
        &'a self,
        worker: &'a mut FreshWorker,
    ) -> BoxFuture<'a, Result<(), WorkerError>> {
        Box::pin(self.send(worker))
    }
}

/// Open file of a model, or the reason why it could not be opened.
#[derive(Debug)]
struct ModelFile {
    path: PathBuf,
    opened: Result<(Arc<File>, u64), String>,
}

impl ModelFile {
    fn open(path: &Path) -> Self {
        let opened = || {
            let file = rooted_fs::regular_file::open_regular(path)?;
            let size = file.metadata()?.len();
            Ok((Arc::new(file), size))
        };
        let opened = opened().map_err(|error: io::Error| error.to_string());
        Self { path: path.to_owned(), opened }
    }

    fn size(&self) -> u64 {
        self.opened.as_ref().map_or(0, |(_, size)| (*size).min(MOST))
    }

    fn refused(&self, why: &dyn Display) -> WorkerError {
        WorkerError::Refused(format!("{}: {why}", self.path.display()))
    }

    /// Sends the file in chunks, then the job `load`, which parses it.
    async fn send(
        &self,
        worker: &mut FreshWorker,
        load: WorkerJob,
    ) -> Result<Vec<u8>, WorkerError> {
        let (file, size) = self.opened.as_ref().map_err(|why| self.refused(why))?;
        if *size > MOST {
            return Err(self.refused(&format!("it has more than {MOST} bytes")));
        }
        let reserve = Bytes::copy_from_slice(&size.to_le_bytes());
        self.ask(worker, RESERVE, &reserve).await?;
        let (mut sent, mut buffer) = (0, Vec::new());
        while sent < *size {
            let read = piece(file, (sent, *size), buffer).await;
            let piece = Bytes::from(read.map_err(|error| self.refused(&error))?);
            sent += piece.len() as u64;
            self.ask(worker, APPEND, &piece).await?;
            // The buffer of one chunk is used again for the next.
            buffer = Vec::from(piece);
        }
        self.ask(worker, load, &Bytes::new()).await
    }

    /// Sends one job. An error that the worker reports about the file is permanent.
    async fn ask(
        &self,
        worker: &mut FreshWorker,
        job: WorkerJob,
        args: &Bytes,
    ) -> Result<Vec<u8>, WorkerError> {
        worker.run_job(job, args).await.map_err(|error| match error {
            WorkerError::Failed(why) => self.refused(&why),
            other => other,
        })
    }
}

/// Reads the next chunk of `file` from offset `from` into `buffer`. The server never holds more of
/// it.
async fn piece(
    file: &Arc<File>,
    (from, size): (u64, u64),
    mut buffer: Vec<u8>,
) -> io::Result<Vec<u8>> {
    let file = Arc::clone(file);
    let length = usize::try_from(size - from).unwrap_or(PIECE).min(PIECE);
    let read = tokio::task::spawn_blocking(move || {
        buffer.resize(length, 0);
        file.read_exact_at(&mut buffer, from).map(|()| buffer)
    });
    read.await.map_err(io::Error::other)?
}
