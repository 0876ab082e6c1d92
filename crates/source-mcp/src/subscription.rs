//! Changes of single resources: one subscription at the server, however many listen here.

use std::sync::Arc;
use std::time::Duration;

use ::mcp::{Era, RpcError, code};
use serde_json::json;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, sleep, timeout};
use tool::{Body, Boxed, Code, Context, ExecuteError, Executor, Granted, Json, Outcome, Step};

use super::ears::{ACKNOWLEDGED, UPDATED};
use super::exchange::{Event, Exchange, Kind};
use super::follow::LISTEN;
use super::link::{Link, Unanswered, Wire};
use super::request::Outgoing;
use super::run::Run;
use super::upstream::Upstream;

/// How long a server may take to end a subscription.
const LEAVING: Duration = Duration::from_secs(5);
/// A stream of changes that ended is opened again no sooner than this, and no later than that.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// How a subscription at the server stands.
#[derive(Debug, Clone)]
pub(super) enum Standing {
    Coming,
    Up,
    Failed(Failure),
}

/// Why there is none.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    Refused(RpcError),
    Unanswered(Unanswered),
}

/// What listeners of one resource share.
#[derive(Debug, Clone)]
pub(super) struct Channel {
    pub(super) updates: broadcast::Sender<Json>,
    pub(super) standing: watch::Sender<Standing>,
    /// The listeners: told whenever one leaves.
    pub(super) left: Arc<tokio::sync::Notify>,
}

/// `resources/subscribe` as a call that lasts until its listener goes.
#[derive(Debug)]
pub(super) struct Subscription {
    upstream: Arc<Upstream>,
}

/// One listener. Dropped, it is gone.
struct Listener {
    updates: Option<broadcast::Receiver<Json>>,
    standing: watch::Receiver<Standing>,
    left: Arc<tokio::sync::Notify>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        // First the receiver, which is what is counted.
        drop(self.updates.take());
        self.left.notify_one();
    }
}

impl Subscription {
    pub(super) fn new(upstream: Arc<Upstream>) -> Self {
        Self { upstream }
    }

    async fn run(&self, call: Granted<'_>, ctx: &Context<'_>) -> Result<Step, ExecuteError> {
        let own = self.upstream.of_caller(call.call(), ctx).await?;
        let run = Run::new(own.as_ref().unwrap_or(&self.upstream), call.call(), ctx);
        let uri = call.call().args.raw().get("uri").and_then(|uri| uri.read::<String>().ok());
        let uri = uri.ok_or_else(|| {
            let error = RpcError::new(code::INVALID_PARAMS, "`uri` must be a string");
            ExecuteError {
                sent: tool::executor::Sent::No,
                code: Code::InvalidArguments,
                ..run.rpc(error)
            }
        })?;
        tokio::select! {
            biased;
            // The listener leaves; that is how a subscription ends.
            () = ctx.cancel.cancelled() => Ok(Step::Done(ended())),
            failed = self.listen(&run, &uri) => Err(failed),
        }
    }

    /// Tells of changes; resolves only where there are none to be told any more.
    async fn listen(&self, run: &Run<'_>, uri: &str) -> ExecuteError {
        let link = match run.link(Era::Handshake).await {
            Ok(link) => link,
            Err(error) => return error,
        };
        // A server may ask and log on account of a subscription too.
        link.shared.audience.admit(run.ctx.caller);
        let Some(mut listener) = join(&link, uri) else {
            let most = "too many resources of this source are listened to; try again later";
            return ExecuteError::before(Code::Busy, most);
        };
        loop {
            let standing = listener.standing.borrow_and_update().clone();
            match standing {
                Standing::Coming => {}
                Standing::Up => break,
                Standing::Failed(Failure::Refused(error)) => return run.rpc(error),
                Standing::Failed(Failure::Unanswered(why)) => return run.unanswered(why),
            }
            tokio::select! {
                changed = listener.standing.changed() => if changed.is_err() {
                    return run.unanswered(Unanswered::Lost);
                },
                () = link.over() => return run.unanswered(Unanswered::Lost),
            }
        }
        let begun = json!({"notifications": {"resourceSubscriptions": [uri]}});
        run.ctx.progress.notify(ACKNOWLEDGED, &Json::of(&begun));
        self.tell(run, &link, &mut listener).await
    }

    async fn tell(&self, run: &Run<'_>, link: &Link, listener: &mut Listener) -> ExecuteError {
        let Listener { updates: Some(updates), standing, .. } = listener else {
            return run.unanswered(Unanswered::Lost);
        };
        loop {
            tokio::select! {
                update = updates.recv() => match update {
                    Ok(params) => run.ctx.progress.notify(UPDATED, &params),
                    // What was dropped said no more than what comes next.
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return run.unanswered(Unanswered::Lost),
                },
                failed = standing.wait_for(|now| matches!(now, Standing::Failed(_))) => {
                    return match failed.as_deref() {
                        Ok(Standing::Failed(Failure::Refused(error))) => run.rpc(error.clone()),
                        _ => run.unanswered(Unanswered::Lost),
                    };
                }
                () = link.over() => return run.unanswered(Unanswered::Lost),
            }
        }
    }
}

impl Executor for Subscription {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        Box::pin(self.run(call, ctx))
    }
}

fn ended() -> Outcome {
    Outcome { body: Body::Mcp(Json::empty()), is_error: false }
}

/// Listens to a resource; the first who does starts the subscription at the server.
fn join(link: &Arc<Link>, uri: &str) -> Option<Listener> {
    let joined = link.shared.ears.listen(uri)?;
    if joined.first {
        let (link, uri, channel) = (Arc::clone(link), uri.to_owned(), joined.channel.clone());
        drop(link.shared.tasks.clone().spawn(async move {
            tokio::select! {
                () = link.over() => {}
                () = keep(&link, &uri, &channel) => {}
            }
            link.shared.ears.drop_all(&uri, &channel);
        }));
    }
    let Channel { standing, left, .. } = joined.channel;
    Some(Listener { updates: Some(joined.updates), standing: standing.subscribe(), left })
}

/// Keeps a subscription at the server for as long as somebody listens here.
async fn keep(link: &Arc<Link>, uri: &str, channel: &Channel) {
    loop {
        let failed = {
            let subscribed = async {
                match link.era() {
                    Era::Handshake => subscribe(link, uri, channel).await,
                    Era::Stateless => stream(link, uri, channel).await,
                }
            };
            tokio::select! {
                failed = subscribed => Some(failed),
                () = nobody(channel) => None,
            }
        };
        if let Some(failed) = failed {
            channel.standing.send_replace(Standing::Failed(failed));
            return;
        }
        // Who comes from now on waits for the next one.
        channel.standing.send_replace(Standing::Coming);
        if link.era() == Era::Handshake {
            let params = Json::of(&json!({"uri": uri}));
            let left = timeout(LEAVING, link.ask("resources/unsubscribe", &params)).await;
            tracing::debug!(told = left.is_ok(), "nobody listens to a resource any more");
        }
        // Somebody may have come meanwhile.
        if link.shared.ears.forget(uri) {
            return;
        }
    }
}

/// Resolves when nobody listens.
async fn nobody(channel: &Channel) {
    while channel.updates.receiver_count() > 0 {
        channel.left.notified().await;
    }
}

/// The subscription stands. Where it stood before, a change between may have been missed, so there was
/// one.
fn up(channel: &Channel, uri: &str) {
    if matches!(channel.standing.send_replace(Standing::Up), Standing::Up) {
        // Nobody listens where the last one just left.
        drop(channel.updates.send(Json::of(&json!({"uri": uri}))));
    }
}

/// By a request of its own, again in each session; resolves where that is refused.
async fn subscribe(link: &Arc<Link>, uri: &str, channel: &Channel) -> Failure {
    let params = Json::of(&json!({"uri": uri}));
    let mut sessions = match &link.wire {
        Wire::Http(endpoint) => Some(endpoint.sessions.subscribe()),
        Wire::Pipe(_) => None,
    };
    loop {
        if let Some(sessions) = &mut sessions {
            sessions.borrow_and_update();
        }
        match link.ask("resources/subscribe", &params).await {
            Ok(Ok(_)) => up(channel, uri),
            Ok(Err(error)) => return Failure::Refused(error),
            Err(why) => return Failure::Unanswered(why),
        }
        match &mut sessions {
            Some(sessions) => drop(sessions.changed().await),
            None => std::future::pending().await,
        }
    }
}

/// By a stream of its own, opened again where it ends; resolves where that is refused.
async fn stream(link: &Arc<Link>, uri: &str, channel: &Channel) -> Failure {
    let params = Json::of(&json!({"notifications": {"resourceSubscriptions": [uri]}}));
    let mut wait = AGAIN.0;
    loop {
        let since = Instant::now();
        let listening = link.begin(&Outgoing::own(LISTEN, &params), Kind::Own).await;
        let failed = match listening {
            Ok(mut listening) => streamed(&mut listening, uri, channel).await,
            Err(why) => Some(Failure::Unanswered(why)),
        };
        let was_up = matches!(&*channel.standing.borrow(), Standing::Up);
        match failed {
            Some(failed) if !was_up => return failed,
            Some(refused @ Failure::Refused(_)) => return refused,
            // What is told goes to the ears of the connection, and those who listen stay.
            Some(Failure::Unanswered(_)) | None => sleep(wait).await,
        }
        let short = since.elapsed() < AGAIN.1;
        wait = if short { wait.saturating_mul(2).min(AGAIN.1) } else { AGAIN.0 };
    }
}

async fn streamed(listening: &mut Exchange, uri: &str, channel: &Channel) -> Option<Failure> {
    loop {
        match listening.next().await {
            Ok(Event::Noticed(notice)) if notice.method == ACKNOWLEDGED => {
                up(channel, uri);
            }
            Ok(Event::Answered(Ok(_)) | Event::Spoiled(_)) => return None,
            Ok(Event::Answered(Err(error))) => return Some(Failure::Refused(error)),
            Ok(_) => {}
            Err(why) => return Some(Failure::Unanswered(why)),
        }
    }
}
