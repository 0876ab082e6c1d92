//! One request in flight: what it brings goes to the client of the call, and what the client says to
//! its questions goes back.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use ::mcp::{Era, Id, Request, RpcError, code};
use tokio::time::sleep;
use tool::executor::{Ask, Rpc};
use tool::{Boxed, Code, ExecuteError, Json, Step, Wait};

use super::Run;
use super::round::Resumed;
use super::task::Way;
use crate::ears::{PROGRESS, Progress};
use crate::exchange::{Event, Exchange};
use crate::link::Link;
use crate::parked::{Held, MOST, Owner};
use crate::question::{ask, can_answer, undeclared};
use tool::display_text::shown;

/// Bytes of a progress notice that goes on as it came, and characters of its text where it has more.
const NOTICE: (usize, usize) = (4 << 10, 500);
/// Questions of one call.
const QUESTIONS: usize = 1_000;
/// The key of the one question that a request waits for.
const QUESTION: &str = "q1";
/// Questions of one call that wait for the one before them.
const WAITING: usize = 16;
/// How long a call that may take long is waited for before it becomes a task.
const SLOW: Duration = Duration::from_millis(250);

/// How far one request came.
pub(super) enum Followed {
    Answered(Json),
    Held(Step),
}

/// The questions that are open. A client that holds them for a person is told all at once, any other
/// one after the other.
#[derive(Default)]
struct Open<'a> {
    asked: usize,
    waiting: VecDeque<Request>,
    current: Vec<(Id, Boxed<'a, Result<Json, RpcError>>)>,
}

impl<'a> Open<'a> {
    /// Asks the next ones, as far as the client takes them.
    fn ask(&mut self, client: &'a dyn Ask, at_once: usize) {
        while self.current.len() < at_once {
            let Some(Request { id, method, params }) = self.waiting.pop_front() else { return };
            let answer = async move { ask(client, &method, params.as_ref()).await };
            let answer: Boxed<'a, _> = Box::pin(answer);
            self.current.push((id, answer));
        }
    }

    /// The answer of the client; never, where nothing was asked. May be dropped and called again.
    async fn answered(&mut self) -> (Id, Result<Json, RpcError>) {
        let (at, answer) = poll_fn(|cx| {
            let ready = self.current.iter_mut().enumerate().find_map(|(at, (_, answer))| {
                match answer.as_mut().poll(cx) {
                    Poll::Ready(answer) => Some((at, answer)),
                    Poll::Pending => None,
                }
            });
            ready.map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        let (id, _) = self.current.remove(at);
        (id, answer)
    }

    /// The server wants no answer to this any more.
    fn withdraw(&mut self, id: &Id) {
        self.waiting.retain(|question| question.id != *id);
        self.current.retain(|(asked, _)| asked != id);
    }
}

impl<'a> Run<'a> {
    /// Whom questions go to while the call runs: its task where it is one, or a live client.
    pub(super) fn client(&self) -> Option<&'a dyn Ask> {
        let held = self.ctx.task.filter(|task| task.held().is_some());
        held.map(|task| task as &dyn Ask).or(self.ctx.ask)
    }

    fn ask_next<'b>(&self, open: &mut Open<'b>)
    where
        'a: 'b,
    {
        let held = self.ctx.task.is_some_and(|task| task.held().is_some());
        if let Some(client) = self.client() {
            open.ask(client, if held { WAITING } else { 1 });
        }
    }

    /// Follows a request to its answer, or to a question that ends this call.
    pub(super) async fn follow(
        &self,
        mut exchange: Exchange,
        way: Way,
    ) -> Result<Followed, ExecuteError> {
        let mut open = Open::default();
        let link = Arc::clone(exchange.link());
        let mut slow = (way == Way::Slow).then(|| Box::pin(sleep(SLOW)));
        loop {
            let event = tokio::select! {
                biased;
                event = exchange.next() => event.map_err(|why| self.unanswered(why))?,
                (id, answer) = open.answered(), if !open.current.is_empty() => {
                    Box::pin(self.reply(&link, &id, &answer)).await?;
                    self.ask_next(&mut open);
                    continue;
                }
                () = async { if let Some(slow) = &mut slow { slow.await } }, if slow.is_some() => {
                    slow = None;
                    self.hold();
                    continue;
                }
            };
            match event {
                Event::Answered(Ok(result)) => return Ok(Followed::Answered(result)),
                Event::Answered(Err(error)) => return Err(self.refused(&exchange, error)),
                Event::Spoiled(spoiled) => return Err(self.rpc(spoiled.into())),
                Event::Progressed(params) => self.progressed(&params),
                Event::Noticed(notice) => {
                    let params = notice.params.unwrap_or_else(Json::empty);
                    self.ctx.progress.notify(&notice.method, &params);
                }
                Event::Withdrawn(id) => {
                    open.withdraw(&id);
                    self.ask_next(&mut open);
                }
                Event::Asked(question) => {
                    if Box::pin(self.waits(&link, &question, &mut open)).await? {
                        return self.park(exchange, question).map(Followed::Held);
                    }
                }
            }
        }
    }

    /// With all its fields, known and unknown; of a longer one what is known of it.
    fn progressed(&self, params: &Json) {
        if params.bytes().len() <= NOTICE.0 {
            return self.ctx.progress.notify(PROGRESS, params);
        }
        if let Ok(step) = params.read::<Progress>() {
            let message = step.message.map(|text| shown(&text, NOTICE.1));
            self.ctx.progress.report(step.done, step.total, message.as_deref());
        }
    }

    /// Asks, or answers in the client's place; whether the client can only be asked by ending this call.
    async fn waits<'b>(
        &self,
        link: &Link,
        question: &Request,
        open: &mut Open<'b>,
    ) -> Result<bool, ExecuteError>
    where
        'a: 'b,
    {
        open.asked += 1;
        if open.asked > QUESTIONS {
            let why = format!("with more than {QUESTIONS} questions to the client");
            return Err(self.failed(&why));
        }
        let client = self.client();
        let why = match client {
            Some(_) if open.waiting.len() < WAITING => {
                open.waiting.push_back(question.clone());
                self.ask_next(open);
                return Ok(false);
            }
            Some(_) => RpcError::new(
                code::INTERNAL_ERROR,
                format!("{WAITING} questions wait for the client already"),
            ),
            None if can_answer(self.ctx.client, &question.method) => return Ok(true),
            None => RpcError::new(
                code::METHOD_NOT_FOUND,
                format!("the client did not say that it answers `{}`", question.method),
            ),
        };
        // The server hears of it in any case: one that waits for ever serves nobody.
        self.reply(link, &question.id, &Err(why)).await?;
        let told = client.is_none() && self.era() == Era::Stateless;
        // A client of 2026-07-28 is told what to declare, and may call again. That there are no roots is
        // an answer which servers go on with.
        if told && question.method != "roots/list" {
            return Err(self.undeclared(&question.method));
        }
        Ok(false)
    }

    async fn reply(
        &self,
        link: &Link,
        id: &Id,
        answer: &Result<Json, RpcError>,
    ) -> Result<(), ExecuteError> {
        link.reply(id, answer).await.map_err(|why| self.unanswered(why))
    }

    fn park(&self, exchange: Exchange, question: Request) -> Result<Step, ExecuteError> {
        let params = question.params.clone().unwrap_or_else(Json::empty);
        let method = Json::of(&question.method);
        let asked = Json::fields([("method", &method), ("params", &params)]);
        let owner = Owner::new(&self.call.key, self.ctx.caller);
        let root = self.ctx.caller.root_key().to_owned();
        let held = Held { exchange, question, owner, root };
        let Ok(name) = self.upstream.park(held) else {
            let name = &self.upstream.name;
            let message = format!(
                "{MOST} calls of the source `{name}` wait for answers of other clients; try again later"
            );
            return Err(ExecuteError::during(Code::Busy, message));
        };
        let resume = Resumed::Parked(&name).write();
        Ok(Step::Wait(Wait::Input { requests: Json::fields([(QUESTION, &asked)]), resume }))
    }

    /// Answers what a request waits for, and goes on with it; where the answer did not come along, it is
    /// asked for again.
    pub(super) async fn unpark(
        &self,
        name: &[u8],
        answers: &Json,
    ) -> Result<Result<Exchange, Step>, ExecuteError> {
        let owner = Owner::new(&self.call.key, self.ctx.caller);
        let held = self.upstream.unpark(name, &owner).ok_or_else(|| self.not_waiting())?;
        self.begun.store(true, Ordering::Relaxed);
        let Held { exchange, question, .. } = held;
        let Some(answer) = answers.get(QUESTION) else {
            return self.park(exchange, question).map(Err);
        };
        let link = Arc::clone(exchange.link());
        self.reply(&link, &question.id, &Ok(answer)).await?;
        Ok(Ok(exchange))
    }

    /// The client cannot be asked this, as it did not declare it.
    pub(super) fn undeclared(&self, method: &str) -> ExecuteError {
        let error = undeclared(method);
        if self.era() == Era::Handshake {
            let why = format!("with `{method}`, which the client did not say that it answers");
            return self.failed(&why);
        }
        let (code, message, data) = (error.code, error.message, error.data);
        let told = format!("the source `{}`: {message}", self.upstream.name);
        let rpc = Some(Box::new(Rpc { code, message, data }));
        ExecuteError { rpc, ..ExecuteError::during(Code::UpstreamFailed, told) }
    }
}
