//! Subscriptions to resources: long-running upstream calls whose notifications are forwarded.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use gateway::Request;
use mcp::{Id, meta, sse, write};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;
use tool::executor::Progress;
use tool::{Interface, Json, Limits};

use super::asked::Asked;
use super::body::Reply;
use super::live::{FOLLOWED, Live};
use super::outlet::Outlet;
use super::refused::Refused;
use super::result::Written;
use super::run::of_source;

/// Time for a source to acknowledge a subscription. Without a reply it counts as started: an error
/// would have arrived.
const BEGINS: Duration = Duration::from_secs(2);

const METHOD: &str = "mcp.resources.subscribe";
const UPDATED: &str = "notifications/resources/updated";

/// The stream that receives the notifications of one subscription.
#[derive(Debug)]
pub(crate) enum Sink {
    /// The GET stream of a session.
    Session(Weak<Live>),
    /// The stream of a `subscriptions/listen`, named by its id.
    Listen(Arc<Outlet>, Json),
}

/// Forwards update notifications of a subscription. The first progress report or notification of
/// the executor confirms the subscription; MCP's method for it is
/// `notifications/subscriptions/acknowledged`.
#[derive(Debug)]
struct Updates {
    sink: Sink,
    begun: Mutex<Option<oneshot::Sender<()>>>,
}

impl Updates {
    fn begun(&self) {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(begun) = begun {
            // The receiver is gone if the acknowledgement took too long.
            begun.send(()).unwrap_or_default();
        }
    }
}

impl Progress for Updates {
    fn report(&self, _: f64, _: Option<f64>, _: Option<&str>) {
        self.begun();
    }

    fn notify(&self, method: &str, params: &Json) {
        self.begun();
        if method != UPDATED {
            return;
        }
        match &self.sink {
            Sink::Session(live) => {
                if let Some(live) = live.upgrade() {
                    live.notice(sse::event(&write::notification(method, params)));
                }
            }
            Sink::Listen(outlet, id) => {
                outlet.notice(sse::event(&write::notification(method, &tagged(params, id))));
            }
        }
    }
}

/// Adds the id of the subscription to the params.
pub(crate) fn tagged(params: &Json, id: &Json) -> Json {
    let beside = meta::of(params).unwrap_or_else(Json::empty);
    params.with(meta::META, &beside.with(meta::SUBSCRIPTION_ID, id))
}

/// Converts a request id to JSON.
pub(crate) fn id(id: &Id) -> Json {
    Json::check(id.to_string(), Limits::DOCUMENT).unwrap_or_else(|_| Json::of(&()))
}

/// Handles the method `resources/subscribe`.
pub(crate) async fn subscribe(asked: &Asked<'_>) -> Result<Reply, Refused> {
    of_source(asked, METHOD)?;
    let uri = asked.uri()?;
    let session = asked.session.as_ref().ok_or_else(|| {
        Refused::params("a subscription belongs to a session; begin one with `initialize`")
    })?;
    if session.live.follows(&uri) {
        return Ok(asked.result(&Json::empty()));
    }
    let sink = Sink::Session(Arc::downgrade(&session.live));
    let task = match begin(asked, &uri, sink).await? {
        Ok(task) => task,
        Err(failed) => return Ok(failed.reply()),
    };
    if session.live.follow(uri, task) {
        return Ok(asked.result(&Json::empty()));
    }
    Err(Refused::params(format!("a session follows at most {FOLLOWED} resources")))
}

/// Handles the method `resources/unsubscribe`.
pub(crate) fn unsubscribe(asked: &Asked<'_>) -> Result<Reply, Refused> {
    of_source(asked, METHOD)?;
    let uri = asked.uri()?;
    if let Some(session) = &asked.session {
        session.live.unfollow(&uri);
    }
    Ok(asked.result(&Json::empty()))
}

/// Starts a subscription to `uri` that ends when the handle is dropped; the inner error is the
/// source's failure.
pub(crate) async fn begin(
    asked: &Asked<'_>,
    uri: &str,
    sink: Sink,
) -> Result<Result<AbortOnDropHandle<()>, Written>, Refused> {
    let target = of_source(asked, METHOD)?;
    let args = Json::fields([("uri", &Json::of(uri))]);
    let (begun, begins) = oneshot::channel();
    let mut request = Request::to(target, args.bytes().clone(), Interface::Mcp);
    request.lasting = true;
    request.meta.clone_from(&asked.beside);
    request.client = asked.client();
    request.progress = Some(Arc::new(Updates { sink, begun: Mutex::new(Some(begun)) }));
    let (doors, principal) = (asked.who.doors.clone(), asked.who.principal.clone());
    let (end, mut ended) = oneshot::channel();
    let task = asked.who.doors.mcp.tasks.spawn(async move {
        let answer = doors.parts.gateway.call(&principal, request).await;
        doors.metrics.ended(Interface::Mcp, &answer);
        // Nobody receives it once the subscription has started.
        drop(end.send(answer));
    });
    let task = AbortOnDropHandle::new(task);
    let answer = tokio::select! {
        biased;
        answer = &mut ended => answer.ok(),
        Ok(()) = begins => None,
        () = tokio::time::sleep(BEGINS) => None,
    };
    let Some(answer) = answer.filter(|answer| answer.result.is_err()) else { return Ok(Ok(task)) };
    match asked.words().method(answer) {
        Ok(failed) => Ok(Err(failed)),
        Err(_) => Err(Refused::internal("the subscription waits for something")),
    }
}
