//! One request in flight: what it brings goes to the client of the call, and what the client says to
//! its questions goes back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ::mcp::{Era, Id, Request, RpcError, code};
use tool::executor::{Ask, Rpc};
use tool::{Boxed, Code, ExecuteError, Json, Step, Wait};

use super::Run;
use super::round::Resumed;
use crate::mcp::exchange::{Event, Exchange};
use crate::mcp::link::Link;
use crate::mcp::parked::{Held, MOST, Owner};
use crate::mcp::question::{ask, can_answer, undeclared};
use crate::mcp::wording::shown;

/// Characters of a progress notice's text.
const PROGRESS_TEXT: usize = 500;
/// Questions of one call.
const QUESTIONS: usize = 1_000;
/// The key of the one question that a request waits for.
const QUESTION: &str = "q1";
/// Questions of one call that wait for the one before them.
const WAITING: usize = 16;

/// How far one request came.
pub(super) enum Followed {
    Answered(Json),
    Held(Step),
}

/// The questions that are open, one of them at the client.
#[derive(Default)]
struct Open<'a> {
    asked: usize,
    waiting: VecDeque<Request>,
    current: Option<(Id, Boxed<'a, Result<Json, RpcError>>)>,
}

impl<'a> Open<'a> {
    /// Asks the next one, where none is at the client.
    fn ask(&mut self, client: &'a dyn Ask) {
        if self.current.is_some() {
            return;
        }
        self.current = self.waiting.pop_front().map(|question| {
            let Request { id, method, params } = question;
            let answer = async move { ask(client, &method, params.as_ref()).await };
            let answer: Boxed<'a, _> = Box::pin(answer);
            (id, answer)
        });
    }

    /// The answer of the client; never, where nothing was asked. May be dropped and called again.
    async fn answered(&mut self) -> (Id, Result<Json, RpcError>) {
        let Some((id, answer)) = &mut self.current else { return std::future::pending().await };
        let (answer, id) = (answer.await, id.clone());
        self.current = None;
        (id, answer)
    }

    /// The server wants no answer to this any more.
    fn withdraw(&mut self, id: &Id) {
        self.waiting.retain(|question| question.id != *id);
        if self.current.as_ref().is_some_and(|(asked, _)| asked == id) {
            self.current = None;
        }
    }
}

impl Run<'_> {
    /// Follows a request to its answer, or to a question that ends this call.
    pub(super) async fn follow(&self, mut exchange: Exchange) -> Result<Followed, ExecuteError> {
        let mut open = Open::default();
        let link = Arc::clone(exchange.link());
        loop {
            let event = tokio::select! {
                biased;
                event = exchange.next() => event.map_err(|why| self.unanswered(why))?,
                (id, answer) = open.answered() => {
                    self.reply(&link, &id, &answer).await?;
                    self.ctx.ask.inspect(|client| open.ask(*client));
                    continue;
                }
            };
            match event {
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
                Event::Withdrawn(id) => {
                    open.withdraw(&id);
                    self.ctx.ask.inspect(|client| open.ask(*client));
                }
                Event::Asked(question) => {
                    if self.waits(&link, &question, &mut open).await? {
                        return self.park(exchange, question).map(Followed::Held);
                    }
                }
            }
        }
    }

    /// Asks, or answers in the client's place; whether the client can only be asked by ending this call.
    async fn waits<'a>(
        &'a self,
        link: &Link,
        question: &Request,
        open: &mut Open<'a>,
    ) -> Result<bool, ExecuteError> {
        open.asked += 1;
        if open.asked > QUESTIONS {
            let why = format!("with more than {QUESTIONS} questions to the client");
            return Err(self.failed(&why));
        }
        let why = match self.ctx.ask {
            Some(client) if open.waiting.len() < WAITING => {
                open.waiting.push_back(question.clone());
                open.ask(client);
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
        let told = self.ctx.ask.is_none() && self.era() == Era::Stateless;
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
        let held = Held { exchange, question, owner };
        let Ok(name) = self.upstream.park(held) else {
            let name = &self.upstream.name;
            let message = format!(
                "{MOST} calls of the source `{name}` wait for answers of their clients; try again later"
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
