//! The worker's side of the language model: it receives the two files in pieces, parses them, and computes vectors.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use builtins::{Extra, Job};

use crate::onnx::{MOST_DIMENSIONS, Sentences};
use crate::words::Words;

/// The word with which the binary is asked to run [`serve_model`].
pub const MODEL_WORK: &str = "__model";
/// Texts of one request: a query and its items.
const MOST_TEXTS: usize = 512;
/// Bytes of a short answer, and of a message.
const SHORT: usize = 64 << 10;
/// The longest that a step of loading or a request may take.
const LIMIT: Duration = Duration::from_mins(1);

/// Reserves memory for a file of so many bytes, eight of them, little-endian.
pub(crate) const RESERVE: Job = Job::new(b'R', LIMIT).with_longest_answer(SHORT);
/// A piece of that file.
pub(crate) const APPEND: Job = Job::new(b'A', LIMIT).with_longest_answer(SHORT);
/// Parses the file as a tokenizer.
pub(crate) const TOKENIZER: Job = Job::new(b'K', LIMIT).with_longest_answer(SHORT);
/// Parses the file as weights. Answers the dimensions, four bytes, little-endian.
pub(crate) const WEIGHTS: Job = Job::new(b'W', LIMIT).with_longest_answer(SHORT);
/// Computes the vectors of a JSON list of texts. Answers 32-bit floats, little-endian, one vector behind the other.
pub(crate) const VECTORS: Job =
    Job::new(b'V', LIMIT).with_longest_answer(MOST_TEXTS * MOST_DIMENSIONS * size_of::<f32>());

/// Serves a language model to the process at the other ends of standard input and output, and what `more` names. To
/// be called first thing in `main`, in a cage.
pub fn serve_model(args: impl IntoIterator<Item = OsString>, more: &[Extra]) -> ExitCode {
    let begin = || {
        // Its threads are started now, and have begun: after this no thread can do either.
        rten::thread_pool().run(|| rayon::broadcast(|_| ()));
        ModelState::default()
    };
    builtins::serve_dedicated(args, begin, |state, (letter, limit), bytes| {
        let extra = || more.iter().find(|(job, _)| job.letter() == letter);
        state.answer(letter, bytes).or_else(|| extra().map(|(_, compute)| compute(bytes, limit)))
    })
}

/// What was received so far.
#[derive(Debug, Default)]
struct ModelState {
    file: Vec<u8>,
    words: Option<Words>,
    sentences: Option<Sentences>,
}

impl ModelState {
    /// `None` where there is no such job.
    fn answer(&mut self, letter: u8, bytes: &[u8]) -> Option<Result<Vec<u8>, String>> {
        let known = |job: Job| job.letter() == letter;
        Some(if known(RESERVE) {
            self.reserve(bytes)
        } else if known(APPEND) {
            self.file.extend_from_slice(bytes);
            Ok(Vec::new())
        } else if known(TOKENIZER) {
            let read = Words::read(&std::mem::take(&mut self.file));
            read.map(|words| {
                self.words = Some(words);
                Vec::new()
            })
        } else if known(WEIGHTS) {
            self.load()
        } else if known(VECTORS) {
            self.vectors(bytes)
        } else {
            return None;
        })
    }

    fn reserve(&mut self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let size = bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
        let size = usize::try_from(size).map_err(|error| error.to_string())?;
        self.file = Vec::new();
        self.file.try_reserve_exact(size).map_err(|error| error.to_string())?;
        Ok(Vec::new())
    }

    fn load(&mut self) -> Result<Vec<u8>, String> {
        let words = self.words.take().ok_or("the tokenizer was not sent")?;
        let sentences = Sentences::load(words, std::mem::take(&mut self.file))?;
        let dimensions = u32::try_from(sentences.dimensions()).unwrap_or(u32::MAX);
        self.sentences = Some(sentences);
        Ok(dimensions.to_le_bytes().into())
    }

    fn vectors(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let sentences = self.sentences.as_ref().ok_or("the weights were not sent")?;
        let texts: Vec<String> = serde_json::from_slice(bytes).map_err(|it| it.to_string())?;
        let mut answer = Vec::new();
        for text in texts {
            let vector = sentences.vector(&text)?;
            answer.extend(vector.into_iter().flat_map(f32::to_le_bytes));
        }
        Ok(answer)
    }
}
