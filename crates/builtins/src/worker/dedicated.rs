//! A worker with large state, such as a language model. One process starts and is prepared at the
//! first request, stays alive, and restarts after a crash.
//!
//! All callers share it and take turns, because the quota has one slot. A caller that cancels while
//! its request runs ends the process.

use std::ffi::OsString;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use sandbox::Cage;
use sandbox::process::EnvValue;
use tokio::time::Instant;
use tool::{Boxed, Caged};

use super::{Job, Trouble, Worker, WorkerPlace, WorkerQuota};
use crate::cages::Cages;

/// Address space in bytes beyond the allocation limit: code, stacks and allocator reserves.
const SPACE: u64 = 3 << 30;
/// Resident bytes beyond the allocation limit.
const RESIDENT: u64 = 256 << 20;
/// CPU time of a worker's life, in seconds. Each request has its own deadline.
const PROCESSOR: u64 = 30 * 24 * 3_600;
/// Threads of the process beyond those in its resources.
const THREADS: u64 = 4;
/// Delay after the first failed start; each further failure doubles it.
const BACKOFF: Duration = Duration::from_millis(500);
/// Longest delay between starts.
const MAX_BACKOFF: Duration = Duration::from_mins(1);
/// Largest length of a worker's message, in characters.
const MESSAGE: usize = 2_000;

/// Memory and threads that a dedicated worker may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerShare {
    /// Bytes that it may allocate.
    pub memory: usize,
    /// Threads that it may start before its first request.
    pub threads: usize,
}

impl WorkerShare {
    fn to_args(self) -> [String; 2] {
        [self.memory, self.threads].map(|number| number.to_string())
    }

    /// Parses the output of [`to_args`](Self::to_args); `None` if it is malformed.
    pub(super) fn of_args(args: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let numbers = args.into_iter().map(|word| word.to_str()?.parse().ok());
        match numbers.collect::<Option<Vec<usize>>>()?.as_slice() {
            [memory, threads] => Some(Self { memory: *memory, threads: *threads }),
            _ => None,
        }
    }
}

/// Prepares a started worker for requests.
pub trait Prepare: Debug + Send + Sync {
    /// Sends `worker` what it needs before its first request.
    ///
    /// # Errors
    /// [`WorkerError::Refused`] where another start would fail in the same way, and what `worker` returns.
    fn prepare<'a>(&'a self, worker: &'a mut FreshWorker) -> Boxed<'a, Result<(), WorkerError>>;
}

/// Reason why a dedicated worker returned no answer, with a message for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerError {
    /// Too many requests of this root key are pending, or the last starts failed; a later call may succeed.
    Busy(String),
    /// No worker can be started: this machine has no sandbox that the operator allows.
    Blocked(String),
    /// The preparation failed for a lasting reason. No further worker is started.
    Refused(String),
    /// The worker reports what is wrong with the request.
    Failed(String),
    /// The worker ended during the request, or took too long and was ended.
    Ended(String),
}

impl WorkerError {
    /// Returns the message without the kind of failure.
    pub fn into_message(self) -> String {
        let (Self::Busy(words)
        | Self::Blocked(words)
        | Self::Refused(words)
        | Self::Failed(words)
        | Self::Ended(words)) = self;
        words
    }
}

/// Counters of a dedicated worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkerCounts {
    /// Processes that were started.
    pub starts: u64,
    /// Requests that were sent, not counting the preparation.
    pub requests: u64,
}

/// One worker process, shared by all callers.
#[derive(Debug)]
pub struct DedicatedWorker {
    cages: Arc<Cages>,
    /// The command-line argument that makes the binary run this worker.
    word: &'static str,
    share: WorkerShare,
    env: Vec<(String, EnvValue)>,
    preparation: Box<dyn Prepare>,
    quota: WorkerQuota,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The worker between two requests.
    ready: Option<Worker>,
    refused: Option<String>,
    failed: Option<FailedStart>,
    counts: WorkerCounts,
}

/// Consecutive failed starts.
#[derive(Debug, Clone)]
struct FailedStart {
    count: u32,
    why: String,
    retry_at: Instant,
}

impl DedicatedWorker {
    /// Creates a worker of this binary in a sandbox; it starts with the argument `word` on first
    /// use.
    pub fn new(
        cages: &Arc<Cages>,
        (word, share): (&'static str, WorkerShare),
        preparation: Box<dyn Prepare>,
    ) -> Self {
        Self {
            cages: Arc::clone(cages),
            word,
            share,
            env: Vec::new(),
            preparation,
            quota: WorkerQuota::new(1),
            state: Mutex::default(),
        }
    }

    /// Adds a variable to the worker's environment, which is otherwise empty.
    #[must_use]
    pub fn with_env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// Waits for this root key's turn and returns exclusive use of the worker.
    ///
    /// # Errors
    /// [`WorkerError::Busy`] where too many requests of the key are pending.
    pub async fn enter(&self, key: &str) -> Result<WorkerTurn<'_>, WorkerError> {
        let place = self.quota.enter(key).await.map_err(WorkerError::Busy)?;
        Ok(WorkerTurn { worker: self, _place: place, took: Mutex::default() })
    }

    /// Returns the counters so far.
    pub fn counts(&self) -> WorkerCounts {
        self.lock().counts
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the idle worker; `None` means that a new one may be started.
    fn kept(&self) -> Result<Option<Worker>, WorkerError> {
        let mut state = self.lock();
        if let Some(worker) = state.ready.take() {
            return Ok(Some(worker));
        }
        if let Some(why) = &state.refused {
            return Err(WorkerError::Refused(why.clone()));
        }
        let Some(FailedStart { count, why, retry_at }) = &state.failed else { return Ok(None) };
        let left = retry_at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let seconds = left.as_secs() + 1;
        Err(WorkerError::Busy(format!(
            "the last {count} starts of the worker failed ({why}); it is started again in {seconds} s"
        )))
    }

    /// Records the result of a start for later calls.
    fn record_start(&self, started: Result<&Worker, &WorkerError>) {
        let mut state = self.lock();
        match started {
            Ok(_) => state.failed = None,
            Err(WorkerError::Refused(why)) => state.refused = Some(why.clone()),
            Err(WorkerError::Ended(why)) => {
                let count = state.failed.as_ref().map_or(0, |it| it.count).saturating_add(1);
                let doubled = BACKOFF.saturating_mul(1 << (count - 1).min(16));
                let retry_at = Instant::now() + doubled.min(MAX_BACKOFF);
                state.failed = Some(FailedStart { count, why: why.clone(), retry_at });
            }
            Err(_) => {}
        }
    }

    async fn start(&self) -> Result<Worker, WorkerError> {
        let tier = self.cages.tier().await.map_err(WorkerError::Blocked)?;
        let memory = u64::try_from(self.share.memory).unwrap_or(u64::MAX);
        let mut cage = Cage::new(tier);
        cage.this_binary = true;
        cage.share.memory = memory.saturating_add(SPACE);
        cage.share.together = memory.saturating_add(RESIDENT);
        cage.share.cpu = PROCESSOR;
        cage.share.file = 0;
        cage.share.processes = THREADS + self.share.threads as u64;
        let args = std::iter::once(self.word.to_owned()).chain(self.share.to_args()).collect();
        self.lock().counts.starts += 1;
        let started = Worker::start(&self.cages, cage, (args, "/".into(), self.env.clone())).await;
        started.map_err(WorkerError::Ended)
    }
}

/// Exclusive use of a [`DedicatedWorker`] until dropped.
#[derive(Debug)]
pub struct WorkerTurn<'a> {
    worker: &'a DedicatedWorker,
    _place: WorkerPlace,
    took: Mutex<Option<Caged>>,
}

impl WorkerTurn<'_> {
    /// Runs `job` and starts and prepares a worker first if needed. Dropping the future ends the
    /// worker.
    ///
    /// # Errors
    /// The reason why there is no answer.
    pub async fn request(&self, job: Job, args: &Bytes) -> Result<Vec<u8>, WorkerError> {
        let worker = self.prepared().await?;
        self.worker.lock().counts.requests += 1;
        let ran = |took| self.add(took);
        match worker.exchange(job, args, &ran).await {
            Ok((answer, worker)) => {
                self.worker.lock().ready = Some(worker);
                answer.map_err(|words| WorkerError::Failed(cut(&words)))
            }
            Err(trouble) => Err(ended(trouble, job, &ran).await),
        }
    }

    /// Starts and prepares a worker if none is ready.
    ///
    /// # Errors
    /// The reason why no worker is ready.
    pub async fn prepare(&self) -> Result<(), WorkerError> {
        let worker = self.prepared().await?;
        self.worker.lock().ready = Some(worker);
        Ok(())
    }

    /// Returns the resource usage of all requests, for the record of their call.
    pub fn took(&self) -> Option<Caged> {
        self.took.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, took: Caged) {
        let mut all = self.took.lock().unwrap_or_else(PoisonError::into_inner);
        *all = Some(took.after(all.take()));
    }

    async fn prepared(&self) -> Result<Worker, WorkerError> {
        if let Some(mut worker) = self.worker.kept()? {
            // A worker that ended while idle is replaced without an error.
            if !worker.has_ended().await {
                return Ok(worker);
            }
        }
        let started = self.fresh().await;
        self.worker.record_start(started.as_ref());
        started
    }

    async fn fresh(&self) -> Result<Worker, WorkerError> {
        let worker = self.worker.start().await?;
        let mut fresh = FreshWorker { worker: Some(worker), took: None };
        let prepared = self.worker.preparation.prepare(&mut fresh).await;
        if let Some(took) = fresh.took.take() {
            self.add(took);
        }
        prepared?;
        fresh.worker.ok_or_else(gone)
    }
}

/// A worker that has started but is not prepared yet.
#[derive(Debug)]
pub struct FreshWorker {
    /// `None` while a request runs, and after the worker has ended.
    worker: Option<Worker>,
    took: Option<Caged>,
}

impl FreshWorker {
    /// Runs `job` as part of the preparation.
    ///
    /// # Errors
    /// [`WorkerError::Failed`] and [`WorkerError::Ended`].
    pub async fn request(&mut self, job: Job, args: &Bytes) -> Result<Vec<u8>, WorkerError> {
        let worker = self.worker.take().ok_or_else(gone)?;
        let took = Mutex::new(self.took.take());
        let ran = |it: Caged| {
            let mut all = took.lock().unwrap_or_else(PoisonError::into_inner);
            *all = Some(it.after(all.take()));
        };
        let answer = match worker.exchange(job, args, &ran).await {
            Ok((answer, worker)) => {
                self.worker = Some(worker);
                answer.map_err(|words| WorkerError::Failed(cut(&words)))
            }
            Err(trouble) => Err(ended(trouble, job, &ran).await),
        };
        self.took = took.into_inner().unwrap_or_else(PoisonError::into_inner);
        answer
    }
}

async fn ended(trouble: Trouble, job: Job, ran: super::Ran<'_>) -> WorkerError {
    WorkerError::Ended(trouble.told(job, ran).await)
}

fn gone() -> WorkerError {
    WorkerError::Ended(super::GONE.to_owned())
}

/// Truncates a message to the permitted length.
fn cut(words: &str) -> String {
    words.chars().take(MESSAGE).collect()
}

#[cfg(test)]
mod tests {
    use super::WorkerShare;

    #[test]
    fn a_share_comes_back_as_it_was_and_nothing_else_is_one() {
        let share = WorkerShare { memory: 300 << 20, threads: 4 };
        assert_eq!(WorkerShare::of_args(share.to_args().map(Into::into)), Some(share));
        for words in [&["1"][..], &["1", "2", "3"], &["1", "x"]] {
            assert_eq!(WorkerShare::of_args(words.iter().map(Into::into)), None, "{words:?}");
        }
    }
}
