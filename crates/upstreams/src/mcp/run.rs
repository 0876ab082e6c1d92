//! One call on its way: sent, followed through progress and questions, sent again where the server
//! wants more, and at its end an outcome, a wait or an error.

mod round;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::mcp::{Era, Request, RpcError, code, meta};
use tool::executor::{Rpc, Sent};
use tool::{Call, Code, Context, ExecuteError, Json, Step, Wait};

use super::exchange::{Event, Exchange, Kind};
use super::fail::refused;
use super::link::{Link, Unanswered};
use super::mirror::Mirrored;
use super::parked::{Held, MOST, Owner};
use super::pipe::Broken;
use super::question::{ask, can_answer, relayed};
use super::request::{Outgoing, Params};
use super::upstream::Upstream;
use super::wording::shown;

use round::{Next, Resumed, Rounds};

/// Characters of a progress notice's text.
const PROGRESS_TEXT: usize = 500;
/// Questions of one call.
const QUESTIONS: usize = 1_000;
/// Characters of an upstream's own error, and bytes of what stands beside it.
const ERROR: (usize, usize) = (4_096, 64 << 10);

/// What is to be done at the server.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) method: &'a str,
    pub(super) params: Params<'a>,
    pub(super) mirrored: Option<&'a Mirrored>,
}

/// One call.
pub(super) struct Run<'a> {
    pub(super) upstream: &'a Arc<Upstream>,
    pub(super) call: &'a Call,
    pub(super) ctx: &'a Context<'a>,
    begun: AtomicBool,
}

/// How far one request came.
enum Followed {
    Answered(Json),
    Held(Step),
}

impl<'a> Run<'a> {
    pub(super) fn new(upstream: &'a Arc<Upstream>, call: &'a Call, ctx: &'a Context<'a>) -> Self {
        Self { upstream, call, ctx, begun: AtomicBool::new(false) }
    }

    /// Runs it, unless it is given up. Then the server is told, by dropping what is in flight.
    pub(super) async fn job(&self, job: Job<'_>) -> Result<Step, ExecuteError> {
        tokio::select! {
            biased;
            () = self.ctx.cancel.cancelled() => Err(self.cancelled()),
            stepped = self.steps(job) => stepped,
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

    /// The connection, once it is there.
    pub(super) async fn link(&self) -> Result<Arc<Link>, ExecuteError> {
        let name = &self.upstream.name;
        self.upstream.start();
        self.upstream.link().await.map_err(|fault| {
            let message = format!("the source `{name}` is not up: it {}", fault.message);
            ExecuteError::before(Code::UpstreamLost, message)
        })
    }

    async fn steps(&self, job: Job<'_>) -> Result<Step, ExecuteError> {
        let mut request = self.request(&job);
        let mut resumed = None;
        if let Some(resume) = &self.call.continues {
            resumed = match Resumed::read(&resume.state).ok_or_else(|| self.not_waiting())? {
                Resumed::Parked(name) => Some(self.unpark(name, &resume.answers).await?),
                Resumed::Asked(state) => {
                    request.answers = Some(resume.answers.clone());
                    request.state = state;
                    None
                }
            };
        }
        let link = match &resumed {
            Some(exchange) => Arc::clone(exchange.link()),
            None => self.link().await?,
        };
        if request.answers.is_some() && link.era() == Era::Handshake {
            return Err(self.not_waiting());
        }
        let mut rounds = Rounds::default();
        loop {
            let exchange = match resumed.take() {
                Some(exchange) => exchange,
                None => self
                    .send(&link, &request, job.mirrored)
                    .await
                    .map_err(|error| rounds.of(error))?,
            };
            let result = match self.follow(exchange).await? {
                Followed::Answered(result) => result,
                Followed::Held(step) => return Ok(step),
            };
            match self.judge(result, link.era(), &mut rounds).await? {
                Next::Step(step) => return Ok(step),
                Next::Again { answers, state } => {
                    request.answers = answers;
                    request.state = state;
                }
            }
        }
    }

    fn request<'b>(&self, job: &Job<'b>) -> Outgoing<'b> {
        let mut passed = self.ctx.meta.map(meta::passed_on).unwrap_or_default();
        if let Some(level) = self.ctx.meta.and_then(|meta| meta.get(meta::LOG_LEVEL)) {
            passed.push((meta::LOG_LEVEL.to_owned(), level));
        }
        Outgoing {
            method: job.method,
            params: job.params.clone(),
            passed,
            can: relayed(self.ctx.client),
            progress: true,
            answers: None,
            state: None,
        }
    }

    async fn send(
        &self,
        link: &Arc<Link>,
        request: &Outgoing<'_>,
        mirrored: Option<&Mirrored>,
    ) -> Result<Exchange, ExecuteError> {
        let slot = link.slot().map_err(|why| self.unanswered(why))?;
        self.begun.store(true, Ordering::Relaxed);
        let sent = link.begin(request, Kind::Call(slot, mirrored)).await;
        sent.map_err(|why| self.unanswered(why))
    }

    /// Follows a request to its answer, or to a question that ends this call.
    async fn follow(&self, mut exchange: Exchange) -> Result<Followed, ExecuteError> {
        let mut asked = 0;
        loop {
            match exchange.next().await.map_err(|why| self.unanswered(why))? {
                Event::Answered(Ok(result)) => return Ok(Followed::Answered(result)),
                Event::Answered(Err(error)) => return Err(self.refused(&exchange, error)),
                Event::Spoiled(spoiled) => return Err(self.rpc(spoiled.into())),
                Event::Progressed(step) => {
                    let message = step.message.map(|text| shown(&text, PROGRESS_TEXT));
                    self.ctx.progress.report(step.done, step.total, message.as_deref());
                }
                Event::Noticed(notice) => {
                    let params = notice.params.unwrap_or_else(Json::empty);
                    self.ctx.progress.notify(&notice.method, &params);
                }
                Event::Asked(question) => {
                    asked += 1;
                    if asked > QUESTIONS {
                        let why = format!("with more than {QUESTIONS} questions to the client");
                        return Err(self.failed(&why));
                    }
                    match self.answer(exchange.link(), &question).await? {
                        Some(answer) => {
                            let told = exchange.link().reply(&question.id, &answer).await;
                            told.map_err(|why| self.unanswered(why))?;
                        }
                        None => return self.park(exchange, &question).map(Followed::Held),
                    }
                }
            }
        }
    }

    /// The answer to a question; none where the client can only be asked by ending this call.
    async fn answer(
        &self,
        link: &Link,
        question: &Request,
    ) -> Result<Option<Result<Json, RpcError>>, ExecuteError> {
        if let Some(client) = self.ctx.ask {
            return tokio::select! {
                answer = ask(client, &question.method, question.params.as_ref()) => Ok(Some(answer)),
                () = link.over() => Err(self.unanswered(Unanswered::Lost)),
            };
        }
        if can_answer(self.ctx.client, &question.method) {
            return Ok(None);
        }
        let why = format!("the client did not say that it answers `{}`", question.method);
        Ok(Some(Err(RpcError::new(code::METHOD_NOT_FOUND, why))))
    }

    fn park(&self, exchange: Exchange, question: &Request) -> Result<Step, ExecuteError> {
        let params = question.params.clone().unwrap_or_else(Json::empty);
        let method = Json::of(&question.method);
        let asked = Json::fields([("method", &method), ("params", &params)]);
        let owner = Owner::new(&self.call.key, self.ctx.caller);
        let held = Held { exchange, question: question.id.clone(), owner };
        let Ok(name) = self.upstream.park(held) else {
            let name = &self.upstream.name;
            let message = format!(
                "{MOST} calls of the source `{name}` wait for answers of their clients; try again later"
            );
            return Err(ExecuteError::during(Code::Busy, message));
        };
        let resume = Resumed::Parked(&name).write();
        Ok(Step::Wait(Wait::Input { requests: Json::fields([("q1", &asked)]), resume }))
    }

    /// Answers what a request waits for, and goes on with it.
    async fn unpark(&self, name: &[u8], answers: &Json) -> Result<Exchange, ExecuteError> {
        let owner = Owner::new(&self.call.key, self.ctx.caller);
        let held = self.upstream.unpark(name, &owner).ok_or_else(|| self.not_waiting())?;
        self.begun.store(true, Ordering::Relaxed);
        let answer = answers.get("q1").ok_or_else(|| {
            RpcError::new(code::INTERNAL_ERROR, "the client left the question unanswered")
        });
        let told = held.exchange.link().reply(&held.question, &answer).await;
        told.map_err(|why| self.unanswered(why))?;
        Ok(held.exchange)
    }

    fn not_waiting(&self) -> ExecuteError {
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
