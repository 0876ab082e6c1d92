//! A process of this binary that computes for tools, in a cage: its callers' side.
//!
//! One is started when a tool first needs it, and kept. A call has it alone; one that is given up, takes
//! too long or kills it takes it along, and the next call gets another.

mod frame;
mod program;
mod python;
mod serve;
mod sql;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use guard::process::{Child, Exit, Spec};
use guard::sandbox::{Cage, TOO_MUCH, Tier};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Semaphore;
use tool::outcome::Body;
use tool::{Code, Context, ExecuteError, Json, Limits, Outcome, Step};

use crate::cages::{Cages, caged, caged_child};
use frame::{Head, Status, Told};
pub use serve::{Extra, WORK, work};

/// Workers at once.
const MOST: usize = 4;
/// Workers that are kept while there is nothing to do.
const IDLE: usize = 2;
/// A worker that was given more than this is not kept: memory is not given back well.
const HEAVY: usize = 16 << 20;
/// Calls after which a worker is not kept.
const CALLS: u32 = 1_000;
/// Address space of a worker, in bytes.
const SPACE: u64 = 3 << 30;
/// Seconds of processor time in a worker's life.
const PROCESSOR: u64 = 3_600;
/// Bytes of a pipe: the most that a user may ask for.
const PIPE: usize = 1 << 20;
/// What a worker may take longer than it was told, before it is killed.
const LATE: Duration = Duration::from_millis(250);

/// What is to be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// What it is called on the way to the worker.
    letter: u8,
    limit: Duration,
}

impl Job {
    pub(crate) const PYTHON: Self = Self::new(b'P', Duration::from_secs(5));
    pub(crate) const SQL: Self = Self::new(b'S', Duration::from_secs(10));
    /// A step of a program: from its beginning, or from a kept state and an answer, to its next call.
    pub const PROGRAM: Self = Self::new(b'G', Duration::from_secs(10));

    /// A job of another crate: `letter` is its alone, `limit` the longest it may take. A worker that
    /// takes longer is killed.
    pub const fn new(letter: u8, limit: Duration) -> Self {
        Self { letter, limit }
    }
}

/// The workers there are.
#[derive(Debug)]
pub struct Workers {
    cages: Arc<Cages>,
    idle: Mutex<Vec<Worker>>,
    room: Semaphore,
}

#[derive(Debug)]
struct Worker {
    child: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    given: usize,
    calls: u32,
    tier: Tier,
}

/// Why there is no answer.
enum Trouble {
    /// It could not be started.
    Start(String),
    /// It took too long.
    Late,
    /// It ended.
    Died(Box<Worker>),
}

impl Workers {
    /// None yet; they will run in `cages`.
    pub fn new(cages: Arc<Cages>) -> Self {
        Self { cages, idle: Mutex::default(), room: Semaphore::new(MOST) }
    }

    /// Computes `job` from its arguments. A caller that goes away ends it.
    ///
    /// # Errors
    /// Where there is no worker, or the caller has given up. What is wrong with the arguments is an
    /// answer.
    pub async fn run(
        &self,
        job: Job,
        args: &Json,
        ctx: &Context<'_>,
    ) -> Result<Step, ExecuteError> {
        let given_up = || ExecuteError::during(Code::Cancelled, "the computation was ended");
        tokio::select! {
            step = self.computed(job, args.bytes(), Some(ctx)) => step,
            () = ctx.cancel.cancelled() => Err(given_up()),
        }
    }

    /// Computes `job` for who is no tool: its answer, or words on why there is none. Where the future is
    /// dropped, the worker goes with it.
    ///
    /// # Errors
    /// In words, for the caller.
    pub async fn compute(&self, job: Job, args: &Json) -> Result<Json, String> {
        match self.computed(job, args.bytes(), None).await {
            Ok(Step::Done(Outcome { body: Body::Value(answer), is_error: false })) => Ok(answer),
            Ok(Step::Done(Outcome { body: Body::Value(words), .. })) => {
                Err(words.text().unwrap_or_default().into_owned())
            }
            Ok(_) => Err("the worker answered something else".to_owned()),
            Err(error) => Err(error.message),
        }
    }

    async fn computed(
        &self,
        job: Job,
        args: &Bytes,
        ctx: Option<&Context<'_>>,
    ) -> Result<Step, ExecuteError> {
        let busy = || ExecuteError::before(Code::Busy, "the workers are gone; call again");
        let _room = self.room.acquire().await.map_err(|_| busy())?;
        match self.asked(job, args, ctx).await {
            Ok((Status::Value, answer)) => {
                let answer = Json::check(answer, Limits::DOCUMENT);
                Ok(Step::Done(match answer {
                    Ok(answer) => Outcome::value(answer),
                    Err(error) => Outcome::failed(&format!("the answer: {error}")),
                }))
            }
            Ok((Status::Failure, words)) => {
                Ok(Step::Done(Outcome::failed(&String::from_utf8_lossy(&words))))
            }
            Err(Trouble::Start(why)) => Err(ExecuteError::before(Code::Blocked, why)),
            Err(Trouble::Late) => {
                let seconds = job.limit.as_secs();
                Ok(Step::Done(Outcome::failed(&format!(
                    "it took longer than {seconds} s and was ended; ask for less"
                ))))
            }
            Err(Trouble::Died(worker)) => Ok(Step::Done(Outcome::failed(&worker.why(ctx).await))),
        }
    }

    async fn asked(
        &self,
        job: Job,
        args: &Bytes,
        ctx: Option<&Context<'_>>,
    ) -> Result<(Status, Vec<u8>), Trouble> {
        let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut worker = match kept {
            Some(worker) => worker,
            None => self.start().await.map_err(Trouble::Start)?,
        };
        let answer = tokio::time::timeout(job.limit + LATE, worker.ask(job, args)).await;
        let Ok(answer) = answer else {
            ran(ctx, caged(worker.tier, None));
            return Err(Trouble::Late);
        };
        let Some((told, answer)) = answer else { return Err(Trouble::Died(Box::new(worker))) };
        ran(ctx, caged(worker.tier, Some(told.used)));
        worker.calls += 1;
        worker.given = worker.given.max(args.len() + answer.len());
        if worker.given < HEAVY && worker.calls < CALLS {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < IDLE {
                idle.push(worker);
            }
        }
        Ok((told.status, answer))
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
        let spec = Spec {
            command: "toolkeep".to_owned(),
            args: vec![WORK.to_owned()],
            clear_env: true,
            cwd: Some("/".into()),
            cage: Some(cage),
            ..Spec::default()
        };
        let mut child = self.cages.launcher().spawn(&spec).map_err(|error| error.to_string())?;
        child.started().await.map_err(|error| error.to_string())?;
        let (stdin, stdout) = (child.stdin(), child.stdout());
        // What a worker says when it dies is for nobody: nothing waits for it to be read.
        drop(child.stderr());
        let none = "a worker without its pipes";
        let (stdin, stdout) = (stdin.ok_or(none)?, stdout.ok_or(none)?);
        // The more fits into a pipe, the less often the two wait for each other.
        let _as_it_is = rustix::pipe::fcntl_setpipe_size(&stdin, PIPE);
        let _as_it_is = rustix::pipe::fcntl_setpipe_size(&stdout, PIPE);
        Ok(Worker { child, stdin, stdout, given: 0, calls: 0, tier })
    }
}

/// What it took, for the record of the call that it was for.
fn ran(ctx: Option<&Context<'_>>, took: tool::Caged) {
    if let Some(ctx) = ctx {
        ctx.ran_caged(took);
    }
}

impl Worker {
    /// `None` where it is gone.
    async fn ask(&mut self, job: Job, args: &Bytes) -> Option<(Told, Vec<u8>)> {
        let head = Head::new(job.letter, job.limit, args.len())?;
        self.stdin.write_all(&head.encode()).await.ok()?;
        self.stdin.write_all(args).await.ok()?;
        let mut head = [0; frame::ANSWER];
        self.stdout.read_exact(&mut head).await.ok()?;
        let told = Told::decode(head)?;
        let mut answer = vec![0; told.length];
        self.stdout.read_exact(&mut answer).await.ok()?;
        Some((told, answer))
    }

    async fn why(mut self, ctx: Option<&Context<'_>>) -> String {
        drop((self.stdin, self.stdout));
        let ended = tokio::time::timeout(LATE, self.child.wait()).await;
        ran(ctx, caged_child(self.tier, &self.child));
        match ended {
            Ok(Exit::Code(TOO_MUCH)) => "it took more memory than it may".to_owned(),
            Ok(Exit::Signal(11)) => "it nests too deeply".to_owned(),
            Ok(Exit::NotStarted(why)) => why,
            _ => "it was more than a worker can do; ask for less".to_owned(),
        }
    }
}
