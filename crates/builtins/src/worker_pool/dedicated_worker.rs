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
use sandbox::process::EnvValue;
use sandbox::{ProgramSource, SandboxSpec};
use tokio::time::Instant;
use tool::{BoxFuture, SandboxUsage};

use super::{WorkerFailure, WorkerJob, WorkerProcess, WorkerQuota, WorkerSlot};
use crate::sandbox_provider::SandboxProvider;

/// Address space in bytes beyond the allocation limit: code, stacks and allocator reserves.
const ADDRESS_SPACE_BYTES: u64 = 3 << 30;
/// Resident bytes beyond the allocation limit.
const RESIDENT_BYTES: u64 = 256 << 20;
/// CPU time of a worker's life, in seconds. Each request has its own deadline.
const CPU_SECONDS: u64 = 30 * 24 * 3_600;
/// Threads of the process beyond those in its resources.
const EXTRA_THREADS: u64 = 4;
/// Delay after the first failed start; each further failure doubles it.
const BACKOFF: Duration = Duration::from_millis(500);
/// Longest delay between starts.
const MAX_BACKOFF: Duration = Duration::from_mins(1);
/// Largest length of a worker's message, in characters.
const MAX_MESSAGE_CHARS: usize = 2_000;

/// Memory and threads that a dedicated worker may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerResources {
    /// Bytes that it may allocate.
    pub memory: usize,
    /// Threads that it may start before its first request.
    pub threads: usize,
}

impl WorkerResources {
    fn to_args(self) -> [String; 2] {
        [self.memory, self.threads].map(|number| number.to_string())
    }

    /// Parses the output of [`to_args`](Self::to_args); `None` if it is malformed.
    pub(super) fn from_args(args: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let numbers = args.into_iter().map(|word| word.to_str()?.parse().ok());
        match numbers.collect::<Option<Vec<usize>>>()?.as_slice() {
            [memory, threads] => Some(Self { memory: *memory, threads: *threads }),
            _ => None,
        }
    }
}

/// Prepares a started worker for requests.
pub trait WorkerPreparation: Debug + Send + Sync {
    /// Sends `worker` what it needs before its first request.
    ///
    /// # Errors
    /// [`WorkerError::Refused`] if another start would fail in the same way, and the errors of
    /// `worker`.
    fn prepare_worker<'a>(
        &'a self,
        worker: &'a mut FreshWorker,
    ) -> BoxFuture<'a, Result<(), WorkerError>>;
}

/// Reason why a dedicated worker returned no answer, with a message for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerError {
    /// Too many requests of this root key are pending, or the last starts failed. A later call may
    /// succeed.
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
    sandboxes: Arc<SandboxProvider>,
    /// The command-line argument that makes the binary run this worker.
    command: &'static str,
    resources: WorkerResources,
    env: Vec<(String, EnvValue)>,
    preparation: Box<dyn WorkerPreparation>,
    quota: WorkerQuota,
    state: Mutex<DedicatedState>,
}

#[derive(Debug, Default)]
struct DedicatedState {
    /// The worker between two requests.
    idle_worker: Option<WorkerProcess>,
    permanent_failure: Option<String>,
    failed_start: Option<FailedStart>,
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
    /// Creates a worker of this binary in a sandbox; it starts with the argument `argument` on
    /// first use.
    pub fn new(
        sandboxes: &Arc<SandboxProvider>,
        (argument, resources): (&'static str, WorkerResources),
        preparation: Box<dyn WorkerPreparation>,
    ) -> Self {
        Self {
            sandboxes: Arc::clone(sandboxes),
            command: argument,
            resources,
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
    /// [`WorkerError::Busy`] if too many requests of the key are pending.
    pub async fn acquire_turn(&self, key: &str) -> Result<WorkerTurn<'_>, WorkerError> {
        let place = self.quota.acquire_slot(key).await.map_err(WorkerError::Busy)?;
        Ok(WorkerTurn { worker: self, _place: place, usage: Mutex::default() })
    }

    /// Returns the counters so far.
    pub fn counts(&self) -> WorkerCounts {
        self.lock_state().counts
    }

    fn lock_state(&self) -> MutexGuard<'_, DedicatedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the idle worker; `None` means that a new one may be started.
    fn take_idle_worker(&self) -> Result<Option<WorkerProcess>, WorkerError> {
        let mut state = self.lock_state();
        if let Some(worker) = state.idle_worker.take() {
            return Ok(Some(worker));
        }
        if let Some(why) = &state.permanent_failure {
            return Err(WorkerError::Refused(why.clone()));
        }
        let Some(FailedStart { count, why, retry_at }) = &state.failed_start else {
            return Ok(None);
        };
        let left = retry_at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let seconds = left.as_secs() + 1;
        Err(WorkerError::Busy(format!(
            "the last {count} starts of the worker failed ({why}); it is restarted in {seconds} s"
        )))
    }

    /// Records the result of a start for later calls.
    fn record_start(&self, started: Result<&WorkerProcess, &WorkerError>) {
        let mut state = self.lock_state();
        match started {
            Ok(_) => state.failed_start = None,
            Err(WorkerError::Refused(why)) => state.permanent_failure = Some(why.clone()),
            Err(WorkerError::Ended(why)) => {
                let count = state.failed_start.as_ref().map_or(0, |it| it.count).saturating_add(1);
                let doubled = BACKOFF.saturating_mul(1 << (count - 1).min(16));
                let retry_at = Instant::now() + doubled.min(MAX_BACKOFF);
                state.failed_start = Some(FailedStart { count, why: why.clone(), retry_at });
            }
            Err(_) => {}
        }
    }

    async fn spawn_worker(&self) -> Result<WorkerProcess, WorkerError> {
        let tier = self.sandboxes.usable_level().await.map_err(WorkerError::Blocked)?;
        let memory = u64::try_from(self.resources.memory).unwrap_or(u64::MAX);
        let mut sandbox_spec = SandboxSpec::new(tier);
        sandbox_spec.program = ProgramSource::OwnBinary;
        sandbox_spec.limits.address_space_bytes = memory.saturating_add(ADDRESS_SPACE_BYTES);
        sandbox_spec.limits.total_memory_bytes = memory.saturating_add(RESIDENT_BYTES);
        sandbox_spec.limits.cpu_seconds = CPU_SECONDS;
        sandbox_spec.limits.file_bytes = 0;
        sandbox_spec.limits.max_tasks = EXTRA_THREADS + self.resources.threads as u64;
        let args =
            std::iter::once(self.command.to_owned()).chain(self.resources.to_args()).collect();
        self.lock_state().counts.starts += 1;
        let started = WorkerProcess::spawn_process(
            &self.sandboxes,
            sandbox_spec,
            (args, "/".into(), self.env.clone()),
        )
        .await;
        started.map_err(WorkerError::Ended)
    }
}

/// Exclusive use of a [`DedicatedWorker`] until dropped.
#[derive(Debug)]
pub struct WorkerTurn<'a> {
    worker: &'a DedicatedWorker,
    _place: WorkerSlot,
    usage: Mutex<Option<SandboxUsage>>,
}

impl WorkerTurn<'_> {
    /// Runs `job` and starts and prepares a worker first if needed. Dropping the future ends the
    /// worker.
    ///
    /// # Errors
    /// The reason why there is no answer.
    pub async fn run_job(&self, job: WorkerJob, args: &Bytes) -> Result<Vec<u8>, WorkerError> {
        let worker = self.take_prepared_worker().await?;
        self.worker.lock_state().counts.requests += 1;
        let ran = |took| self.add_usage(took);
        match worker.exchange_bytes(job, args, &ran).await {
            Ok((answer, worker)) => {
                self.worker.lock_state().idle_worker = Some(worker);
                answer.map_err(|words| WorkerError::Failed(truncate_message(&words)))
            }
            Err(trouble) => Err(ended_error(trouble, job, &ran).await),
        }
    }

    /// Starts and prepares a worker if none is ready.
    ///
    /// # Errors
    /// The reason why no worker is ready.
    pub async fn ensure_prepared(&self) -> Result<(), WorkerError> {
        let worker = self.take_prepared_worker().await?;
        self.worker.lock_state().idle_worker = Some(worker);
        Ok(())
    }

    /// Returns the resource usage of all requests, for the record of their call.
    pub fn usage(&self) -> Option<SandboxUsage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add_usage(&self, took: SandboxUsage) {
        let mut all = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        *all = Some(took.plus_earlier(all.take()));
    }

    async fn take_prepared_worker(&self) -> Result<WorkerProcess, WorkerError> {
        if let Some(mut worker) = self.worker.take_idle_worker()? {
            // A worker that ended while idle is replaced without an error.
            if !worker.has_ended().await {
                return Ok(worker);
            }
        }
        let started = self.start_worker().await;
        self.worker.record_start(started.as_ref());
        started
    }

    async fn start_worker(&self) -> Result<WorkerProcess, WorkerError> {
        let worker = self.worker.spawn_worker().await?;
        let mut fresh = FreshWorker { worker: Some(worker), usage: None };
        let prepared = self.worker.preparation.prepare_worker(&mut fresh).await;
        if let Some(took) = fresh.usage.take() {
            self.add_usage(took);
        }
        prepared?;
        fresh.worker.ok_or_else(gone_error)
    }
}

/// A worker that has started but is not prepared yet.
#[derive(Debug)]
pub struct FreshWorker {
    /// `None` while a request runs, and after the worker has ended.
    worker: Option<WorkerProcess>,
    usage: Option<SandboxUsage>,
}

impl FreshWorker {
    /// Runs `job` as part of the preparation.
    ///
    /// # Errors
    /// [`WorkerError::Failed`] and [`WorkerError::Ended`].
    pub async fn run_job(&mut self, job: WorkerJob, args: &Bytes) -> Result<Vec<u8>, WorkerError> {
        let worker = self.worker.take().ok_or_else(gone_error)?;
        let took = Mutex::new(self.usage.take());
        let ran = |it: SandboxUsage| {
            let mut all = took.lock().unwrap_or_else(PoisonError::into_inner);
            *all = Some(it.plus_earlier(all.take()));
        };
        let answer = match worker.exchange_bytes(job, args, &ran).await {
            Ok((answer, worker)) => {
                self.worker = Some(worker);
                answer.map_err(|words| WorkerError::Failed(truncate_message(&words)))
            }
            Err(trouble) => Err(ended_error(trouble, job, &ran).await),
        };
        self.usage = took.into_inner().unwrap_or_else(PoisonError::into_inner);
        answer
    }
}

async fn ended_error(
    trouble: WorkerFailure,
    job: WorkerJob,
    ran: super::UsageCallback<'_>,
) -> WorkerError {
    WorkerError::Ended(trouble.describe_failure(job, ran).await)
}

fn gone_error() -> WorkerError {
    WorkerError::Ended(super::POOL_CLOSED.to_owned())
}

/// Truncates a message to the permitted length.
fn truncate_message(words: &str) -> String {
    words.chars().take(MAX_MESSAGE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::WorkerResources;

    #[test]
    fn a_share_comes_back_as_it_was_and_nothing_else_is_one() {
        let share = WorkerResources { memory: 300 << 20, threads: 4 };
        assert_eq!(WorkerResources::from_args(share.to_args().map(Into::into)), Some(share));
        for words in [&["1"][..], &["1", "2", "3"], &["1", "x"]] {
            assert_eq!(WorkerResources::from_args(words.iter().map(Into::into)), None, "{words:?}");
        }
    }
}
