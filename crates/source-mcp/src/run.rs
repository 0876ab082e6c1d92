//! One call on its way: sent, followed through progress and questions, sent again where the server
//! wants more, and at its end an outcome, a wait or an error.

mod follow;
mod remote;
mod round;
mod task;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::mcp::header::Mirror;
use ::mcp::meta::{self, Onward};
use ::mcp::{Era, Revision, RpcError, code};
use tool::executor::{Rpc, Sent};
use tool::{Call, Code, Context, ExecuteError, Json, Step};

use super::call::Support;
use super::exchange::{Calling, Exchange, Kind};
use super::fail::refused;
use super::link::{Link, Unanswered};
use super::pipe::Broken;
use super::question::relayed;
use super::request::{Outgoing, Params};
use super::upstream::Upstream;

use follow::Followed;
use round::{Next, Resumed, Rounds};
use task::{Way, unrelated};

/// What is wrong with an answer that is a task.
const UNASKED: &str = "with a task to follow, which nobody asked for";
/// Characters of an upstream's own error, and bytes of what stands beside it.
const ERROR: (usize, usize) = (4_096, 64 << 10);

/// What is to be done at the server.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) method: &'a str,
    pub(super) params: Params<'a>,
    /// The arguments that stand in headers too.
    pub(super) mirror: Option<&'a Mirror>,
    /// Whether it can be sent only where headers say nothing again.
    pub(super) bare: bool,
    /// Whether it is called as a task.
    pub(super) support: Support,
}

/// How a call that ends a wait goes on.
enum Goes {
    /// With a request that is in flight, or as any other.
    On(Option<Box<Exchange>>),
    /// Not at all: this is what came of it.
    Ended(Step),
}

/// One call.
pub(super) struct Run<'a> {
    pub(super) upstream: &'a Arc<Upstream>,
    pub(super) call: &'a Call,
    pub(super) ctx: &'a Context<'a>,
    /// What the client said beside its params.
    beside: Onward,
    begun: AtomicBool,
}

impl<'a> Run<'a> {
    pub(super) fn new(upstream: &'a Arc<Upstream>, call: &'a Call, ctx: &'a Context<'a>) -> Self {
        let beside = ctx.meta.map(meta::onward).unwrap_or_default();
        Self { upstream, call, ctx, beside, begun: AtomicBool::new(false) }
    }

    /// Runs it, unless it is given up. Then the server is told, by dropping what is in flight.
    pub(super) async fn job(&self, job: Job<'_>) -> Result<Step, ExecuteError> {
        // Before anything is sent. After that the steps are looked at first: where they have ended, nobody
        // needs to be asked whether they are to go on.
        if self.ctx.cancel.is_cancelled() {
            return Err(self.cancelled());
        }
        tokio::select! {
            biased;
            stepped = self.steps(job) => stepped,
            () = self.ctx.cancel.cancelled() => Err(self.cancelled()),
        }
    }

    /// The call was given up.
    pub(super) fn cancelled(&self) -> ExecuteError {
        let message = "the call was given up";
        if self.begun.load(Ordering::Relaxed) {
            ExecuteError::during(Code::Cancelled, message)
        } else {
            ExecuteError::before(Code::Cancelled, message)
        }
    }

    /// The era of the client at the other end; of the older one, where there is no such client.
    pub(super) fn era(&self) -> Era {
        let said = self.beside.version.as_ref().and_then(Json::text);
        said.and_then(|said| Revision::read(&said)).map_or(Era::Handshake, Revision::era)
    }

    /// The connection, once it is there: in this era where the server speaks it.
    pub(super) async fn link(&self, era: Era) -> Result<Arc<Link>, ExecuteError> {
        let name = &self.upstream.name;
        self.upstream.start();
        self.upstream.link_of(era).await.map_err(|fault| {
            let login = fault.wants_login();
            let code = if login { Code::CredentialMissing } else { Code::UpstreamLost };
            // Who calls may be the one who can do it.
            let fix = fault.fix.filter(|_| login).map(|fix| format!("; {fix}")).unwrap_or_default();
            let message = format!("the source `{name}` is not up: it {}{fix}", fault.message);
            ExecuteError::before(code, message)
        })
    }

    async fn steps(&self, job: Job<'_>) -> Result<Step, ExecuteError> {
        let mut request = self.request(&job);
        let mut resumed = None;
        if self.call.continues.is_some() {
            // Boxed, as all that is rare: not to be carried by every call.
            match Box::pin(self.resumed(&mut request)).await? {
                Goes::On(exchange) => resumed = exchange.map(|exchange| *exchange),
                Goes::Ended(step) => return Ok(step),
            }
        }
        let link = match &resumed {
            Some(exchange) => Arc::clone(exchange.link()),
            None => self.link(if job.bare { Era::Handshake } else { self.era() }).await?,
        };
        if link.era() == Era::Stateless {
            request.can = relayed(self.ctx.client);
        }
        if request.answers.is_some() && link.era() == Era::Handshake {
            return Err(self.not_waiting());
        }
        if self.call.continues.is_none() && link.era() == Era::Stateless {
            request.answers.clone_from(&self.call.unasked);
        }
        let way = self.way(&job, &link, &mut request)?;
        let mut rounds = Rounds::default();
        loop {
            let exchange = match resumed.take() {
                Some(exchange) => exchange,
                None => self
                    .send(&link, &request, (job.mirror, None))
                    .await
                    .map_err(|error| rounds.of(error))?,
            };
            let followed = self
                .follow(exchange, way)
                .await
                .map_err(|error| rounds.of(self.retold(error, (job.method, link.era()))));
            let result = match followed {
                Ok(Followed::Answered(result)) if request.task.is_some() => unrelated(result),
                Ok(Followed::Answered(result)) => result,
                Ok(Followed::Held(step)) => return Ok(step),
                Err(error) if self.wants_a_task(&error, &mut request) => continue,
                Err(error) => return Err(error),
            };
            if request.task.is_some() && self.call.continues.is_none() {
                return Box::pin(self.task(&link, &result)).await;
            }
            match self.judge(result, link.era(), &mut rounds).await? {
                Next::Step(step) => return Ok(step),
                Next::Task(result) if way == Way::Task && link.greeted().can.tasks.is_some() => {
                    return Box::pin(self.task(&link, &result)).await;
                }
                Next::Task(_) => return Err(self.failed(UNASKED)),
                Next::Again { answers, state } => {
                    request.answers = answers;
                    request.state = state;
                }
            }
        }
    }

    /// What the call goes on with, where it ends a wait.
    async fn resumed(&self, request: &mut Outgoing<'_>) -> Result<Goes, ExecuteError> {
        let Some(resume) = &self.call.continues else { return Ok(Goes::On(None)) };
        match Resumed::read(&resume.state).ok_or_else(|| self.not_waiting())? {
            Resumed::Parked(name) => Ok(match self.unpark(name, &resume.answers).await? {
                Ok(exchange) => Goes::On(Some(Box::new(exchange))),
                Err(asked_again) => Goes::Ended(asked_again),
            }),
            Resumed::Asked(state) => {
                request.answers = Some(resume.answers.clone());
                request.state = state;
                Ok(Goes::On(None))
            }
            Resumed::Task(task) => {
                Box::pin(self.rejoin(&task, &resume.answers)).await.map(Goes::Ended)
            }
        }
    }

    fn request<'b>(&self, job: &Job<'b>) -> Outgoing<'b> {
        Outgoing {
            method: job.method,
            params: job.params.clone(),
            passed: self.beside.passed.clone(),
            can: Json::empty(),
            level: self.beside.level.clone(),
            progress: self.ctx.progress.wanted(),
            answers: None,
            state: None,
            task: None,
        }
    }

    async fn send(
        &self,
        link: &Arc<Link>,
        request: &Outgoing<'_>,
        (mirror, task): (Option<&Mirror>, Option<&str>),
    ) -> Result<Exchange, ExecuteError> {
        let slot = link.slot().map_err(|why| self.unanswered(why))?;
        self.begun.store(true, Ordering::Relaxed);
        let mirror = mirror.map(|mirror| (mirror, self.call.args.value()));
        let calling = Calling { slot, mirror, caller: self.ctx.caller, task };
        let sent = link.begin(request, Kind::Call(calling)).await;
        sent.map_err(|why| self.unanswered(why))
    }

    pub(super) fn not_waiting(&self) -> ExecuteError {
        let name = &self.upstream.name;
        let message = format!(
            "the call that this one continues no longer waits at the source `{name}`; make the call anew"
        );
        ExecuteError::before(Code::InvalidRequest, message)
    }

    /// An answer that is of no use.
    pub(super) fn failed(&self, why: &str) -> ExecuteError {
        let name = &self.upstream.name;
        ExecuteError::during(Code::UpstreamFailed, format!("the source `{name}` answered: {why}"))
    }

    /// The server's own error.
    fn refused(&self, exchange: &Exchange, error: RpcError) -> ExecuteError {
        if error.code == code::UNSUPPORTED_VERSION && exchange.link().era() == Era::Stateless {
            let why = "no longer speaks the revision of MCP that it spoke".to_owned();
            exchange.link().shared.end.broken(Broken::Session(why));
        }
        self.rpc(error)
    }

    /// Revisions before 2026-07-28 have a code of their own for a resource that is not there.
    fn retold(&self, mut error: ExecuteError, (method, era): (&str, Era)) -> ExecuteError {
        let older = self.era() == Era::Handshake && era == Era::Stateless;
        if let Some(rpc) = error.rpc.as_mut().filter(|_| older && method == "resources/read")
            && rpc.code == code::INVALID_PARAMS
        {
            rpc.code = code::RESOURCE_NOT_FOUND;
        }
        error
    }

    /// An error of the server, kept as it is beside our words for it.
    pub(super) fn rpc(&self, error: RpcError) -> ExecuteError {
        let failed = self.failed(&refused(&error));
        // Zero is our own word for what is no JSON-RPC error.
        let rpc = (error.code != 0).then(|| {
            let message = error.message.chars().take(ERROR.0).collect();
            let data = error.data.filter(|data| data.bytes().len() <= ERROR.1);
            Box::new(Rpc { code: error.code, message, data })
        });
        ExecuteError { rpc, ..failed }
    }

    pub(super) fn unanswered(&self, why: Unanswered) -> ExecuteError {
        super::fail::call(&self.upstream.name, why, self.upstream.options.bounds.calls)
    }
}

impl Rounds {
    /// What failed in a later round may have run in an earlier one.
    fn of(&self, error: ExecuteError) -> ExecuteError {
        let sent = if self.is_first() { error.sent } else { Sent::Maybe };
        ExecuteError { sent, ..error }
    }
}
