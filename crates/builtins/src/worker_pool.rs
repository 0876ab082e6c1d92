//! The pool of sandboxed worker processes that compute for tools, on the server's side.
//!
//! A worker starts on first use and is reused. It serves one call at a time. If the call is
//! cancelled, times out or crashes the worker, the worker is discarded.

mod dedicated_worker;
mod folder_reader;
mod folder_reader_main;
mod program_step;
mod python_runtime;
mod sql_query;
mod worker_lease;
mod worker_main;
mod worker_protocol;
mod worker_quota;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use sandbox::process::{ChildExit, ChildProcess, CommandSpec, EnvValue};
use sandbox::{EXIT_MEMORY_LIMIT, ProgramSource, SandboxLevel, SandboxSpec};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tool::{CallContext, ErrorCode, ExecuteError, ExecutionState, Json, JsonLimits, Outcome};

use crate::sandbox_provider::{SandboxProvider, child_usage, sandbox_usage};
pub use dedicated_worker::{
    DedicatedWorker, FreshWorker, WorkerCounts, WorkerError, WorkerPreparation, WorkerResources,
    WorkerTurn,
};
pub(crate) use folder_reader::FolderReaderPool;
pub use folder_reader_main::{FOLDER_READER_COMMAND, run_folder_reader};
pub use worker_lease::WorkerLease;
pub use worker_main::{JobHandler, POOL_WORKER_COMMAND, run_dedicated_worker, run_pool_worker};
use worker_protocol::{RequestHeader, ResponseHeader, ResponseStatus};
pub use worker_quota::{WorkerQuota, WorkerSlot};

/// Largest number of workers at once.
const MAX_WORKERS: usize = 4;
/// Idle workers that are retained.
const MAX_IDLE_WORKERS: usize = 2;
/// A worker that handled more bytes than this is discarded, because allocators return memory
/// poorly.
const RECYCLE_AFTER_BYTES: usize = 16 << 20;
/// Calls after which a worker is discarded; the consecutive steps of one program count as one.
const RECYCLE_AFTER_CALLS: u32 = 1_000;
/// Address space of a worker, in bytes.
const ADDRESS_SPACE_BYTES: u64 = 3 << 30;
/// Seconds of processor time in a worker's life.
const CPU_SECONDS: u64 = 3_600;
/// Pipe capacity in bytes: the most that an unprivileged user may request.
const PIPE_BYTES: usize = 1 << 20;
const POOL_CLOSED: &str = "the workers have stopped; call again";
/// Requests below this size are copied and written in one system call.
const SINGLE_WRITE_BYTES: usize = 64 << 10;
/// Exit code of a worker whose working directory is not the expected folder.
const FOLDER_REPLACED_EXIT_CODE: u8 = 66;
/// Time beyond its limit after which a worker is killed.
const KILL_GRACE: Duration = Duration::from_millis(250);

/// A kind of computation in a worker: its code in the protocol, time limit and answer limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerJob {
    /// Identifies the job in the worker protocol.
    code: u8,
    time_limit: Duration,
    /// Largest answer in bytes. A worker that announces more is ended.
    max_answer_bytes: usize,
}

impl WorkerJob {
    pub(crate) const PYTHON: Self = Self::new(b'P', Duration::from_secs(5));
    pub(crate) const SQL: Self = Self::new(b'S', Duration::from_secs(10));
    pub(crate) const GIT_STATUS: Self = Self::new(b'T', Duration::from_secs(20));
    /// One step of a program: from its start, or from a saved state and a call result, to its next
    /// call.
    pub const PROGRAM: Self = Self::new(b'G', Duration::from_secs(10));

    /// Creates a job with a unique `code` and a time limit. A worker that takes longer is killed.
    pub const fn new(code: u8, limit: Duration) -> Self {
        Self { code, time_limit: limit, max_answer_bytes: worker_protocol::MAX_MESSAGE_BYTES }
    }

    /// Returns the code of the job in the worker protocol.
    pub const fn code(self) -> u8 {
        self.code
    }

    /// Limits the answer of this job to `max_bytes` bytes.
    #[must_use]
    pub const fn with_max_answer_bytes(self, max_bytes: usize) -> Self {
        Self { max_answer_bytes: max_bytes, ..self }
    }
}

/// A pool of worker processes that are started on demand.
#[derive(Debug)]
pub struct WorkerPool {
    sandboxes: Arc<SandboxProvider>,
    idle_workers: Mutex<Vec<WorkerProcess>>,
    quota: WorkerQuota,
}

#[derive(Debug)]
struct WorkerProcess {
    child: ChildProcess,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    largest_exchange: usize,
    calls: u32,
    level: SandboxLevel,
}

/// Reason why a worker returned no answer.
enum WorkerFailure {
    /// The time limit passed.
    TimedOut,
    /// The process ended.
    Exited(Box<WorkerProcess>),
}

impl WorkerPool {
    /// Creates an empty pool whose workers run in sandboxes of `sandboxes`.
    pub fn new(sandboxes: Arc<SandboxProvider>) -> Self {
        Self { sandboxes, idle_workers: Mutex::default(), quota: WorkerQuota::new(MAX_WORKERS) }
    }

    /// Runs `job` with its arguments. Cancellation by the caller ends the worker.
    ///
    /// # Errors
    /// If no worker is available or the call is cancelled. Invalid arguments are reported in the
    /// result instead.
    pub async fn run_job(
        &self,
        job: WorkerJob,
        args: &Json,
        ctx: &CallContext<'_>,
    ) -> Result<ExecutionState, ExecuteError> {
        let given_up =
            || ExecuteError::maybe_sent(ErrorCode::Cancelled, "the computation was stopped");
        tokio::select! {
            step = self.run_uncancelled(job, args.bytes(), ctx) => step,
            () = ctx.cancel.cancelled() => Err(given_up()),
        }
    }

    async fn run_uncancelled(
        &self,
        job: WorkerJob,
        args: &Bytes,
        ctx: &CallContext<'_>,
    ) -> Result<ExecutionState, ExecuteError> {
        let place = self.quota.acquire_slot(ctx.caller.limit_key_id()).await;
        let _place = place.map_err(|why| ExecuteError::not_sent(ErrorCode::Busy, why))?;
        let worker = self
            .checkout_worker()
            .await
            .map_err(|why| ExecuteError::not_sent(ErrorCode::Blocked, why))?;
        let ran = |took| ctx.record_sandbox_usage(took);
        Ok(ExecutionState::Completed(match worker.run_job(job, args, &ran).await {
            Ok((answered, worker)) => {
                self.checkin_worker(worker);
                answered.map_or_else(|words| Outcome::tool_failure(&words), Outcome::from_value)
            }
            Err(trouble) => Outcome::tool_failure(&trouble.describe_failure(job, &ran).await),
        }))
    }

    async fn checkout_worker(&self) -> Result<WorkerProcess, String> {
        let kept = self.idle_workers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match kept {
            Some(worker) => Ok(worker),
            None => self.spawn_worker().await,
        }
    }

    /// Returns a worker to the pool, unless it has to be recycled.
    fn checkin_worker(&self, mut worker: WorkerProcess) {
        worker.calls += 1;
        if worker.largest_exchange < RECYCLE_AFTER_BYTES && worker.calls < RECYCLE_AFTER_CALLS {
            let mut idle = self.idle_workers.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < MAX_IDLE_WORKERS {
                idle.push(worker);
            }
        }
    }

    async fn spawn_worker(&self) -> Result<WorkerProcess, String> {
        let tier = self.sandboxes.usable_level().await?;
        let mut sandbox_spec = SandboxSpec::new(tier);
        sandbox_spec.program = ProgramSource::OwnBinary;
        sandbox_spec.limits.address_space_bytes = ADDRESS_SPACE_BYTES;
        sandbox_spec.limits.total_memory_bytes = ADDRESS_SPACE_BYTES;
        sandbox_spec.limits.cpu_seconds = CPU_SECONDS;
        sandbox_spec.limits.file_bytes = 0;
        sandbox_spec.limits.max_tasks = 4;
        WorkerProcess::spawn_process(
            &self.sandboxes,
            sandbox_spec,
            (vec![POOL_WORKER_COMMAND.to_owned()], "/".into(), Vec::new()),
        )
        .await
    }
}

/// Callback that receives the resource usage of a request for the record of its call.
type UsageCallback<'a> = &'a (dyn Fn(tool::SandboxUsage) + Send + Sync);

impl WorkerProcess {
    /// Starts this binary in `sandbox` with these arguments, working directory and environment.
    async fn spawn_process(
        sandboxes: &SandboxProvider,
        sandbox_spec: SandboxSpec,
        (args, cwd, env): (Vec<String>, PathBuf, Vec<(String, EnvValue)>),
    ) -> Result<Self, String> {
        let tier = sandbox_spec.level;
        let spec = CommandSpec {
            command: "toolkeep".to_owned(),
            args,
            env,
            clear_env: true,
            cwd: Some(cwd),
            sandbox: Some(sandbox_spec),
        };
        let mut child =
            sandboxes.launcher().spawn_child(&spec).map_err(|error| error.to_string())?;
        child.wait_started().await.map_err(|error| error.to_string())?;
        let (stdin, stdout) = (child.take_stdin(), child.take_stdout());
        // The standard error of a worker is discarded, so that a full pipe cannot block it.
        drop(child.take_stderr());
        let none = "a worker has no pipes";
        let (stdin, stdout) = (stdin.ok_or(none)?, stdout.ok_or(none)?);
        // A larger pipe means fewer waits between the two processes.
        let _as_it_is = rustix::pipe::fcntl_setpipe_size(&stdin, PIPE_BYTES);
        let _as_it_is = rustix::pipe::fcntl_setpipe_size(&stdout, PIPE_BYTES);
        let stdout = BufReader::new(stdout);
        Ok(Self { child, stdin, stdout, largest_exchange: 0, calls: 0, level: tier })
    }
}

impl WorkerFailure {
    /// Describes the failure for the caller.
    async fn describe_failure(self, job: WorkerJob, ran: UsageCallback<'_>) -> String {
        match self {
            Self::TimedOut => {
                let seconds = job.time_limit.as_secs();
                format!("it ran longer than {seconds} s and was stopped; request less")
            }
            Self::Exited(worker) => worker.exit_reason(ran).await,
        }
    }
}

impl WorkerProcess {
    /// Sends a request and returns the JSON answer, or an error message for the caller, and the
    /// worker. Dropping the future ends the worker.
    async fn run_job(
        self,
        job: WorkerJob,
        args: &Bytes,
        ran: UsageCallback<'_>,
    ) -> Result<(Result<Json, String>, Self), WorkerFailure> {
        let (answered, worker) = self.exchange_bytes(job, args, ran).await?;
        let checked = |answer: Vec<u8>| {
            Json::parse(answer, JsonLimits::DOCUMENT)
                .map_err(|error| format!("the answer: {error}"))
        };
        Ok((answered.and_then(checked), worker))
    }

    /// Sends a request and returns the answer as bytes.
    async fn exchange_bytes(
        mut self,
        job: WorkerJob,
        args: &Bytes,
        ran: UsageCallback<'_>,
    ) -> Result<(Result<Vec<u8>, String>, Self), WorkerFailure> {
        let answer =
            tokio::time::timeout(job.time_limit + KILL_GRACE, self.round_trip(job, args)).await;
        let Ok(answer) = answer else {
            ran(sandbox_usage(self.level, None));
            return Err(WorkerFailure::TimedOut);
        };
        let Some((told, answer)) = answer else {
            return Err(WorkerFailure::Exited(Box::new(self)));
        };
        ran(sandbox_usage(self.level, Some(told.usage)));
        self.largest_exchange = self.largest_exchange.max(args.len() + answer.len());
        let answered = match told.status {
            ResponseStatus::Value => Ok(answer),
            ResponseStatus::Failure => Err(String::from_utf8_lossy(&answer).into_owned()),
        };
        Ok((answered, self))
    }

    /// Writes one request and reads its response; `None` if the worker has ended.
    async fn round_trip(
        &mut self,
        job: WorkerJob,
        args: &Bytes,
    ) -> Option<(ResponseHeader, Vec<u8>)> {
        let head = RequestHeader::new(job.code, job.time_limit, args.len())?;
        if args.len() < SINGLE_WRITE_BYTES {
            // One write: a header alone would wake the worker for nothing.
            let whole = [head.encode().as_slice(), args].concat();
            self.stdin.write_all(&whole).await.ok()?;
        } else {
            self.stdin.write_all(&head.encode()).await.ok()?;
            self.stdin.write_all(args).await.ok()?;
        }
        let mut head = [0; worker_protocol::RESPONSE_HEADER_BYTES];
        self.stdout.read_exact(&mut head).await.ok()?;
        let told =
            ResponseHeader::decode(head).filter(|told| told.length <= job.max_answer_bytes)?;
        let mut answer = vec![0; told.length];
        self.stdout.read_exact(&mut answer).await.ok()?;
        Some((told, answer))
    }

    /// Whether the process has ended, as far as is known now.
    async fn has_ended(&mut self) -> bool {
        tokio::time::timeout(Duration::ZERO, self.child.wait_ended()).await.is_ok()
    }

    async fn exit_reason(mut self, ran: UsageCallback<'_>) -> String {
        drop((self.stdin, self.stdout));
        let ended = tokio::time::timeout(KILL_GRACE, self.child.wait_ended()).await;
        ran(child_usage(self.level, &self.child));
        match ended {
            Ok(ChildExit::Code(EXIT_MEMORY_LIMIT)) => "it exceeded its memory limit".to_owned(),
            Ok(ChildExit::Code(code)) if code == i32::from(FOLDER_REPLACED_EXIT_CODE) => {
                "the folder was replaced while it was opened; call again".to_owned()
            }
            Ok(ChildExit::Signal(11)) => "it is nested too deeply".to_owned(),
            Ok(ChildExit::NotStarted(why)) => why,
            _ if self.child.exceeded_memory_limit() => "it exceeded its memory limit".to_owned(),
            _ => "it exceeded the limits of a worker; request less".to_owned(),
        }
    }
}
