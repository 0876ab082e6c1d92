//! Worker side of the language model: receives the two files in chunks, parses them and computes
//! vectors.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use builtins::{JobHandler, WorkerJob};
use word_vectors::WordPieceTokenizer;

use crate::onnx_model::{MOST_DIMENSIONS, SentenceModel};

/// Command-line argument that makes the binary run [`run_model_worker`].
pub const MODEL_WORKER_COMMAND: &str = "__model";
/// Maximum texts of one request: a query and its items.
const MOST_TEXTS: usize = 512;
/// Maximum bytes of a short answer or message.
const SHORT: usize = 64 << 10;
/// Time limit of a loading step or a request.
const LIMIT: Duration = Duration::from_mins(1);

/// Reserves memory for a file of this size in bytes: eight bytes, little-endian.
pub(crate) const RESERVE: WorkerJob = WorkerJob::new(b'R', LIMIT).with_max_answer_bytes(SHORT);
/// Appends a chunk to that file.
pub(crate) const APPEND: WorkerJob = WorkerJob::new(b'A', LIMIT).with_max_answer_bytes(SHORT);
/// Parses the file as a tokenizer.
pub(crate) const TOKENIZER: WorkerJob = WorkerJob::new(b'K', LIMIT).with_max_answer_bytes(SHORT);
/// Parses the file as weights. Returns the dimensions in four bytes, little-endian.
pub(crate) const WEIGHTS: WorkerJob = WorkerJob::new(b'W', LIMIT).with_max_answer_bytes(SHORT);
/// Computes the vectors of a JSON list of texts. Returns 32-bit floats, little-endian, vector after
/// vector.
pub(crate) const VECTORS: WorkerJob = WorkerJob::new(b'V', LIMIT)
    .with_max_answer_bytes(MOST_TEXTS * MOST_DIMENSIONS * size_of::<f32>());

/// Serves a language model over standard input and output, and also the jobs of `extra_handlers`.
/// Must be called first in `main`, in a sandbox.
pub fn run_model_worker(
    args: impl IntoIterator<Item = OsString>,
    extra_handlers: &[JobHandler],
) -> ExitCode {
    let begin = || {
        // Starts the threads now and waits until they run: later the sandbox allows no new thread.
        rten::thread_pool().run(|| rayon::broadcast(|_| ()));
        ModelState::default()
    };
    builtins::run_dedicated_worker(args, begin, |state, (letter, limit), bytes| {
        let extra = || extra_handlers.iter().find(|(job, _)| job.code() == letter);
        state
            .answer_job(letter, bytes)
            .or_else(|| extra().map(|(_, compute)| compute(bytes, limit)))
    })
}

/// State of the worker between jobs.
#[derive(Debug, Default)]
struct ModelState {
    file: Vec<u8>,
    tokenizer: Option<WordPieceTokenizer>,
    sentences: Option<SentenceModel>,
}

impl ModelState {
    /// Returns `None` if there is no such job.
    fn answer_job(&mut self, letter: u8, bytes: &[u8]) -> Option<Result<Vec<u8>, String>> {
        let known = |job: WorkerJob| job.code() == letter;
        Some(if known(RESERVE) {
            self.reserve_file(bytes)
        } else if known(APPEND) {
            self.file.extend_from_slice(bytes);
            Ok(Vec::new())
        } else if known(TOKENIZER) {
            let read = WordPieceTokenizer::parse_json(&std::mem::take(&mut self.file));
            read.map(|tokenizer| {
                self.tokenizer = Some(tokenizer);
                Vec::new()
            })
        } else if known(WEIGHTS) {
            self.load_model()
        } else if known(VECTORS) {
            self.compute_vectors(bytes)
        } else {
            return None;
        })
    }

    fn reserve_file(&mut self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let size = bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
        let size = usize::try_from(size).map_err(|error| error.to_string())?;
        self.file = Vec::new();
        self.file.try_reserve_exact(size).map_err(|error| error.to_string())?;
        Ok(Vec::new())
    }

    fn load_model(&mut self) -> Result<Vec<u8>, String> {
        let tokenizer = self.tokenizer.take().ok_or("the tokenizer was not sent")?;
        let sentences = SentenceModel::load_weights(tokenizer, std::mem::take(&mut self.file))?;
        let dimensions = u32::try_from(sentences.dimensions()).unwrap_or(u32::MAX);
        self.sentences = Some(sentences);
        Ok(dimensions.to_le_bytes().into())
    }

    fn compute_vectors(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let sentences = self.sentences.as_ref().ok_or("the weights were not sent")?;
        let texts: Vec<String> = serde_json::from_slice(bytes).map_err(|it| it.to_string())?;
        let mut answer = Vec::new();
        for text in texts {
            let vector = sentences.embed_text(&text)?;
            answer.extend(vector.into_iter().flat_map(f32::to_le_bytes));
        }
        Ok(answer)
    }
}
