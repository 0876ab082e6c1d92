//! Subscriptions to resources: long-running upstream calls whose notifications are forwarded.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use gateway::{CallRequest, CallTarget};
use identity::Principal;
use mcp::{RequestId, encode, meta, sse};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;
use tool::executor::ProgressSink;
use tool::{CallerType, Interface, Json, JsonLimits};

use super::endpoint::Endpoint;
use super::event_sink::EventSink;
use super::request_context::RequestContext;
use super::request_error::RequestError;
use super::response_body::McpResponse;
use super::result_encoding::EncodedResult;
use super::session_runtime::SessionRuntime;
use super::source_items;
use crate::WeakMcpServerState;

/// Time for a source to acknowledge a subscription. Without a reply it counts as started: an error
/// would have arrived.
const ACK_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of resource subscriptions of one session or one `subscriptions/listen` stream.
pub(crate) const MAX_SUBSCRIPTIONS: usize = 256;

const SUBSCRIBE_METHOD: &str = "mcp.resources.subscribe";
const UPDATED_NOTIFICATION: &str = "notifications/resources/updated";

/// The stream that receives the notifications of one subscription.
#[derive(Debug)]
pub(crate) enum UpdateTarget {
    /// The GET stream of a session.
    SessionStream(Weak<SessionRuntime>),
    /// The stream of a `subscriptions/listen`, named by its id.
    ListenStream(Arc<EventSink>, Json),
}

/// The caller of a subscription, which may outlive its rights.
#[derive(Debug)]
struct ResourceSubscriber {
    state: WeakMcpServerState,
    principal: Principal,
    endpoint: Endpoint,
    source: String,
}

impl ResourceSubscriber {
    /// Whether the caller may hear of the resource now.
    fn may_hear(&self, own_uri: &str) -> bool {
        let Some((state, _)) = self.state.upgrade() else { return false };
        let components = &state.components;
        let now = components.clock.wall_now();
        let current = components.keys.current_principal(&self.principal, now);
        current.is_some_and(|principal| {
            let view = components.gateway.view_for(&principal, CallerType::Direct);
            let method = (self.source.as_str(), SUBSCRIBE_METHOD);
            source_items::may_use_resource((&self.endpoint, &view), method, own_uri)
        })
    }
}

/// Forwards update notifications of a subscription. The first progress report or notification of
/// the executor confirms the subscription; MCP's method for it is
/// `notifications/subscriptions/acknowledged`.
#[derive(Debug)]
struct UpdateForwarder {
    target: UpdateTarget,
    subscriber: ResourceSubscriber,
    /// The URI at the source, and the one by which the client subscribed.
    uris: (String, String),
    acknowledged: Mutex<Option<oneshot::Sender<()>>>,
}

impl UpdateForwarder {
    fn acknowledge(&self) {
        let begun = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(begun) = begun {
            // The receiver is gone if the acknowledgement took too long.
            begun.send(()).unwrap_or_default();
        }
    }
}

impl UpdateForwarder {
    /// Names the resource as the client does.
    fn with_client_uri(&self, params: &Json) -> Json {
        let (own, requested) = &self.uris;
        let uri = params.get("uri");
        let is_own = uri.as_ref().and_then(Json::string_value).is_some_and(|uri| uri == *own);
        if is_own && own != requested {
            return params.with_member("uri", &Json::encode(requested));
        }
        params.clone()
    }
}

impl ProgressSink for UpdateForwarder {
    fn report_progress(&self, _: f64, _: Option<f64>, _: Option<&str>) {
        self.acknowledge();
    }

    fn forward_notification(&self, method: &str, params: &Json) {
        self.acknowledge();
        if method != UPDATED_NOTIFICATION || !self.subscriber.may_hear(&self.uris.0) {
            return;
        }
        let params = &self.with_client_uri(params);
        match &self.target {
            UpdateTarget::SessionStream(live) => {
                if let Some(live) = live.upgrade() {
                    live.send_notification(sse::encode_event(&encode::encode_notification(
                        method, params,
                    )));
                }
            }
            UpdateTarget::ListenStream(outlet, id) => {
                outlet.send_notification(sse::encode_event(&encode::encode_notification(
                    method,
                    &with_subscription_id(params, id),
                )));
            }
        }
    }
}

/// Adds the id of the subscription to the params.
pub(crate) fn with_subscription_id(params: &Json, id: &Json) -> Json {
    let beside = meta::get_meta(params).unwrap_or_else(Json::empty_object);
    params.with_member(meta::META, &beside.with_member(meta::SUBSCRIPTION_ID, id))
}

/// Converts a request id to JSON.
pub(crate) fn id_to_json(id: &RequestId) -> Json {
    Json::parse(id.to_string(), JsonLimits::DOCUMENT).unwrap_or_else(|_| Json::encode(&()))
}

/// Handles the method `resources/subscribe`.
pub(crate) async fn subscribe_resource(
    request: &RequestContext<'_>,
) -> Result<McpResponse, RequestError> {
    let uri = request.require_uri()?;
    let session = request.session.as_ref().ok_or_else(|| {
        RequestError::invalid_params("a subscription needs a session; start one with `initialize`")
    })?;
    if session.runtime.is_subscribed(&uri) {
        return Ok(request.encode_result(&Json::empty_object()));
    }
    let sink = UpdateTarget::SessionStream(Arc::downgrade(&session.runtime));
    let task = match start_subscription(request, &uri, sink).await? {
        SubscriptionStart::Started(task) => task,
        SubscriptionStart::Failed(failure) => return Ok(failure.into_response()),
    };
    if session.runtime.add_subscription(uri, task) {
        return Ok(request.encode_result(&Json::empty_object()));
    }
    Err(RequestError::invalid_params(format!(
        "a session can subscribe to at most {MAX_SUBSCRIPTIONS} resources"
    )))
}

/// Handles the method `resources/unsubscribe`.
pub(crate) fn unsubscribe_resource(
    request: &RequestContext<'_>,
) -> Result<McpResponse, RequestError> {
    let uri = request.require_uri()?;
    // Whatever has become of the resource since, its subscription ends.
    let was_subscribed =
        request.session.as_ref().is_some_and(|session| session.runtime.remove_subscription(&uri));
    if !was_subscribed {
        let view = request.caller.tool_view();
        source_items::find_resource(request, &view, (SUBSCRIBE_METHOD, &uri))?;
    }
    Ok(request.encode_result(&Json::empty_object()))
}

/// Outcome of the start of a subscription.
pub(crate) enum SubscriptionStart {
    /// The subscription runs and ends when the handle is dropped.
    Started(AbortOnDropHandle<()>),
    /// The source's failure, as the response to the client.
    Failed(EncodedResult),
}

/// Starts a subscription to `uri`.
pub(crate) async fn start_subscription(
    context: &RequestContext<'_>,
    uri: &str,
    sink: UpdateTarget,
) -> Result<SubscriptionStart, RequestError> {
    let view = context.caller.tool_view();
    let item = source_items::find_resource(context, &view, (SUBSCRIBE_METHOD, uri))?;
    let target = CallTarget::Method {
        source: item.source.source.to_string(),
        name: SUBSCRIBE_METHOD.into(),
    };
    let args = Json::object_from([("uri", &Json::encode(&item.own_name))]);
    let (begun, begins) = oneshot::channel();
    let mut request = CallRequest::for_target(target, args.bytes().clone(), Interface::Mcp);
    request.is_long_lived = true;
    request.meta.clone_from(&context.raw_meta);
    request.client_capabilities = context.client_capabilities();
    request.progress = Some(Arc::new(UpdateForwarder {
        target: sink,
        subscriber: ResourceSubscriber {
            state: context.caller.state.downgrade(),
            principal: context.caller.principal.clone(),
            endpoint: context.caller.endpoint.clone(),
            source: item.source.source.to_string(),
        },
        uris: (item.own_name.clone(), uri.to_owned()),
        acknowledged: Mutex::new(Some(begun)),
    }));
    let (state, principal) = (context.caller.state.clone(), context.caller.principal.clone());
    let (end, mut ended) = oneshot::channel();
    let task = context.caller.state.mcp_components.background_tasks.spawn(async move {
        let answer = state.components.gateway.call_tool(&principal, request).await;
        state.metrics.observe_call(Interface::Mcp, &answer);
        // Nobody receives it once the subscription has started.
        drop(end.send(answer));
    });
    let task = AbortOnDropHandle::new(task);
    let answer = tokio::select! {
        biased;
        answer = &mut ended => answer.ok(),
        Ok(()) = begins => None,
        () = tokio::time::sleep(ACK_TIMEOUT) => None,
    };
    let Some(answer) = answer.filter(|answer| answer.result.is_err()) else {
        return Ok(SubscriptionStart::Started(task));
    };
    match context.result_encoder().encode_method_result(answer) {
        Ok(failure) => Ok(SubscriptionStart::Failed(failure)),
        Err(_) => Err(RequestError::internal_error(
            "the subscription needs input, which is not \
            supported",
        )),
    }
}
