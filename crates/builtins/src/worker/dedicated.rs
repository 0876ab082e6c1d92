//! A worker with a large state of its own, such as a language model: one process that is started and prepared at the
//! first request, kept, and started again where it has died.
//!
//! All callers share it and take turns, each root key one after the other, since the quota has one place. A caller
//! that gives up while its request runs ends the process.

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

/// Address space beside the memory that a worker may allocate: its code, its stacks, reserves of the allocator.
const SPACE: u64 = 3 << 30;
/// Bytes in memory beside what it allocates.
const RESIDENT: u64 = 256 << 20;
/// Seconds of processor time of a worker's life. Each request has its own deadline.
const PROCESSOR: u64 = 30 * 24 * 3_600;
/// Threads of the process beside those in its share.
const THREADS: u64 = 4;
/// How long no worker is started after the first start that failed; each further failure doubles it.
const BACKOFF: Duration = Duration::from_millis(500);
/// The longest it becomes.
const MAX_BACKOFF: Duration = Duration::from_mins(1);
/// Characters of a worker's message.
const MESSAGE: usize = 2_000;

/// What a dedicated worker may use of the machine.
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

    /// What [`to_args`](Self::to_args) wrote; `None` where it is not that.
    pub(super) fn of_args(args: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let numbers = args.into_iter().map(|word| word.to_str()?.parse().ok());
        match numbers.collect::<Option<Vec<usize>>>()?.as_slice() {
            [memory, threads] => Some(Self { memory: *memory, threads: *threads }),
            _ => None,
        }
    }
}

/// Brings a worker into the state in which it answers.
pub trait Prepare: Debug + Send + Sync {
    /// Sends `worker` what it needs before its first request.
    ///
    /// # Errors
    /// [`WorkerError::Refused`] where another start would fail in the same way, and what `worker` returns.
    fn prepare<'a>(&'a self, worker: &'a mut FreshWorker) -> Boxed<'a, Result<(), WorkerError>>;
}

/// Why there is no answer, in words for the caller.
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
    /// The words alone.
    pub fn into_message(self) -> String {
        let (Self::Busy(words)
        | Self::Blocked(words)
        | Self::Refused(words)
        | Self::Failed(words)
        | Self::Ended(words)) = self;
        words
    }
}

/// What a dedicated worker has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkerCounts {
    /// Processes that were started.
    pub starts: u64,
    /// Requests that were sent, without those of the preparation.
    pub requests: u64,
}

/// One worker process, shared by all callers.
#[derive(Debug)]
pub struct DedicatedWorker {
    cages: Arc<Cages>,
    /// The word with which the binary is asked to run it.
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

/// Starts that failed, one after the other.
#[derive(Debug, Clone)]
struct FailedStart {
    count: u32,
    why: String,
    retry_at: Instant,
}

impl DedicatedWorker {
    /// A worker of this binary in `cages`, started with `word` when it is first needed.
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

    /// The same with a variable in the worker's environment, which is empty otherwise.
    #[must_use]
    pub fn with_env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// The exclusive use of the worker, as soon as it is this root key's turn.
    ///
    /// # Errors
    /// [`WorkerError::Busy`] where too many requests of the key are pending.
    pub async fn enter(&self, key: &str) -> Result<WorkerTurn<'_>, WorkerError> {
        let place = self.quota.enter(key).await.map_err(WorkerError::Busy)?;
        Ok(WorkerTurn { worker: self, _place: place, took: Mutex::default() })
    }

    /// What it has done so far.
    pub fn counts(&self) -> WorkerCounts {
        self.lock().counts
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The worker that is kept; `None` where one may be started.
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

    /// Keeps what came of a start for the next calls.
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

/// The exclusive use of a [`DedicatedWorker`], until this is dropped.
#[derive(Debug)]
pub struct WorkerTurn<'a> {
    worker: &'a DedicatedWorker,
    _place: WorkerPlace,
    took: Mutex<Option<Caged>>,
}

impl WorkerTurn<'_> {
    /// Computes `job`, in a worker that is started and prepared where there is none. Where the future is dropped, the
    /// worker is ended.
    ///
    /// # Errors
    /// Why there is no answer.
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

    /// Starts and prepares a worker where there is none.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn prepare(&self) -> Result<(), WorkerError> {
        let worker = self.prepared().await?;
        self.worker.lock().ready = Some(worker);
        Ok(())
    }

    /// What all requests took, for the record of the call that they were for.
    pub fn took(&self) -> Option<Caged> {
        self.took.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, took: Caged) {
        let mut all = self.took.lock().unwrap_or_else(PoisonError::into_inner);
        *all = Some(took.after(all.take()));
    }

    async fn prepared(&self) -> Result<Worker, WorkerError> {
        if let Some(mut worker) = self.worker.kept()? {
            // One that ended while it had nothing to do is replaced without an error.
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

/// A worker that was started and has answered no request yet.
#[derive(Debug)]
pub struct FreshWorker {
    /// None while it is asked, and where it is gone.
    worker: Option<Worker>,
    took: Option<Caged>,
}

impl FreshWorker {
    /// Computes `job`.
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

/// A message as it may be passed on.
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
