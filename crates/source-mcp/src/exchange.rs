//! One request in flight: its answer, its progress, its log lines and the questions it brings.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ::mcp::header::Mirror;
use ::mcp::{Era, Fault, Id, Notification, Request, RpcError, code};
use bytes::Bytes;
use http::HeaderValue;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tool::{Boxed, Caller, Json};

use super::http::Answer;
use super::link::{Link, Unanswered, Wire};
use super::pipe::Role;
use super::request::Outgoing;

/// How long telling a server that a request is cancelled may take.
const CANCELLING: Duration = Duration::from_secs(5);

/// What happens to a request.
#[derive(Debug)]
pub(super) enum Event {
    /// It goes on: a progress notice, as it came.
    Progressed(Json),
    /// A log line, or the first word of a subscription.
    Noticed(Notification),
    /// The server asks something before it answers.
    Asked(Request),
    /// The server wants no answer to this question any more.
    Withdrawn(Id),
    /// It is over.
    Answered(Result<Json, RpcError>),
    /// It is over, with a result that does not pass the check: one bad definition in a list is no reason
    /// to lose the others, so lists read it piece by piece.
    Spoiled(Spoiled),
}

/// A result that is JSON and cannot be taken as it is.
#[derive(Debug)]
pub(super) struct Spoiled {
    pub(super) result: Bytes,
    /// What is wrong with it.
    pub(super) why: String,
}

impl Spoiled {
    /// Reads an answer that was refused by the check; with its id, where that is a number.
    pub(super) fn read(text: &Bytes, fault: &Fault) -> Option<(i64, Self)> {
        #[derive(Deserialize)]
        struct Loose<'a> {
            id: Named,
            #[serde(borrow)]
            result: &'a RawValue,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Named {
            Number(i64),
            Text(String),
        }
        let loose: Loose<'_> = serde_json::from_slice(text).ok()?;
        let id = match loose.id {
            Named::Number(id) => id,
            Named::Text(text) => text.parse().ok()?,
        };
        let result = text.slice_ref(loose.result.get().as_bytes());
        Some((id, Self { result, why: fault.to_string() }))
    }
}

impl From<Spoiled> for RpcError {
    fn from(spoiled: Spoiled) -> Self {
        Self::new(0, format!("with a result that cannot be read: {}", spoiled.why))
    }
}

/// On whose behalf a request is sent.
#[derive(Debug)]
pub(super) enum Kind<'a> {
    /// Somebody's call: it may be asked, and hears log lines.
    Call(Calling<'a>),
    /// Nobody's.
    Own,
    /// The first of all.
    Greeting,
}

/// A call to be sent.
#[derive(Debug)]
pub(super) struct Calling<'a> {
    pub(super) slot: OwnedSemaphorePermit,
    /// The arguments that stand in headers too.
    pub(super) mirror: Option<(&'a Mirror, &'a Value)>,
    pub(super) caller: &'a Caller,
    /// The task whose result it waits for.
    pub(super) task: Option<&'a str>,
}

/// A request on its way. Dropped before its answer, it is cancelled at the server.
#[derive(Debug)]
pub(super) struct Exchange {
    link: Arc<Link>,
    id: i64,
    way: Way,
    /// Whether the server is to be told where nobody wants the answer any more.
    owed: bool,
    slot: Option<OwnedSemaphorePermit>,
}

#[derive(Debug)]
enum Way {
    Unsent,
    Pipe(mpsc::Receiver<Event>),
    Sending(Sending),
    Http(Box<Answer>),
}

/// A request over HTTP that has no beginning of an answer yet.
struct Sending(Boxed<'static, Result<Answer, Unanswered>>);

impl fmt::Debug for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sending")
    }
}

impl Exchange {
    pub(super) fn new(link: Arc<Link>, id: i64) -> Self {
        Self { link, id, way: Way::Unsent, owed: false, slot: None }
    }

    /// The connection.
    pub(super) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// The session that the answer opens.
    pub(super) fn session(&self) -> Option<HeaderValue> {
        match &self.way {
            Way::Http(answer) => answer.session.clone(),
            Way::Unsent | Way::Pipe(_) | Way::Sending(_) => None,
        }
    }

    /// Sends the request.
    pub(super) async fn send(
        &mut self,
        request: &Outgoing<'_>,
        kind: Kind<'_>,
    ) -> Result<(), Unanswered> {
        if self.link.is_over() {
            return Err(Unanswered::Closed);
        }
        let greets = matches!(kind, Kind::Greeting);
        let (mut mirror, mut role) = (None, Role::Own);
        if let Kind::Call(calling) = kind {
            // Before anything of the call can come back.
            self.link.shared.audience.admit(calling.caller);
            self.slot = Some(calling.slot);
            mirror = calling.mirror;
            role = Role::Call(calling.task.map(Arc::from));
        }
        let link = Arc::clone(&self.link);
        let text = request.write(self.id, link.era());
        // A greeting is never cancelled, says MCP.
        self.owed = !greets;
        match &link.wire {
            Wire::Pipe(pipe) => {
                let events = pipe.enter(self.id, role);
                self.way = Way::Pipe(events.ok_or(Unanswered::Closed)?);
                pipe.send(text).await
            }
            Wire::Http(_) => {
                // A greeting may reach a server of the other era, which wants its headers too.
                let headers = if link.era() == Era::Stateless || greets {
                    super::mirror::headers(request, mirror)
                } else {
                    Vec::new()
                };
                let call = matches!(role, Role::Call(_));
                if let (Role::Call(task), Era::Handshake) = (role, link.era()) {
                    link.shared.end.beside.enter(self.id, task);
                }
                let (on, id) = (Arc::clone(&link), self.id);
                self.way = Way::Sending(Sending(Box::pin(async move {
                    let Wire::Http(endpoint) = &on.wire else { return Err(Unanswered::Closed) };
                    endpoint.post((&on, id), (text, headers), greets).await
                })));
                // What nobody else waits with needs no more than the answer; a call may be asked
                // something before that begins.
                if call { Ok(()) } else { self.sent().await.map(drop) }
            }
        }
    }

    /// Waits for the beginning of the answer; something may come before it.
    async fn sent(&mut self) -> Result<Option<Event>, Unanswered> {
        let Way::Sending(sending) = &mut self.way else { return Ok(None) };
        let (beside, id) = (&self.link.shared.end.beside, self.id);
        let came = poll_fn(|cx| match sending.0.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Ok(answer)),
            Poll::Pending => beside.poll(id, cx).map(Err),
        });
        let answer = match came.await {
            Ok(answer) => answer,
            Err(Some(event)) => return Ok(Some(event)),
            Err(None) => Err(Unanswered::Lost),
        };
        self.way = Way::Http(Box::new(answer.inspect_err(|_| self.owed = false)?));
        Ok(None)
    }

    /// What comes next: in its order, and the answer last. May be dropped and called again.
    pub(super) async fn next(&mut self) -> Result<Event, Unanswered> {
        if let Some(event) = self.sent().await? {
            return Ok(event);
        }
        let event = match &mut self.way {
            Way::Unsent | Way::Sending(_) => Err(Unanswered::Closed),
            Way::Pipe(events) => events.recv().await.ok_or(Unanswered::Lost),
            Way::Http(answer) => {
                let (beside, id) = (&self.link.shared.end.beside, self.id);
                let mut next = pin!(answer.next(&self.link, id));
                poll_fn(|cx| match next.as_mut().poll(cx) {
                    Poll::Ready(event) => Poll::Ready(event),
                    Poll::Pending => beside.poll(id, cx).map(|event| event.ok_or(Unanswered::Lost)),
                })
                .await
            }
        };
        if matches!(event, Err(_) | Ok(Event::Answered(_) | Event::Spoiled(_))) {
            self.owed = false;
            self.slot = None;
        }
        event
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        match &self.link.wire {
            Wire::Pipe(pipe) => pipe.leave(self.id),
            Wire::Http(_) => self.link.shared.end.beside.leave(self.id),
        }
        // A stateless server sees its stream closed, which says the same.
        let seen = self.link.mirrors();
        let running = tokio::runtime::Handle::try_current().is_ok();
        if !self.owed || seen || self.link.is_over() || !running {
            return;
        }
        let params = Json::of(&serde_json::json!({
            "requestId": self.id, "reason": "the caller gave the call up"}));
        let link = Arc::clone(&self.link);
        drop(self.link.shared.tasks.spawn(async move {
            let told = link.tell("notifications/cancelled", &params);
            let told = tokio::time::timeout(CANCELLING, told).await;
            tracing::debug!(told = told.is_ok(), "cancelled a request at its server");
        }));
    }
}

/// The answer to a question that belongs to no running call.
pub(super) fn nobodys() -> RpcError {
    let why = "nobody can tell whose question this is: it names no running call, and this connection \
               does not serve exactly one call of one caller";
    RpcError::new(code::INTERNAL_ERROR, why)
}

/// The answer to a question that is none of those that are passed on.
pub(super) fn not_answered(method: &str) -> RpcError {
    let method = tool::display_text::shown(method, 60);
    RpcError::new(code::METHOD_NOT_FOUND, format!("this client does not answer `{method}`"))
}
