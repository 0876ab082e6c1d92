//! One execution: deadline, cancellation, grace period, panic, result size, outcome record.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::time::{sleep, timeout};
use tool::executor::Wait;
use tool::executor::{Ask, PrincipalToken, Sent, Task};
use tool::outcome::{Body, Failure, Status};
use tool::{Caged, Code, Context, End, ExecuteError, Executor, Granted, Mono, Step, Ticket};

use crate::aside::aside;
use crate::cancel::{Signal, Unheard};
use crate::pipeline::Ready;
use crate::principal_executor::CallPrincipal;
use crate::shape::{self, Words};
use crate::{Request, Target};

/// Maximum length of a forwarded error message in characters.
const ERROR_TEXT: usize = 2_048;

/// Time limit of subscriptions: a day, so that none lasts for ever.
const LASTING: Duration = Duration::from_hours(24);

pub(crate) struct Run {
    caller: CallPrincipal,
    started: Mono,
    request: Box<Request>,
    ready: Box<Ready>,
    pub(crate) cancel: Signal,
}

/// Status of a call and its result.
pub(crate) type Ended = (Status, Result<Step, Failure>);

impl Run {
    pub(crate) fn new(
        caller: CallPrincipal,
        started: Mono,
        request: Box<Request>,
        ready: Box<Ready>,
    ) -> Self {
        let cancel = request.task.as_ref().map(|it| it.cancel.clone()).unwrap_or_default();
        Self { caller, started, request, ready, cancel: Signal(cancel) }
    }

    pub(crate) async fn finish(self, ticket: Ticket) -> Ended {
        let clock = &self.caller.gateway.parts.clock;
        let caged = OnceLock::new();
        let stepped = self.execute(&ticket, &caged).await;
        let ended = self.shape(stepped).await;
        let elapsed = clock.mono().since(self.started);
        let body = ended.1.as_ref().ok().and_then(answered);
        let end = End {
            at: clock.wall(),
            status: ended.0,
            code: ended.1.as_ref().err().map(|failure| failure.code),
            elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            bytes: body.as_ref().map_or(0, Bytes::len),
            result: body.map(|body| aside(body.len(), || self.caller.gateway.mac.of(&body))),
            cage: caged.into_inner(),
        };
        match self.caller.gateway.parts.ledger.finish(ticket, end, self.ready.entry.need()).await {
            Ok(()) => ended,
            Err(error) => {
                tracing::error!(%error, call = %self.ready.call.id, "outcome not recorded");
                let told = format!("the call ran, but its outcome cannot be recorded: {error}");
                (Status::Unknown, Err(Failure::new(Code::RecordUnavailable, told)))
            }
        }
    }

    async fn execute(
        &self,
        ticket: &Ticket,
        caged: &OnceLock<Caged>,
    ) -> Result<Step, ExecuteError> {
        let Some(granted) = Granted::of(&self.ready.call, ticket) else {
            return Err(ExecuteError::before(
                Code::Internal,
                "the record of another call was given",
            ));
        };
        let limit = self.limit();
        let words = Words {
            progress: self.request.progress.as_deref().unwrap_or(&Unheard),
            ask: self.request.ask.as_deref(),
            task: self.request.task.as_ref().map(|it| &*it.task),
        };
        let ctx = Context {
            caller: self.caller.principal.caller(),
            deadline: self.started.after(limit),
            cancel: &self.cancel,
            progress: &words,
            client: &self.request.client,
            meta: self.request.meta.as_ref(),
            ask: words.ask.is_some().then_some(&words as &dyn Ask),
            task: words.task.is_some().then_some(&words as &dyn Task),
            credentials: self.caller.gateway.parts.credentials.as_ref(),
            principal: Some(PrincipalToken::seal(&self.caller)),
            caged: Some(caged),
            node: self.request.node.as_deref(),
        };
        self.bounded(self.ready.entry.executor.as_ref(), granted, &ctx, limit).await
    }

    /// Returns the tool's time limit, or the default, or the client's if that is shorter.
    fn limit(&self) -> Duration {
        let options = &self.caller.gateway.parts.options;
        if self.request.lasting && matches!(self.request.target, Target::Method { .. }) {
            return LASTING;
        }
        let own = self.ready.call.tool.traits.timeout.unwrap_or(options.timeout);
        let asked = self.request.timeout.unwrap_or(options.timeout_max);
        own.min(asked).min(options.timeout_max)
    }

    /// Executes until the result, the deadline or cancellation; after the latter two the executor
    /// has a grace period to stop, and then it is dropped.
    async fn bounded(
        &self,
        executor: &dyn Executor,
        granted: Granted<'_>,
        ctx: &Context<'_>,
        limit: Duration,
    ) -> Result<Step, ExecuteError> {
        // A panic fails one call, not the server.
        let running = executor.execute(granted, ctx);
        let mut running = pin!(AssertUnwindSafe(running).catch_unwind());
        let fault = |_| Err(ExecuteError::during(Code::Internal, "a fault in the tool's executor"));
        let mut longer = false;
        let stopped = loop {
            let left = if longer { self.more(limit) } else { limit };
            tokio::select! {
                biased;
                stepped = &mut running => return stepped.unwrap_or_else(fault),
                () = sleep(left) => {
                    let more = self.more(limit);
                    if !longer && !more.is_zero() {
                        longer = true;
                        continue;
                    }
                    let told = format!("Tool execution timed out ({}).", seconds(limit + more));
                    break ExecuteError::during(Code::Timeout, told);
                }
                () = self.cancel.0.cancelled() => {
                    break ExecuteError::during(Code::Cancelled, "the caller gave the call up");
                }
            }
        };
        self.cancel.0.cancel();
        let grace = self.caller.gateway.parts.options.grace;
        // A result within the grace period states what happened, so it is used.
        match timeout(grace, running).await {
            Ok(Ok(Ok(Step::Done(outcome)))) => Ok(Step::Done(outcome)),
            _ => Err(stopped),
        }
    }

    /// Returns the additional time of a call that became a task: its task's limit, unless the
    /// operator set a time limit for the tool.
    fn more(&self, limit: Duration) -> Duration {
        let own = self.ready.call.tool.traits.timeout.is_some();
        let held = self.request.task.as_ref().filter(|_| !own).and_then(|it| it.task.held());
        held.unwrap_or_default().saturating_sub(limit)
    }

    async fn shape(&self, stepped: Result<Step, ExecuteError>) -> Ended {
        let step = match stepped {
            Ok(step) => step,
            Err(error) => return failed(error),
        };
        let (size, cap) = (size(&step), self.caller.gateway.parts.options.result_bytes);
        if size > cap {
            if let Some(kept) = Box::pin(self.kept(&step)).await {
                let failed = matches!(&kept, Step::Done(outcome) if outcome.is_error);
                return (if failed { Status::Failed } else { Status::Succeeded }, Ok(kept));
            }
            let told =
                format!("the tool ran, but its answer has {size} bytes and {cap} are allowed");
            return (Status::Failed, Err(Failure::new(Code::TooLarge, told)));
        }
        let step = aside(size, || shape::step(step));
        let status = match &step {
            Step::Done(outcome) if outcome.is_error => Status::Failed,
            Step::Done(_) => Status::Succeeded,
            Step::Wait(_) => Status::Waiting,
        };
        (status, Ok(step))
    }
}

impl Run {
    /// Stores a result that is too large for its caller, and returns a preview with the location of
    /// the rest.
    async fn kept(&self, step: &Step) -> Option<Step> {
        let (artefacts, Step::Done(outcome)) = (self.caller.gateway.artefacts.as_ref()?, step)
        else {
            return None;
        };
        // Secrets are redacted before it is stored.
        let shaped = aside(outcome.size(), || shape::step(Step::Done(outcome.clone())));
        let Step::Done(outcome) = shaped else { return None };
        let large = shape::LargeAnswer {
            outcome: &outcome,
            has_schema: self.ready.entry.tool.output.is_some(),
            limit: self.caller.gateway.parts.options.result_bytes,
        };
        match large.kept(artefacts.as_ref(), self.caller.principal.caller()).await {
            Ok(outcome) => Some(Step::Done(outcome)),
            Err(error) => {
                tracing::warn!(%error, call = %self.ready.call.id, "a large answer is not kept");
                None
            }
        }
    }
}

/// Returns the part of a result that the record hashes.
fn answered(step: &Step) -> Option<Bytes> {
    match step {
        Step::Done(outcome) => {
            let (Body::Value(json) | Body::Mcp(json)) = &outcome.body;
            Some(json.bytes().clone())
        }
        Step::Wait(_) => None,
    }
}

fn size(step: &Step) -> usize {
    match step {
        Step::Done(outcome) => outcome.size(),
        Step::Wait(Wait::Input { requests, resume }) => requests.bytes().len() + resume.len(),
        Step::Wait(_) => 0,
    }
}

fn failed(error: ExecuteError) -> Ended {
    let status = if error.code == Code::Cancelled { Status::Cancelled } else { Status::Failed };
    // An upstream's message is sanitized like a result; more than the shown part is sanitized, so
    // that a credential at the edge is still recognised.
    let long: String = error.message.chars().take(2 * ERROR_TEXT).collect();
    let mut message: String = shape::text(&long).chars().take(ERROR_TEXT).collect();
    if error.sent == Sent::Maybe && error.code == Code::UpstreamLost {
        message.push_str("; it may have run");
    }
    let rpc = error.rpc.map(|rpc| Box::new(shape::rpc(*rpc)));
    (status, Err(Failure { rpc, ..Failure::new(error.code, message) }))
}

/// Formats whole seconds without decimals, as the module API prints them; milliseconds below one.
fn seconds(limit: Duration) -> String {
    if limit.subsec_millis() == 0 {
        return format!("{}s", limit.as_secs());
    }
    format!("{}ms", limit.as_millis())
}
