//! The pool of sandboxed worker processes that compute for tools, on the server's side.
//!
//! A worker starts on first use and is reused. It serves one call at a time. If the call is
//! cancelled, times out or crashes the worker, the worker is discarded.

mod dedicated;
mod folder;
mod frame;
mod lease;
mod program;
mod python;
mod quota;
mod read;
mod serve;
mod sql;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use sandbox::process::{Child, EnvValue, Exit, Spec};
use sandbox::{Cage, TOO_MUCH, Tier};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tool::{Code, Context, ExecuteError, Json, Limits, Outcome, Step};

use crate::cages::{Cages, caged, caged_child};
pub use dedicated::{
    DedicatedWorker, FreshWorker, Prepare, WorkerCounts, WorkerError, WorkerShare, WorkerTurn,
};
pub(crate) use folder::FolderReaders;
use frame::{Head, Status, Told};
pub use lease::Lease;
pub use quota::{WorkerPlace, WorkerQuota};
pub use read::{READ_FOLDER, read_folder};
pub use serve::{Extra, WORK, serve_dedicated, work};

/// Largest number of workers at once.
const MOST: usize = 4;
/// Idle workers that are retained.
const IDLE: usize = 2;
/// A worker that handled more bytes than this is discarded, because allocators return memory
/// poorly.
const HEAVY: usize = 16 << 20;
/// Calls after which a worker is discarded; the consecutive steps of one program count as one.
const CALLS: u32 = 1_000;
/// Address space of a worker, in bytes.
const SPACE: u64 = 3 << 30;
/// Seconds of processor time in a worker's life.
const PROCESSOR: u64 = 3_600;
/// Pipe capacity in bytes: the most that an unprivileged user may request.
const PIPE: usize = 1 << 20;
const GONE: &str = "the workers are gone; call again";
/// Requests below this size are copied and written in one system call.
const SMALL: usize = 64 << 10;
/// Exit code of a worker whose working directory is not the expected folder.
const CHANGED: u8 = 66;
/// Time beyond its limit after which a worker is killed.
const LATE: Duration = Duration::from_millis(250);

/// A kind of computation in a worker: its code in the protocol, time limit and answer limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Identifies the job in the worker protocol.
    letter: u8,
    limit: Duration,
    /// Largest answer in bytes. A worker that announces more is ended.
    longest: usize,
}

impl Job {
    pub(crate) const PYTHON: Self = Self::new(b'P', Duration::from_secs(5));
    pub(crate) const SQL: Self = Self::new(b'S', Duration::from_secs(10));
    pub(crate) const GIT_STATUS: Self = Self::new(b'T', Duration::from_secs(20));
    /// One step of a program: from its start, or from a saved state and a call result, to its next
    /// call.
    pub const PROGRAM: Self = Self::new(b'G', Duration::from_secs(10));

    /// Creates a job with a unique `letter` and a time limit. A worker that takes longer is killed.
    pub const fn new(letter: u8, limit: Duration) -> Self {
        Self { letter, limit, longest: frame::LONGEST }
    }

    /// Returns the code of the job in the worker protocol.
    pub const fn letter(self) -> u8 {
        self.letter
    }

    /// Limits the answer of this job to `longest` bytes.
    #[must_use]
    pub const fn with_longest_answer(self, longest: usize) -> Self {
        Self { longest, ..self }
    }
}

/// A pool of worker processes that are started on demand.
#[derive(Debug)]
pub struct Workers {
    cages: Arc<Cages>,
    idle: Mutex<Vec<Worker>>,
    quota: WorkerQuota,
}

#[derive(Debug)]
struct Worker {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    given: usize,
    calls: u32,
    tier: Tier,
}

/// Reason why a worker returned no answer.
enum Trouble {
    /// The time limit passed.
    Late,
    /// The process ended.
    Died(Box<Worker>),
}

impl Workers {
    /// Creates an empty pool whose workers run in sandboxes of `cages`.
    pub fn new(cages: Arc<Cages>) -> Self {
        Self { cages, idle: Mutex::default(), quota: WorkerQuota::new(MOST) }
    }

    /// Runs `job` with its arguments. Cancellation by the caller ends the worker.
    ///
    /// # Errors
    /// If no worker is available or the call is cancelled. Invalid arguments are reported in the
    /// result instead.
    pub async fn run(
        &self,
        job: Job,
        args: &Json,
        ctx: &Context<'_>,
    ) -> Result<Step, ExecuteError> {
        let given_up = || ExecuteError::during(Code::Cancelled, "the computation was ended");
        tokio::select! {
            step = self.computed(job, args.bytes(), ctx) => step,
            () = ctx.cancel.cancelled() => Err(given_up()),
        }
    }

    async fn computed(
        &self,
        job: Job,
        args: &Bytes,
        ctx: &Context<'_>,
    ) -> Result<Step, ExecuteError> {
        let place = self.quota.enter(ctx.caller.root_key()).await;
        let _place = place.map_err(|why| ExecuteError::before(Code::Busy, why))?;
        let worker = self.taken().await.map_err(|why| ExecuteError::before(Code::Blocked, why))?;
        let ran = |took| ctx.ran_caged(took);
        Ok(Step::Done(match worker.answers(job, args, &ran).await {
            Ok((answered, worker)) => {
                self.given_back(worker);
                answered.map_or_else(|words| Outcome::failed(&words), Outcome::value)
            }
            Err(trouble) => Outcome::failed(&trouble.told(job, &ran).await),
        }))
    }

    async fn taken(&self) -> Result<Worker, String> {
        let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match kept {
            Some(worker) => Ok(worker),
            None => self.start().await,
        }
    }

    /// Returns a worker to the pool, unless it has to be recycled.
    fn given_back(&self, mut worker: Worker) {
        worker.calls += 1;
        if worker.given < HEAVY && worker.calls < CALLS {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < IDLE {
                idle.push(worker);
            }
        }
    }

    async fn start(&self) -> Result<Worker, String> {
        let tier = self.cages.tier().await?;
        let mut cage = Cage::new(tier);
        cage.this_binary = true;
        cage.share.memory = SPACE;
        cage.share.together = SPACE;
        cage.share.cpu = PROCESSOR;
        cage.share.file = 0;
        cage.share.processes = 4;
        Worker::start(&self.cages, cage, (vec![WORK.to_owned()], "/".into(), Vec::new())).await
    }
}

/// Callback that receives the resource usage of a request for the record of its call.
type Ran<'a> = &'a (dyn Fn(tool::Caged) + Send + Sync);

impl Worker {
    /// Starts this binary in `cage` with these arguments, working directory and environment.
    async fn start(
        cages: &Cages,
        cage: Cage,
        (args, cwd, env): (Vec<String>, PathBuf, Vec<(String, EnvValue)>),
    ) -> Result<Self, String> {
        let tier = cage.tier;
        let spec = Spec {
            command: "toolkeep".to_owned(),
            args,
            env,
            clear_env: true,
            cwd: Some(cwd),
            cage: Some(cage),
        };
        let mut child = cages.launcher().spawn(&spec).map_err(|error| error.to_string())?;
        child.started().await.map_err(|error| error.to_string())?;
        let (stdin, stdout) = (child.stdin(), child.stdout());
        // The standard error of a worker is discarded, so that a full pipe cannot block it.
        drop(child.stderr());
        let none = "a worker without its pipes";
        let (stdin, stdout) = (stdin.ok_or(none)?, stdout.ok_or(none)?);
        // A larger pipe means fewer waits between the two processes.
        let _as_it_is = rustix::pipe::fcntl_setpipe_size(&stdin, PIPE);
        let _as_it_is = rustix::pipe::fcntl_setpipe_size(&stdout, PIPE);
        let stdout = BufReader::new(stdout);
        Ok(Self { child, stdin, stdout, given: 0, calls: 0, tier })
    }
}

impl Trouble {
    /// Describes the failure for the caller.
    async fn told(self, job: Job, ran: Ran<'_>) -> String {
        match self {
            Self::Late => {
                let seconds = job.limit.as_secs();
                format!("it took longer than {seconds} s and was ended; ask for less")
            }
            Self::Died(worker) => worker.why(ran).await,
        }
    }
}

impl Worker {
    /// Sends a request and returns the JSON answer, or an error message for the caller, and the
    /// worker. Dropping the future ends the worker.
    async fn answers(
        self,
        job: Job,
        args: &Bytes,
        ran: Ran<'_>,
    ) -> Result<(Result<Json, String>, Self), Trouble> {
        let (answered, worker) = self.exchange(job, args, ran).await?;
        let checked = |answer: Vec<u8>| {
            Json::check(answer, Limits::DOCUMENT).map_err(|error| format!("the answer: {error}"))
        };
        Ok((answered.and_then(checked), worker))
    }

    /// Sends a request and returns the answer as bytes.
    async fn exchange(
        mut self,
        job: Job,
        args: &Bytes,
        ran: Ran<'_>,
    ) -> Result<(Result<Vec<u8>, String>, Self), Trouble> {
        let answer = tokio::time::timeout(job.limit + LATE, self.ask(job, args)).await;
        let Ok(answer) = answer else {
            ran(caged(self.tier, None));
            return Err(Trouble::Late);
        };
        let Some((told, answer)) = answer else { return Err(Trouble::Died(Box::new(self))) };
        ran(caged(self.tier, Some(told.used)));
        self.given = self.given.max(args.len() + answer.len());
        let answered = match told.status {
            Status::Value => Ok(answer),
            Status::Failure => Err(String::from_utf8_lossy(&answer).into_owned()),
        };
        Ok((answered, self))
    }

    /// Writes one request and reads its response; `None` if the worker has ended.
    async fn ask(&mut self, job: Job, args: &Bytes) -> Option<(Told, Vec<u8>)> {
        let head = Head::new(job.letter, job.limit, args.len())?;
        if args.len() < SMALL {
            // One write: a header alone would wake the worker for nothing.
            let whole = [head.encode().as_slice(), args].concat();
            self.stdin.write_all(&whole).await.ok()?;
        } else {
            self.stdin.write_all(&head.encode()).await.ok()?;
            self.stdin.write_all(args).await.ok()?;
        }
        let mut head = [0; frame::ANSWER];
        self.stdout.read_exact(&mut head).await.ok()?;
        let told = Told::decode(head).filter(|told| told.length <= job.longest)?;
        let mut answer = vec![0; told.length];
        self.stdout.read_exact(&mut answer).await.ok()?;
        Some((told, answer))
    }

    /// Whether the process has ended, as far as is known now.
    async fn has_ended(&mut self) -> bool {
        tokio::time::timeout(Duration::ZERO, self.child.wait()).await.is_ok()
    }

    async fn why(mut self, ran: Ran<'_>) -> String {
        drop((self.stdin, self.stdout));
        let ended = tokio::time::timeout(LATE, self.child.wait()).await;
        ran(caged_child(self.tier, &self.child));
        match ended {
            Ok(Exit::Code(TOO_MUCH)) => "it took more memory than it may".to_owned(),
            Ok(Exit::Code(code)) if code == i32::from(CHANGED) => {
                "the folder was replaced while it was opened; call again".to_owned()
            }
            Ok(Exit::Signal(11)) => "it nests too deeply".to_owned(),
            Ok(Exit::NotStarted(why)) => why,
            _ if self.child.too_heavy() => "it took more memory than it may".to_owned(),
            _ => "it was more than a worker can do; ask for less".to_owned(),
        }
    }
}
