//! The port through which calls run.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;

use crate::{
    Args, Boxed, Caged, Call, CallId, Caller, Code, Effects, Json, Mono, Outcome, Secret,
    SourceName, Ticket, Wall,
};

/// Runs one call. Only the pipeline calls it, and only with a [`Granted`].
pub trait Executor: Send + Sync + fmt::Debug {
    /// Runs `call`. Where `ctx.cancel` fires it should stop soon; after a grace the future is dropped.
    ///
    /// # Errors
    /// [`ExecuteError`] where the tool did not get to answer. A tool that answers with a failure is an
    /// [`Outcome`] with `is_error`.
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>>;

    /// Rejects arguments with which the call is sure to fail, such as a path outside the tool's folders.
    /// The pipeline calls it before it holds a call, so that nobody approves what cannot succeed. It has no
    /// effect, does no I/O, and shares its rules with [`Executor::execute`].
    ///
    /// # Errors
    /// What is wrong with the arguments, in words for the caller.
    fn check_args(&self, _args: &Args) -> Result<(), String> {
        Ok(())
    }

    /// The nodes that may run it, the first one first; none of what runs nowhere in particular.
    fn places(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether all it does is to make calls, each of which is checked and recorded by itself. What a crash
    /// leaves unknown is then known of them, and its own records need no sync.
    fn only_calls(&self) -> bool {
        false
    }

    /// One that runs the same tool in the places of `others` too. `None` where it cannot.
    fn beside(&self, _others: &[Arc<dyn Executor>]) -> Option<Arc<dyn Executor>> {
        None
    }
}

/// A call that may run: its intent is on record.
#[derive(Debug, Clone, Copy)]
pub struct Granted<'a> {
    call: &'a Call,
}

impl<'a> Granted<'a> {
    /// Binds a call to the ticket the ledger gave for it; `None` where the ticket is another call's.
    pub fn of(call: &'a Call, ticket: &'a Ticket) -> Option<Self> {
        (ticket.call() == call.id).then_some(Self { call })
    }

    /// The call.
    pub fn call(&self) -> &'a Call {
        self.call
    }
}

/// How far an executor came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// To the end.
    Done(Outcome),
    /// To a question; the call is held.
    Wait(Wait),
}

/// What a held call waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    /// Answers of the client. `resume` comes back with them, sealed on its way.
    Input {
        /// The questions, in MCP's words: an object of requests under keys of the executor's choice. The
        /// answers come back under the same keys.
        requests: Json,
        /// The executor's own state.
        resume: Bytes,
    },
    /// A decision of a person. The wait has the call's own id.
    Approval(Approval),
    /// Another call.
    Nested(CallId),
}

/// What a call waits for that a person has to agree to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// Why, as the policy says it in words.
    pub reason: String,
    /// When the wait ends by itself.
    pub expires: Wall,
    /// The tool's side effects: the declared ones, or [`Effects::UNKNOWN`].
    pub effects: Vec<String>,
    /// Whether a person has agreed already, and the call only has to go on.
    pub approved: bool,
    /// Whether an agent's key made the call. Otherwise it is a person's own call, which no key of that
    /// person approves.
    pub by_agent: bool,
}

impl Approval {
    /// Spec 3's `side_effects_declared`: of its six values those that are declared.
    pub fn declared_effects(&self) -> Vec<&str> {
        self.effects.iter().map(String::as_str).filter(|word| *word != Effects::UNKNOWN).collect()
    }
}

/// What an executor may use besides its call.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// On whose behalf.
    pub caller: &'a Caller,
    /// When the answer is of no more use.
    pub deadline: Mono,
    /// Fires when the caller gives up or the deadline passes.
    pub cancel: &'a dyn Cancel,
    /// Where progress goes. Bounded and lossy: telling it never waits.
    pub progress: &'a dyn Progress,
    /// What the client at the other end can do.
    pub client: &'a ClientCan,
    /// What the client wrote beside the arguments: MCP's `_meta`, as it came.
    pub meta: Option<&'a Json>,
    /// A live door to the client; `None` on stateless doors, where a question is a [`Wait`].
    pub ask: Option<&'a dyn Ask>,
    /// Where the call can go on as a task; `None` where its client follows none.
    pub task: Option<&'a dyn Task>,
    /// Credentials for upstreams.
    pub credentials: &'a dyn Credentials,
    /// Nested calls, for the sources inside this program; the pipeline sets parent, depth and caller type.
    pub calls: Option<&'a dyn Calls>,
    /// From 1.
    pub attempt: u8,
    /// Where what the call took in a cage is told, for the record.
    pub caged: Option<&'a OnceLock<Caged>>,
    /// Where the node that answered is named, for interfaces that return it.
    pub node: Option<&'a OnceLock<String>>,
}

impl Context<'_> {
    /// Tells what the call took in a cage; the first word counts.
    pub fn ran_caged(&self, caged: Caged) {
        if let Some(place) = self.caged {
            place.get_or_init(|| caged);
        }
    }

    /// Names the node that answered; the first name counts.
    pub fn ran_on(&self, node: &str) {
        if let Some(place) = self.node {
            place.get_or_init(|| node.to_owned());
        }
    }
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

/// Tells that a call is given up.
pub trait Cancel: Send + Sync {
    /// Resolves when it is.
    fn cancelled(&self) -> Boxed<'_, ()>;
    /// Whether it is already.
    fn is_cancelled(&self) -> bool;
}

/// Takes progress.
pub trait Progress: Send + Sync {
    /// `done` of `total`, with a line for people.
    fn report(&self, done: f64, total: Option<f64>, message: Option<&str>);

    /// Whether anybody listens: an upstream need not be asked to tell what nobody hears.
    fn wanted(&self) -> bool {
        true
    }

    /// A notification of the upstream that belongs to this call, in MCP's words and as it came: a log
    /// line, a changed resource. A door that has no place for it leaves it out.
    fn notify(&self, _method: &str, _params: &Json) {}
}

/// Asks the client while the call runs.
pub trait Ask: Send + Sync {
    /// Sends a request in MCP's words and resolves with its result.
    fn ask<'a>(&'a self, method: &'a str, params: Json) -> Boxed<'a, Result<Json, Unanswered>>;
}

/// Where a call goes on after its client was answered: as a task, which the client comes back for. From
/// then on the questions of the call go through this.
pub trait Task: Ask {
    /// The call is a task from here on. `false` where it cannot be one, because too many are; then it
    /// goes on like any other. Told twice, it is so once.
    fn hold(&self, call: &Call) -> bool;

    /// How long the call may take in all, where it is a task by now.
    fn held(&self) -> Option<Duration>;

    /// A line for people on where the task stands, bounded by the executor.
    fn tell(&self, line: &str);
}

/// A question to the client that got no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// The client answered with an error.
    #[error("the client refused: {message} ({code})")]
    Refused {
        /// JSON-RPC's code.
        code: i64,
        /// In the client's words, bounded by the door.
        message: String,
    },
    /// The client is gone, or did not say that it can answer this.
    #[error("the client cannot be asked")]
    Gone,
}

/// What the client declared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent capabilities of MCP")]
pub struct ClientCan {
    /// Answer questions of the server to the user.
    pub elicit: bool,
    /// Lend its model.
    pub sample: bool,
    /// List its roots.
    pub roots: bool,
    /// Follow a task.
    pub tasks: bool,
    /// Whether it speaks with one source as if it were alone there: what the source wants of its clients
    /// is then for this one to do, and is not done in its place.
    pub alone: bool,
    /// The same in the client's own words: MCP's `ClientCapabilities`, as they came.
    pub declared: Option<Json>,
}

/// Credentials for upstreams. Those of callers are never passed on.
pub trait Credentials: Send + Sync {
    /// For one source and one caller.
    fn for_source<'a>(
        &'a self,
        source: &'a SourceName,
        caller: &'a Caller,
    ) -> Boxed<'a, Credential>;
}

/// No source needs a credential: for programs whose tools are their own.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCredentials;

impl Credentials for NoCredentials {
    fn for_source<'a>(&'a self, _: &'a SourceName, _: &'a Caller) -> Boxed<'a, Credential> {
        Box::pin(std::future::ready(Credential::None))
    }
}

/// What the credential port answers.
#[derive(Debug, Clone)]
pub enum Credential {
    /// The source needs none.
    None,
    /// Send this.
    Secret(Secret),
    /// Someone has to agree first, here.
    NeedsConsent(String),
    /// There is none for this caller; what is missing, in words.
    Missing(String),
}

/// Nested calls.
pub trait Calls: Send + Sync {
    /// Makes one, by tool name, with the caller's own rights.
    fn call<'a>(&'a self, tool: &'a str, args: Json) -> Boxed<'a, Result<Outcome, ExecuteError>>;
}

/// A call that did not get its answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExecuteError {
    /// The code.
    pub code: Code,
    /// In words. Bounded by the pipeline, and marked as the upstream's where it is.
    pub message: String,
    /// Whether anything had been sent: what surely was not may be tried again.
    pub sent: Sent,
    /// The upstream's own JSON-RPC error, where that is what it answered.
    pub rpc: Option<Box<Rpc>>,
}

/// A JSON-RPC error of an upstream, for a door that speaks it too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rpc {
    /// The code.
    pub code: i64,
    /// In the upstream's words. Bounded by the executor, and not escaped.
    pub message: String,
    /// More, as it came. Bounded by the executor.
    pub data: Option<Json>,
}

/// Whether the tool may have begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Surely not.
    No,
    /// It may have.
    Maybe,
}

impl ExecuteError {
    /// Nothing had been sent.
    pub fn before(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), sent: Sent::No, rpc: None }
    }

    /// The tool may have begun.
    pub fn during(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), sent: Sent::Maybe, rpc: None }
    }
}
