//! One task: status, pending input requests, result and listeners.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use mcp::task::{NOTICE, Status as Stands};
use mcp::{Era, Id, Message, RpcError, code, sse, write};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use tool::executor::{Ask, ClientCan, Unanswered};
use tool::outcome::Status;
use tool::{Boxed, Call, CallId, Clock, Json, Limits, SourceName, Wall};

use super::kept::{KEPT, Kept, LASTS, Owner};
use crate::client;
use crate::follow::tagged;
use crate::outlet::Outlet;
use crate::result::{Words, Written};

/// Polling interval for clients, in milliseconds.
const POLL: u64 = 1_000;
/// Maximum number of pending input requests.
const QUESTIONS: usize = 64;
/// Maximum bytes of one input request.
const QUESTION: usize = 64 << 10;
/// Maximum characters of a status message.
const LINE: usize = 512;
/// Maximum number of streams that listen to one task.
const LISTENERS: usize = 8;

/// A call that can become a task, or already is one.
#[derive(Debug)]
pub(crate) struct Task {
    me: Weak<Self>,
    kept: Kept,
    owner: Owner,
    root_key: Box<str>,
    client: ClientCan,
    clock: Arc<dyn Clock>,
    begun: Notify,
    /// Bytes of the result and of the pending input requests.
    bytes: AtomicUsize,
    state: Mutex<State>,
    /// Cancels the underlying call.
    pub(super) cancel: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    /// The task id and the call id, once the call is a task.
    named: Option<(String, CallId)>,
    source: Option<SourceName>,
    made: u64,
    updated: u64,
    line: Option<String>,
    asked: u64,
    questions: BTreeMap<String, (Json, oneshot::Sender<Json>)>,
    end: Option<End>,
    /// Whether the client has fetched the result.
    fetched: bool,
    listeners: Vec<(Weak<Outlet>, Json)>,
}

#[derive(Debug)]
enum End {
    Completed(Json),
    Failed(RpcError),
    Cancelled,
}

impl State {
    fn stands(&self) -> Stands {
        match &self.end {
            Some(End::Completed(_)) => Stands::Completed,
            Some(End::Failed(_)) => Stands::Failed,
            Some(End::Cancelled) => Stands::Cancelled,
            None if !self.questions.is_empty() => Stands::InputRequired,
            None => Stands::Working,
        }
    }

    /// The members of every message about a task.
    fn members(&self) -> Vec<(&'static str, Json)> {
        let id = self.named.as_ref().map_or("", |(id, _)| id);
        let ttl = u64::try_from(KEPT.as_millis()).unwrap_or(u64::MAX);
        let mut members = vec![
            ("taskId", Json::of(id)),
            ("status", Json::of(self.stands().as_str())),
            ("createdAt", Json::of(&Wall(self.made).to_string())),
            ("lastUpdatedAt", Json::of(&Wall(self.updated).to_string())),
            ("ttlMs", Json::of(&ttl)),
            ("pollIntervalMs", Json::of(&POLL)),
        ];
        members.extend(self.line.as_ref().map(|line| ("statusMessage", Json::of(line))));
        members
    }

    /// The members with result, error or pending input requests.
    fn detail(&self) -> Json {
        let mut members = self.members();
        match &self.end {
            Some(End::Completed(result)) => members.push(("result", result.clone())),
            Some(End::Failed(error)) => members.push(("error", written(error))),
            Some(End::Cancelled) => {}
            None if self.questions.is_empty() => {}
            None => {
                let open = self.questions.iter();
                let open = open.fold(Json::empty(), |all, (key, (asked, _))| all.with(key, asked));
                members.push(("inputRequests", open));
            }
        }
        object(&members)
    }

    /// Removes listeners whose streams are closed.
    fn prune(&mut self) {
        self.listeners.retain(|(outlet, _)| outlet.upgrade().is_some_and(|it| !it.is_closed()));
    }

    /// Sends the current state to all listeners.
    fn tell(&mut self) {
        self.prune();
        if self.listeners.is_empty() {
            return;
        }
        let told = self.detail();
        for (outlet, id) in &self.listeners {
            outlet.upgrade().inspect(|outlet| outlet.notice(notice(&told, id)));
        }
    }
}

fn object(members: &[(&'static str, Json)]) -> Json {
    Json::fields(members.iter().map(|(key, value)| (*key, value)))
}

fn notice(told: &Json, id: &Json) -> bytes::Bytes {
    sse::event(&write::notification(NOTICE, &tagged(told, id)))
}

fn written(error: &RpcError) -> Json {
    let mut members = vec![("code", Json::of(&error.code)), ("message", Json::of(&error.message))];
    members.extend(error.data.clone().map(|data| ("data", data)));
    object(&members)
}

fn short(line: &str) -> String {
    line.chars().take(LINE).collect()
}

impl Task {
    pub(super) fn new(
        kept: Kept,
        (owner, root_key): (Owner, Box<str>),
        client: ClientCan,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            kept,
            owner,
            root_key,
            client,
            clock,
            begun: Notify::new(),
            bytes: AtomicUsize::new(0),
            state: Mutex::default(),
            cancel: CancellationToken::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and notifies the listeners.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let now = self.clock.wall();
        let mut state = self.state();
        let changed = change(&mut state);
        state.updated = now.0.max(state.made);
        state.tell();
        changed
    }

    /// Whether both tasks belong to the same root key.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        self.root_key == other.root_key
    }

    /// Whether the task runs at this source.
    pub(super) fn runs_beside(&self, source: Option<&SourceName>) -> bool {
        let state = self.state();
        state.end.is_none() && state.source.as_ref() == source
    }

    pub(super) fn source(&self) -> Option<SourceName> {
        self.state().source.clone()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn expired(&self, now: Wall) -> bool {
        Duration::from_millis(now.0.saturating_sub(self.state().made)) >= KEPT
    }

    /// Whether the task has ended and its client has fetched the result.
    pub(super) fn fetched(&self) -> bool {
        self.state().fetched
    }

    /// Resolves when the call has become a task.
    pub(super) async fn begun(&self) {
        self.begun.notified().await;
    }

    /// The remaining time for which the task is kept.
    pub(super) fn left(&self) -> Duration {
        let age = self.clock.wall().0.saturating_sub(self.state().made);
        KEPT.saturating_sub(Duration::from_millis(age))
    }

    /// Removes the task from the store.
    pub(super) fn forget(&self) {
        let call = self.state().named.as_ref().map(|(_, call)| *call);
        if let Some(call) = call {
            self.kept.forget(call);
        }
    }

    /// The response to the request that became this task.
    pub(super) fn created(&self, id: &Id) -> Written {
        let mut members = self.state().members();
        members.insert(0, ("resultType", Json::of("task")));
        let words = Words { era: Era::Stateless, id, called: None, own: false, dated: false };
        words.result(&object(&members))
    }

    /// The state of the task, for `tasks/get`.
    pub(super) fn told(&self) -> Json {
        let mut state = self.state();
        state.fetched = state.end.is_some();
        state.detail()
    }

    /// Whether the task accepts another listener.
    pub(super) fn is_open(&self) -> bool {
        let mut state = self.state();
        state.prune();
        state.listeners.len() < LISTENERS
    }

    /// Sends the state to `outlet`, now and after each change.
    pub(crate) fn listen(&self, outlet: &Arc<Outlet>, id: &Json) {
        let mut state = self.state();
        outlet.notice(notice(&state.detail(), id));
        if state.listeners.len() < LISTENERS {
            state.listeners.push((Arc::downgrade(outlet), id.clone()));
        }
    }

    /// Resolves pending input requests. Responses to others are ignored.
    pub(super) fn answer(&self, answers: Vec<(String, Json)>) {
        let open = self.change(|state| {
            let asked = |(key, answer)| Some((state.questions.remove(&key)?.1, answer));
            answers.into_iter().filter_map(asked).collect::<Vec<_>>()
        });
        for (question, answer) in open {
            // The receiver is gone if the call has just ended.
            drop(question.send(answer));
        }
    }

    /// Stores the end of the call with its response.
    pub(super) fn end(&self, answer: Written, status: Status) {
        let end = match (status, Message::read(answer.parts.whole(), Limits::DOCUMENT)) {
            (Status::Cancelled, _) => End::Cancelled,
            (_, Ok(Message::Response(response))) => match response.result {
                Ok(result) => self.completed(result),
                Err(error) => End::Failed(error),
            },
            _ => End::Failed(fault("the answer of the call cannot be read")),
        };
        self.change(|state| {
            state.questions.clear();
            state.line = match &end {
                End::Failed(error) => Some(short(&error.message)),
                End::Completed(_) | End::Cancelled => None,
            };
            state.end = Some(end);
        });
    }

    fn completed(&self, result: Json) -> End {
        let kind = result.get("resultType").and_then(|kind| kind.read::<String>().ok());
        let bytes = result.bytes().len();
        if kind.is_some_and(|kind| kind != "complete") {
            return End::Failed(fault("the call ended with a question that its task cannot hold"));
        }
        if !self.kept.takes(self, bytes) {
            let told = format!(
                "the tool ran, but its answer of {bytes} bytes cannot be kept: other tasks of this \
                 key, or of all, hold too much; fetch what has ended"
            );
            return End::Failed(fault(&told));
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        End::Completed(result)
    }

    async fn asks(&self, method: &str, params: Json) -> Result<Json, Unanswered> {
        let bytes = params.bytes().len();
        let can = client::answers(&self.client, method, &params) && bytes <= QUESTION;
        if !can || !self.kept.takes(self, bytes) {
            return Err(Unanswered::Gone);
        }
        let (sender, answer) = oneshot::channel();
        let question = Json::fields([("method", &Json::of(method)), ("params", &params)]);
        let asked = self.change(|state| {
            if state.questions.len() >= QUESTIONS || state.end.is_some() {
                return None;
            }
            state.asked += 1;
            let key = format!("q{}", state.asked);
            state.questions.insert(key.clone(), (question, sender));
            Some(key)
        });
        let asked = Asked { task: self, key: asked.ok_or(Unanswered::Gone)?, bytes };
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let answered = answer.await.map_err(|_| Unanswered::Gone);
        drop(asked);
        answered
    }
}

fn fault(told: &str) -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, told)
}

/// A pending input request. Dropping it withdraws the request.
struct Asked<'a> {
    task: &'a Task,
    key: String,
    bytes: usize,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.task.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        let open = self.task.state().questions.contains_key(&self.key);
        if open {
            self.task.change(|state| state.questions.remove(&self.key));
        }
    }
}

impl Ask for Task {
    fn ask<'a>(&'a self, method: &'a str, params: Json) -> Boxed<'a, Result<Json, Unanswered>> {
        Box::pin(self.asks(method, params))
    }
}

impl tool::executor::Task for Task {
    fn hold(&self, call: &Call) -> bool {
        if self.state().named.is_some() {
            return true;
        }
        let (Some(me), now) = (self.me.upgrade(), self.clock.wall()) else { return false };
        let Some(id) = self.kept.name(&self.owner, call.id) else { return false };
        {
            let mut state = self.state();
            (state.made, state.updated) = (now.0, now.0);
            state.named = Some((id, call.id));
            state.source = Some(call.key.source.clone());
        }
        let held = self.kept.admit(call.id, me, now);
        if held {
            self.begun.notify_one();
        } else {
            self.state().named = None;
        }
        held
    }

    fn held(&self) -> Option<Duration> {
        self.state().named.is_some().then_some(LASTS)
    }

    fn tell(&self, line: &str) {
        let line = short(line);
        let same = self.state().line.as_ref() == Some(&line);
        if !same {
            self.change(|state| state.line = Some(line));
        }
    }
}
