//! The bridge between an MCP client on standard input and output and a server's MCP endpoint.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::header::CONTENT_TYPE;
use http::{Method, Response, StatusCode};
use mcp::sse::Reader;
use mcp::{Id, Message, RpcError, code, header, meta, write};
use tokio::sync::{OnceCell, Semaphore, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::{Json, Limits};

use super::mirrors::Mirrors;
use super::request::{Agreed, agreed_revision, of_session, post, stateless};
use cli_core::client::{Client, Path};
use cli_core::door::{Parts, SourceNeed};

/// Maximum number of concurrent requests; beyond that, no further input is read.
const AT_ONCE: u32 = 256;
/// Maximum bytes of one event, or of a response that is not a stream.
const MESSAGE: usize = 64 << 20;
/// Maximum number of list pages read for argument headers.
const PAGES: usize = 100;
/// Initial and maximum delay before a closed stream is reopened.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// The notification that makes a client list the tools again.
const TOOLS_CHANGED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
/// Timeout for running requests after the end of the input.
const LAST: Duration = Duration::from_secs(2);

/// The state of one client conversation.
pub(super) struct Bridge {
    client: Client,
    path: String,
    out: mpsc::Sender<Bytes>,
    agreed: Mutex<Agreed>,
    /// Cancellable requests by their ids: those of the stateless era.
    running: Mutex<HashMap<Id, CancellationToken>>,
    mirrors: OnceCell<Mirrors>,
    places: Arc<Semaphore>,
    tasks: TaskTracker,
    over: CancellationToken,
}

impl Bridge {
    pub(super) fn new(client: Client, source: Option<&str>, out: mpsc::Sender<Bytes>) -> Self {
        let path = match source {
            Some(source) => Path::new("/mcp", &[source]),
            None => Path::new("/mcp", &[]).with("names", Some("safe")),
        };
        Self {
            client,
            path: path.to_string(),
            out,
            agreed: Mutex::default(),
            running: Mutex::default(),
            mirrors: OnceCell::new(),
            places: Arc::new(Semaphore::new(AT_ONCE as usize)),
            tasks: TaskTracker::new(),
            over: CancellationToken::new(),
        }
    }

    /// Handles one line of input. Resolves when it is forwarded; for a handshake, when that has
    /// finished.
    pub(super) async fn take(self: &Arc<Self>, line: Bytes) {
        if line.is_empty() {
            return;
        }
        let message = match Message::read(
            line.clone(),
            Limits::DOCUMENT.around_arguments(mcp::AROUND_ARGUMENTS),
        ) {
            Ok(message) => message,
            Err(fault) => return self.say(write::error(fault.id.as_ref(), &fault.error)).await,
        };
        if self.gives_up(&message) {
            return;
        }
        if matches!(&message, Message::Request(request) if request.method == "initialize") {
            return self.carry(line, message).await;
        }
        let Ok(place) = Arc::clone(&self.places).acquire_owned().await else { return };
        let this = Arc::clone(self);
        drop(self.tasks.spawn(async move {
            let over = this.over.clone();
            tokio::select! {
                () = this.carry(line, message) => {}
                () = over.cancelled() => {}
            }
            drop(place);
        }));
    }

    /// Waits briefly for running requests and ends the session.
    pub(super) async fn close(&self) {
        self.tasks.close();
        // The server's notification stream never ends by itself.
        drop(timeout(LAST, self.places.acquire_many(AT_ONCE)).await);
        self.over.cancel();
        timeout(LAST, self.tasks.wait()).await.unwrap_or_default();
        let agreed = lock(&self.agreed).clone();
        if agreed.session.is_some() {
            let end = self.client.open(of_session(Method::DELETE, &self.path, &agreed));
            drop(timeout(LAST, end).await);
        }
    }

    /// Cancels a stateless request by closing its stream; returns whether the message was a
    /// cancellation.
    fn gives_up(&self, message: &Message) -> bool {
        let Message::Notification(told) = message else { return false };
        let id = told.params.as_ref().filter(|_| told.method == "notifications/cancelled");
        let id = id.and_then(|params| Id::read(&params.get("requestId")?));
        let found = id.and_then(|id| lock(&self.running).remove(&id));
        found.map(|found| found.cancel()).is_some()
    }

    async fn carry(self: &Arc<Self>, line: Bytes, message: Message) {
        let id = if let Message::Request(request) = &message { Some(&request.id) } else { None };
        let alone = id.filter(|_| stateless(&message)).cloned();
        let given_up = CancellationToken::new();
        if let Some(id) = &alone {
            lock(&self.running).insert(id.clone(), given_up.clone());
        }
        let done = tokio::select! {
            done = self.exchange(line, &message) => done,
            () = given_up.cancelled() => Ok(()),
        };
        if let Some(id) = &alone {
            lock(&self.running).remove(id);
        }
        if let (Err(error), Some(id)) = (done, id) {
            self.say(write::error(Some(id), &error)).await;
        }
    }

    async fn exchange(self: &Arc<Self>, line: Bytes, message: &Message) -> Result<(), RpcError> {
        if let Message::Request(request) = message
            && is_about_sources(&request.method)
        {
            self.client.sources(SourceNeed::Overview, None).await;
        }
        let mirrored = self.mirrored(message).await;
        let agreed = lock(&self.agreed).clone();
        let request = post(&self.path, (line, message), &agreed, mirrored);
        let response = self
            .client
            .open(request)
            .await
            .map_err(|failure| RpcError::new(code::INTERNAL_ERROR, failure.to_string()))?;
        let session = response.headers().get(header::SESSION).cloned();
        let begins = matches!(message, Message::Request(request) if request.method == "initialize");
        let status = response.status();
        let mut answers = Answers::of(response)?;
        let mut said = false;
        while let Some(text) = answers.next().await? {
            if begins
                && let Ok(Message::Response(answer)) = Message::read(text.clone(), Limits::DOCUMENT)
            {
                self.began(session.clone(), answer.result.ok().as_ref());
            }
            said = true;
            self.say(text).await;
        }
        if !said && !status.is_success() {
            let told = format!("the server answered with status {}", status.as_u16());
            return Err(RpcError::new(code::INTERNAL_ERROR, told));
        }
        Ok(())
    }

    fn began(self: &Arc<Self>, session: Option<http::HeaderValue>, result: Option<&Json>) {
        let Some(revision) = result.and_then(agreed_revision) else { return };
        let agreed = Agreed { session, revision: Some(revision) };
        lock(&self.agreed).clone_from(&agreed);
        if agreed.session.is_some() {
            let this = Arc::clone(self);
            drop(self.tasks.spawn(async move {
                let over = this.over.clone();
                tokio::select! {
                    () = this.listen(agreed) => {}
                    () = over.cancelled() => {}
                }
            }));
        }
    }

    /// Forwards the server's notification stream for as long as it is offered.
    async fn listen(&self, agreed: Agreed) {
        let (mut first, mut wait) = (true, AGAIN.0);
        loop {
            let request = of_session(Method::GET, &self.path, &agreed);
            match self.client.open(request).await {
                Ok(opened) if opened.status() == StatusCode::OK => {
                    // Changes in between, or since another server took over, were not reported.
                    if !std::mem::take(&mut first) {
                        self.say(Bytes::from_static(TOOLS_CHANGED)).await;
                    }
                    wait = AGAIN.0;
                    if let Ok(mut answers) = Answers::of(opened) {
                        while let Ok(Some(text)) = answers.next().await {
                            self.say(text).await;
                        }
                    }
                }
                Ok(opened) if !opened.status().is_server_error() => return,
                // Another server may be available soon.
                Ok(_) | Err(_) => {}
            }
            tokio::time::sleep(wait).await;
            wait = wait.saturating_mul(2).min(AGAIN.1);
        }
    }

    /// Returns the argument headers of a call.
    async fn mirrored(&self, message: &Message) -> Vec<(String, String)> {
        let Message::Request(request) = message else { return Vec::new() };
        let Some(params) = request.params.as_ref().filter(|_| request.method == "tools/call")
        else {
            return Vec::new();
        };
        if !stateless(message) {
            return Vec::new();
        }
        let meta = meta::of(params).unwrap_or_else(Json::empty);
        self.mirrors.get_or_init(|| self.read_mirrors(meta)).await.headers(params)
    }

    async fn read_mirrors(&self, meta: Json) -> Mirrors {
        let mut mirrors = Mirrors::default();
        let mut cursor = None::<String>;
        for _ in 0..PAGES {
            let mut params = Json::fields([(meta::META, &meta)]);
            if let Some(cursor) = &cursor {
                params = params.with("cursor", &Json::of(cursor));
            }
            let text = write::request(&Id::number(0), "tools/list", &params);
            let Ok(message) = Message::read(text.clone(), Limits::DOCUMENT) else { break };
            let request = post(&self.path, (text, &message), &Agreed::default(), Vec::new());
            let Ok(opened) = self.client.open(request).await else { break };
            let Ok(mut answers) = Answers::of(opened) else { break };
            let Ok(Some(text)) = answers.next().await else { break };
            let page = match Message::read(text, Limits::DOCUMENT) {
                Ok(Message::Response(answer)) => answer.result.ok(),
                _ => None,
            };
            cursor = page.and_then(|page| mirrors.add(&page));
            if cursor.is_none() {
                break;
            }
        }
        mirrors
    }

    /// Writes a message to the client, if it is still there.
    async fn say(&self, text: Bytes) {
        self.out.send(text).await.unwrap_or_default();
    }
}

/// Whether the result of a method depends on the sources.
fn is_about_sources(method: &str) -> bool {
    ["tools/", "prompts/", "resources/", "completion/"].iter().any(|kind| method.starts_with(kind))
}

/// The messages of a response, whether JSON or an event stream.
struct Answers {
    parts: Parts,
    /// The reader of an event stream; `None` if the body is one message.
    events: Option<Reader>,
    ended: bool,
}

impl Answers {
    fn of(response: Response<Parts>) -> Result<Self, RpcError> {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        let events = match kind {
            "text/event-stream" => Some(Reader::new(MESSAGE)),
            "application/json" | "" => None,
            other => {
                let told = format!("the server answered with `{}`", other.escape_debug());
                return Err(RpcError::new(code::INTERNAL_ERROR, told));
            }
        };
        Ok(Self { parts: response.into_body(), events, ended: false })
    }

    async fn next(&mut self) -> Result<Option<Bytes>, RpcError> {
        let broken = |why: &dyn std::fmt::Display| {
            RpcError::new(
                code::INTERNAL_ERROR,
                format!("the answer broke off, and the request may have been carried out: {why}"),
            )
        };
        let Some(events) = &mut self.events else {
            return self.whole().await;
        };
        loop {
            while let Some(event) = events.pop() {
                if let Some(data) = event.data.filter(|data| !data.is_empty()) {
                    return Ok(Some(data.into()));
                }
            }
            let Some(part) = self.parts.next().await else { return Ok(None) };
            let part = part.map_err(|error| broken(&error))?;
            events.feed(&part).map_err(|error| broken(&error))?;
        }
    }

    /// Reads a body of at most one message; an error envelope of REST becomes a JSON-RPC error.
    async fn whole(&mut self) -> Result<Option<Bytes>, RpcError> {
        if std::mem::replace(&mut self.ended, true) {
            return Ok(None);
        }
        let mut text = Vec::new();
        while let Some(part) = self.parts.next().await {
            let part =
                part.map_err(|error| RpcError::new(code::INTERNAL_ERROR, error.to_string()))?;
            if text.len() + part.len() > MESSAGE {
                return Err(RpcError::new(
                    code::INTERNAL_ERROR,
                    "the answer is larger than is taken",
                ));
            }
            text.extend_from_slice(&part);
        }
        if text.is_empty() {
            return Ok(None);
        }
        let text = Bytes::from(text);
        let json = Json::check(text.clone(), Limits::DOCUMENT).ok();
        let refused = json.and_then(|json| json.pick(["error", "jsonrpc"]).into());
        if let Some([Some(error), None]) = refused {
            let message = error.get("message").and_then(|message| message.read::<String>().ok());
            let told = message.unwrap_or_else(|| "the server refused".to_owned());
            return Err(RpcError::new(code::INTERNAL_ERROR, told));
        }
        Ok(Some(text))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
