//! The events of one response, with the answers taken out.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{BoxStream, unfold};
use guard::egress::Body;
use rmcp::model::{JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::Sse;
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;

use super::{Client, reply};
use crate::mcp::inflight::{Inbound, Inflight};
use crate::mcp::noise::{Noise, Verdict};
use crate::mcp::sse::{Reader, TooLarge};

/// A server may ask for a pause before its stream is resumed: between these two, in milliseconds.
const PAUSE: (u64, u64) = (500, 60_000);
/// A stream that failed is told of no sooner, since it is opened again at once.
const CALM: Duration = Duration::from_secs(1);
/// Questions of the server on one stream.
const QUESTIONS: usize = 1_000;

/// How long the end of a stream may take whose answer has come.
const REST: Duration = Duration::from_secs(1);

/// A body that is read to its end where its answer has come: rmcp stops reading there, and the
/// connection would be lost to the next call.
struct Drained {
    body: Option<Body>,
    answered: bool,
    tasks: TaskTracker,
}

impl Drop for Drained {
    fn drop(&mut self) {
        let Some(body) = self.body.take().filter(|_| self.answered) else { return };
        if tokio::runtime::Handle::try_current().is_ok() {
            drop(self.tasks.spawn(timeout(REST, reply::rest(body))));
        }
    }
}

/// The events of one response.
pub(super) struct Events {
    body: Drained,
    reader: Reader,
    inflight: Arc<Inflight>,
    noise: Arc<Noise>,
    most: usize,
    /// The request that this response is to; none on the stream nobody asked a question on.
    request: Option<RequestId>,
    questions: usize,
    over: bool,
}

type Event = Result<Sse, SseError>;

impl Events {
    /// Of the response to one request.
    pub(super) fn answering(body: Body, request: RequestId, client: &Client) -> Self {
        Self { request: Some(request), ..Self::unasked(body, client) }
    }

    /// Of a stream for whatever the server has to say, or for what is left of a broken one.
    pub(super) fn unasked(body: Body, client: &Client) -> Self {
        Self {
            body: Drained { body: Some(body), answered: false, tasks: client.tasks.clone() },
            reader: Reader::new(client.most),
            inflight: Arc::clone(&client.inflight),
            noise: Arc::clone(&client.noise),
            most: client.most,
            request: None,
            questions: 0,
            over: false,
        }
    }

    /// As rmcp reads it.
    pub(super) fn boxed(self) -> BoxStream<'static, Event> {
        unfold(self, |mut events| async {
            let event = events.next().await?;
            Some((event, events))
        })
        .boxed()
    }

    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.reader.next() {
                match self.passed(event) {
                    Ok(event) => return Some(Ok(event)),
                    Err(why) => return self.broken(why).await,
                }
            }
            if self.over {
                return None;
            }
            let body = self.body.body.as_mut()?;
            match body.chunk().await {
                Ok(Some(part)) => match self.reader.feed(&part) {
                    Ok(()) => {}
                    Err(TooLarge) => return self.too_large().await,
                },
                Ok(None) => {
                    self.body.body = None;
                    return None;
                }
                Err(error) => return self.broken(error.to_string()).await,
            }
        }
    }

    /// The event as rmcp is to see it: answers to our own requests have become a word that they came.
    fn passed(&mut self, mut event: Sse) -> Result<Sse, String> {
        event.retry = event.retry.map(|pause| pause.clamp(PAUSE.0, PAUSE.1));
        let ours = matches!(event.event.as_deref(), None | Some("" | "message"));
        let Some(data) = event.data.take().filter(|data| ours && !data.trim().is_empty()) else {
            return Ok(event);
        };
        let data = Bytes::from(data);
        match self.inflight.read(&data) {
            Inbound::Pass(message) => {
                self.body.answered |= self.answers(&message);
                event.data = written(&message);
            }
            Inbound::Asked { .. } => {
                self.questions += 1;
                if self.questions > QUESTIONS {
                    return Err(format!("asked more than {QUESTIONS} questions on one stream"));
                }
                event.data = String::from_utf8(data.into()).ok();
            }
            Inbound::Quiet => {}
            Inbound::Unreadable(why) => {
                if let Verdict::Enough(why) = self.noise.line(&data, &why) {
                    return Err(why);
                }
            }
        }
        Ok(event)
    }

    fn answers(&self, message: &ServerJsonRpcMessage) -> bool {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        id.is_some() && id == self.request.as_ref()
    }

    /// No other message can be told from here on; the request it was for gets to know why.
    async fn too_large(&mut self) -> Option<Event> {
        let why = format!("with a message of more than {} bytes", self.most);
        let told = self.request.take().and_then(|id| self.inflight.refuse(&id, &why));
        match told {
            Some(told) => {
                self.over = true;
                Some(Ok(Sse { data: written(&told), ..Sse::default() }))
            }
            None => self.broken(format!("sent {why}")).await,
        }
    }

    async fn broken(&mut self, why: String) -> Option<Event> {
        self.over = true;
        self.body.body = None;
        if self.request.is_none() {
            sleep(CALM).await;
        }
        Some(Err(SseError::Body(why.into())))
    }
}

fn written(message: &ServerJsonRpcMessage) -> Option<String> {
    serde_json::to_string(message).ok()
}
