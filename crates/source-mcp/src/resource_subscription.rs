//! Subscriptions to single resources: one at the server for all local subscribers.

use std::sync::Arc;
use std::time::Duration;

use ::mcp::{ProtocolEra, RpcError, error_codes};
use serde_json::json;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, sleep, timeout};
use tool::{
    BoxFuture, CallContext, ErrorCode, ExecuteError, ExecutionState, Executor, Json, Outcome,
    OutcomeBody, RecordedCall,
};

use super::connection::{DeliveryError, McpConnection};
use super::in_flight_request::{InFlightRequest, RequestEvent, RequestOrigin, RpcOutcome};
use super::list_subscription::LISTEN_METHOD;
use super::notifications::{RESOURCE_UPDATED, SUBSCRIPTION_ACKNOWLEDGED};
use super::outgoing_request::OutgoingRequest;
use super::server_supervisor::ServerSupervisor;
use super::upstream_call::UpstreamCall;

/// Time limit for an unsubscribe request.
const UNSUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Minimum and maximum delay before a stream of updates that ended is opened again.
const RECONNECT_BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// State of a subscription at the server.
#[derive(Debug, Clone)]
pub(super) enum SubscriptionState {
    Pending,
    Active,
    Failed(SubscriptionError),
}

/// Reason why a subscription failed.
#[derive(Debug, Clone)]
pub(super) enum SubscriptionError {
    Refused(RpcError),
    NotDelivered(DeliveryError),
}

/// Channel that all subscribers of one resource share.
#[derive(Debug, Clone)]
pub(super) struct ResourceChannel {
    pub(super) updates: broadcast::Sender<Json>,
    pub(super) state: watch::Sender<SubscriptionState>,
    /// Notified when a subscriber leaves.
    pub(super) subscriber_left: Arc<tokio::sync::Notify>,
}

/// Executes `resources/subscribe` as a call that lasts until its subscriber leaves.
#[derive(Debug)]
pub(super) struct ResourceSubscribeExecutor {
    supervisor: Arc<ServerSupervisor>,
}

/// One local subscriber. A drop unsubscribes it.
struct SubscriberGuard {
    updates: Option<broadcast::Receiver<Json>>,
    state: watch::Receiver<SubscriptionState>,
    subscriber_left: Arc<tokio::sync::Notify>,
}

impl Drop for SubscriberGuard {
    fn drop(&mut self) {
        // Drops the receiver first, since receivers are counted.
        drop(self.updates.take());
        self.subscriber_left.notify_one();
    }
}

impl ResourceSubscribeExecutor {
    pub(super) fn new(upstream: Arc<ServerSupervisor>) -> Self {
        Self { supervisor: upstream }
    }

    async fn run_subscription(
        &self,
        call: RecordedCall<'_>,
        ctx: &CallContext<'_>,
    ) -> Result<ExecutionState, ExecuteError> {
        let own = self.supervisor.server_for_caller(call.call(), ctx).await?;
        let run = UpstreamCall::new(own.as_ref().unwrap_or(&self.supervisor), call.call(), ctx);
        let uri =
            call.call().arguments.as_json().get("uri").and_then(|uri| uri.decode::<String>().ok());
        let uri = uri.ok_or_else(|| {
            let error = RpcError::new(error_codes::INVALID_PARAMS, "`uri` must be a string");
            ExecuteError {
                dispatch: tool::executor::DispatchState::NotSent,
                code: ErrorCode::InvalidArguments,
                ..run.rpc_error(error)
            }
        })?;
        tokio::select! {
            biased;
            // The caller cancels the call: that ends the subscription.
            () = ctx.cancel.cancelled() => Ok(ExecutionState::Completed(empty_outcome())),
            failed = self.wait_and_forward(&run, &uri) => Err(failed),
        }
    }

    /// Forwards updates until the subscription fails. Returns that error.
    async fn wait_and_forward(&self, run: &UpstreamCall<'_>, uri: &str) -> ExecuteError {
        let link = match run.wait_for_connection(ProtocolEra::Handshake).await {
            Ok(link) => link,
            Err(error) => return error,
        };
        // A server may send requests and log lines for a subscription too.
        link.context.callers.add_caller(run.ctx.caller);
        let Some(mut listener) = subscribe_locally(&link, uri) else {
            let most = "too many resource subscriptions of this source; try again later";
            return ExecuteError::not_sent(ErrorCode::Busy, most);
        };
        loop {
            let standing = listener.state.borrow_and_update().clone();
            match standing {
                SubscriptionState::Pending => {}
                SubscriptionState::Active => break,
                SubscriptionState::Failed(SubscriptionError::Refused(error)) => {
                    return run.rpc_error(error);
                }
                SubscriptionState::Failed(SubscriptionError::NotDelivered(why)) => {
                    return run.delivery_error(why);
                }
            }
            tokio::select! {
                changed = listener.state.changed() => if changed.is_err() {
                    return run.delivery_error(DeliveryError::ConnectionLost);
                },
                () = link.wait_until_closed() => return run.delivery_error(DeliveryError::ConnectionLost),
            }
        }
        let begun = json!({"notifications": {"resourceSubscriptions": [uri]}});
        run.ctx.progress.forward_notification(SUBSCRIPTION_ACKNOWLEDGED, &Json::encode(&begun));
        self.forward_updates(run, &link, &mut listener).await
    }

    async fn forward_updates(
        &self,
        run: &UpstreamCall<'_>,
        link: &McpConnection,
        listener: &mut SubscriberGuard,
    ) -> ExecuteError {
        let SubscriberGuard { updates: Some(updates), state: standing, .. } = listener else {
            return run.delivery_error(DeliveryError::ConnectionLost);
        };
        loop {
            tokio::select! {
                update = updates.recv() => match update {
                    Ok(params) => run.ctx.progress.forward_notification(RESOURCE_UPDATED, &params),
                    // The next update makes a dropped one redundant.
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return run.delivery_error(DeliveryError::ConnectionLost),
                },
                failed = standing.wait_for(|now| matches!(now, SubscriptionState::Failed(_))) => {
                    return match failed.as_deref() {
                        Ok(SubscriptionState::Failed(SubscriptionError::Refused(error))) => run.rpc_error(error.clone()),
                        _ => run.delivery_error(DeliveryError::ConnectionLost),
                    };
                }
                () = link.wait_until_closed() => return run.delivery_error(DeliveryError::ConnectionLost),
            }
        }
    }
}

impl Executor for ResourceSubscribeExecutor {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        Box::pin(self.run_subscription(call, ctx))
    }
}

fn empty_outcome() -> Outcome {
    Outcome { body: OutcomeBody::Mcp(Json::empty_object()), is_error: false }
}

/// Adds a subscriber of a resource. The first one starts the subscription at the server.
fn subscribe_locally(link: &Arc<McpConnection>, uri: &str) -> Option<SubscriberGuard> {
    let joined = link.context.notifications.subscribe_resource(uri)?;
    if joined.is_first {
        let (link, uri, channel) = (Arc::clone(link), uri.to_owned(), joined.channel.clone());
        drop(link.context.tasks.clone().spawn(async move {
            tokio::select! {
                () = link.wait_until_closed() => {}
                () = maintain_subscription(&link, &uri, &channel) => {}
            }
            link.context.notifications.remove_channel(&uri, &channel);
        }));
    }
    let ResourceChannel { state: standing, subscriber_left: left, .. } = joined.channel;
    Some(SubscriberGuard {
        updates: Some(joined.updates),
        state: standing.subscribe(),
        subscriber_left: left,
    })
}

/// Maintains the subscription at the server until no local subscriber is left.
async fn maintain_subscription(link: &Arc<McpConnection>, uri: &str, channel: &ResourceChannel) {
    loop {
        let failed = {
            let subscribed = async {
                match link.era() {
                    ProtocolEra::Handshake => subscribe_by_request(link, uri, channel).await,
                    ProtocolEra::Stateless => subscribe_by_stream(link, uri, channel).await,
                }
            };
            tokio::select! {
                failed = subscribed => Some(failed),
                () = wait_until_unused(channel) => None,
            }
        };
        if let Some(failed) = failed {
            channel.state.send_replace(SubscriptionState::Failed(failed));
            return;
        }
        // New subscribers wait for the next subscription.
        channel.state.send_replace(SubscriptionState::Pending);
        if link.era() == ProtocolEra::Handshake {
            let params = Json::encode(&json!({"uri": uri}));
            let left =
                timeout(UNSUBSCRIBE_TIMEOUT, link.call_method("resources/unsubscribe", &params))
                    .await;
            tracing::debug!(told = left.is_ok(), "unsubscribed from a resource");
        }
        // A subscriber may have joined in the meantime.
        if link.context.notifications.remove_if_unused(uri) {
            return;
        }
    }
}

/// Resolves when no subscriber is left.
async fn wait_until_unused(channel: &ResourceChannel) {
    while channel.updates.receiver_count() > 0 {
        channel.subscriber_left.notified().await;
    }
}

/// Marks the subscription active. If it was active before, it reports an update, since one may have
/// been missed in between.
fn mark_active(channel: &ResourceChannel, uri: &str) {
    if matches!(channel.state.send_replace(SubscriptionState::Active), SubscriptionState::Active) {
        // The last subscriber may just have left.
        drop(channel.updates.send(Json::encode(&json!({"uri": uri}))));
    }
}

/// Subscribes by request, again in each session. Resolves if the server refuses.
async fn subscribe_by_request(
    link: &Arc<McpConnection>,
    uri: &str,
    channel: &ResourceChannel,
) -> SubscriptionError {
    let params = Json::encode(&json!({"uri": uri}));
    let mut sessions = link.http_transport().map(|it| it.session_generation.subscribe());
    loop {
        if let Some(sessions) = &mut sessions {
            sessions.borrow_and_update();
        }
        match link.call_method("resources/subscribe", &params).await.map(RpcOutcome::into_result) {
            Ok(Ok(_)) => mark_active(channel, uri),
            Ok(Err(error)) => return SubscriptionError::Refused(error),
            Err(why) => return SubscriptionError::NotDelivered(why),
        }
        match &mut sessions {
            Some(sessions) => drop(sessions.changed().await),
            None => std::future::pending().await,
        }
    }
}

/// Subscribes by a stream, reopened when it ends. Resolves if the server refuses.
async fn subscribe_by_stream(
    link: &Arc<McpConnection>,
    uri: &str,
    channel: &ResourceChannel,
) -> SubscriptionError {
    let params = Json::encode(&json!({"notifications": {"resourceSubscriptions": [uri]}}));
    let mut wait = RECONNECT_BACKOFF.0;
    loop {
        let since = Instant::now();
        let listening = link
            .start_request(
                &OutgoingRequest::internal(LISTEN_METHOD, &params),
                RequestOrigin::Internal,
            )
            .await;
        let failed = match listening {
            Ok(mut listening) => read_subscription_stream(&mut listening, uri, channel).await,
            Err(why) => Some(SubscriptionError::NotDelivered(why)),
        };
        let was_up = matches!(&*channel.state.borrow(), SubscriptionState::Active);
        match failed {
            Some(failed) if !was_up => return failed,
            Some(refused @ SubscriptionError::Refused(_)) => return refused,
            // The notification router of the connection delivers the updates, and subscribers stay.
            Some(SubscriptionError::NotDelivered(_)) | None => sleep(wait).await,
        }
        let short = since.elapsed() < RECONNECT_BACKOFF.1;
        wait = if short {
            wait.saturating_mul(2).min(RECONNECT_BACKOFF.1)
        } else {
            RECONNECT_BACKOFF.0
        };
    }
}

async fn read_subscription_stream(
    listening: &mut InFlightRequest,
    uri: &str,
    channel: &ResourceChannel,
) -> Option<SubscriptionError> {
    loop {
        match listening.next_event().await {
            Ok(RequestEvent::Notification(notice))
                if notice.method == SUBSCRIPTION_ACKNOWLEDGED =>
            {
                mark_active(channel, uri);
            }
            Ok(RequestEvent::Response(Ok(_)) | RequestEvent::InvalidResponse(_)) => return None,
            Ok(RequestEvent::Response(Err(error))) => {
                return Some(SubscriptionError::Refused(error));
            }
            Ok(_) => {}
            Err(why) => return Some(SubscriptionError::NotDelivered(why)),
        }
    }
}
