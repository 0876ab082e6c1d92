//! Following resources: a call that lasts until its listener goes, whose notices are passed on.

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

/// How long a source may take to say that it follows. One that says nothing is believed: an error would
/// have come.
const BEGINS: Duration = Duration::from_secs(2);

const METHOD: &str = "mcp.resources.subscribe";
const UPDATED: &str = "notifications/resources/updated";

/// Where the notices of one subscription go.
#[derive(Debug)]
pub(crate) enum Sink {
    /// The GET stream of a session.
    Session(Weak<Live>),
    /// The stream of a `subscriptions/listen`, named by its id.
    Listen(Arc<Outlet>, Json),
}

/// Whatever the executor tells first tells that it follows: MCP's word for it is
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
            // Nobody waits for it any more where it took too long.
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

/// With the id of the subscription it belongs to.
pub(crate) fn tagged(params: &Json, id: &Json) -> Json {
    let beside = meta::of(params).unwrap_or_else(Json::empty);
    params.with(meta::META, &beside.with(meta::SUBSCRIPTION_ID, id))
}

/// An id as JSON.
pub(crate) fn id(id: &Id) -> Json {
    Json::check(id.to_string(), Limits::DOCUMENT).unwrap_or_else(|_| Json::of(&()))
}

/// `resources/subscribe`.
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

/// `resources/unsubscribe`.
pub(crate) fn unsubscribe(asked: &Asked<'_>) -> Result<Reply, Refused> {
    of_source(asked, METHOD)?;
    let uri = asked.uri()?;
    if let Some(session) = &asked.session {
        session.live.unfollow(&uri);
    }
    Ok(asked.result(&Json::empty()))
}

/// Begins to follow `uri`, until the handle is dropped; or what the source answered instead.
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
        // Nobody waits for it once the subscription has begun.
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
