//! The handlers of `events/subscribe` and `events/unsubscribe`: webhooks that a client names, verified
//! before the first event is sent.

use std::sync::Arc;
use std::time::Duration;

use server_core::sealing_key::hash_parts;
use server_core::webhook::{WebhookSecret, WebhookTarget, WebhookTransport};
use tool::{Json, JsonLimits, WallTime};
use uuid::Uuid;

use super::event_errors::{
    callback_failed, callback_unreachable, forbidden, resource_exhausted, unknown_subscription,
    unsupported_mode,
};
use super::event_reader::{EventReader, EventSubscription};
use super::require_own_events;
use super::webhook_subscription::{WebhookSubscription, deliver_events};
use super::webhook_table::LimitReached;
use crate::request_context::{RequestContext, require_string};
use crate::request_error::RequestError;
use crate::response_body::McpResponse;

/// Shortest and longest lifetime of a subscription, which is in memory; the longest is the default.
const TTL_MS: std::ops::RangeInclusive<u64> = 60_000..=3_600_000;
/// Time within which a callback URL must answer its verification.
const VERIFICATION_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum bytes of a callback URL.
const MAX_URL_BYTES: usize = 2_048;
/// Number of bytes of the hash in a subscription id.
const ID_BYTES: usize = 16;

/// Where a subscription delivers to, as a request names it.
struct CallbackRequest {
    subscription: EventSubscription,
    url: String,
    /// Id of the subscription of this caller with this URL, name and arguments.
    id: String,
    transport: Arc<dyn WebhookTransport>,
}

impl CallbackRequest {
    fn parse(request: &RequestContext<'_>, delivery: &Json) -> Result<Self, RequestError> {
        let transport = request.caller.state.components.webhooks.clone();
        let transport = transport.ok_or_else(|| unsupported_mode("webhook"))?;
        if request.caller.principal.is_anonymous() {
            return Err(forbidden("a webhook needs a key"));
        }
        let subscription = EventSubscription::parse(request)?;
        let url = require_string("delivery.url", delivery.get("url").as_ref())?;
        if url.len() > MAX_URL_BYTES || !url.starts_with("https://") {
            return Err(RequestError::invalid_params(format!(
                "`params.delivery.url` must be an `https` URL of at most {MAX_URL_BYTES} bytes"
            )));
        }
        transport
            .check_url(&url)
            .map_err(|why| RequestError::invalid_params(format!("`params.delivery.url`: {why}")))?;
        let caller = request.caller;
        let [org, key, endpoint] = caller.endpoint.owner_binding(caller.principal);
        let mut parts = vec![org, key, endpoint, &url, subscription.kind.as_str()];
        parts.extend(subscription.filters.iter().flat_map(|(name, value)| [name.as_str(), value]));
        let digest = hash_parts(&parts);
        let digest = digest.iter().take(ID_BYTES).map(|byte| format!("{byte:02x}"));
        let id = format!("sub_{}", digest.collect::<String>());
        Ok(Self { subscription, url, id, transport })
    }
}

fn pick_delivery(request: &RequestContext<'_>) -> Result<Json, RequestError> {
    let [delivery] = request.pick_params(["delivery"]);
    delivery
        .filter(|delivery| delivery.kind() == "object")
        .ok_or_else(|| RequestError::invalid_params("`params.delivery` must be an object"))
}

/// Handles the method `events/subscribe`: adds a subscription, or refreshes it.
pub(crate) async fn subscribe_events(
    request: &RequestContext<'_>,
) -> Result<McpResponse, RequestError> {
    require_own_events(request)?;
    let delivery = pick_delivery(request)?;
    let mode = require_string("delivery.mode", delivery.get("mode").as_ref())?;
    if mode != "webhook" {
        return Err(unsupported_mode(&mode));
    }
    let secret = require_string("delivery.secret", delivery.get("secret").as_ref())?;
    let secret = WebhookSecret::parse(&secret).ok_or_else(|| {
        RequestError::invalid_params(
            "`params.delivery.secret` must be `whsec_` and the base64 form of 24 to 64 random bytes",
        )
    })?;
    let callback = CallbackRequest::parse(request, &delivery)?;
    let state = request.caller.state;
    let now = request.caller.received_at;
    let expires_at = WallTime(now.0.saturating_add(parse_ttl(request)?));
    let mut reader = EventReader::start(request, callback.subscription.clone())?;
    if let Some(existing) = state.mcp_components.webhooks.find(&callback.id, now) {
        let status = existing.refresh(secret, (now, expires_at));
        reader.position = existing.watermark();
        let result = subscription_result(request, (&callback.id, &reader, expires_at), false);
        return Ok(
            request.encode_result(&result.with_member("deliveryStatus", &Json::encode(&status)))
        );
    }
    let is_truncated = reader.take_truncation(state);
    let root_key: Box<str> = format!(
        "{}/{}",
        request.caller.principal.org().as_str(),
        request.caller.principal.limit_key_id()
    )
    .into();
    let table = &state.mcp_components.webhooks;
    table.check_limits(&root_key, now).map_err(limit_error)?;
    let subscription = WebhookSubscription::new(
        (callback.id.clone(), callback.url.clone()),
        root_key,
        secret,
        (expires_at, reader.position),
    );
    verify_callback(request, &callback, &subscription).await?;
    table.insert(&subscription, now).map_err(limit_error)?;
    let result = subscription_result(request, (&callback.id, &reader, expires_at), is_truncated);
    drop(state.mcp_components.background_tasks.spawn(deliver_events(
        state.clone(),
        callback.transport,
        subscription,
        reader,
    )));
    Ok(request.encode_result(&result))
}

/// Handles the method `events/unsubscribe`.
pub(crate) fn unsubscribe_events(
    request: &RequestContext<'_>,
) -> Result<McpResponse, RequestError> {
    require_own_events(request)?;
    let callback = CallbackRequest::parse(request, &pick_delivery(request)?)?;
    let table = &request.caller.state.mcp_components.webhooks;
    // One that has expired is gone, even if its deliveries have not noticed yet.
    let is_known = table.find(&callback.id, request.caller.received_at).is_some();
    if !table.remove(&callback.id) || !is_known {
        return Err(unknown_subscription());
    }
    Ok(request.encode_result(&Json::empty_object()))
}

fn limit_error(reached: LimitReached) -> RequestError {
    resource_exhausted(reached.limit, reached.max)
}

/// The granted lifetime: as suggested, within the limits. No subscription is without an expiry.
fn parse_ttl(request: &RequestContext<'_>) -> Result<u64, RequestError> {
    let [suggested] = request.pick_params(["ttlMs"]);
    let Some(suggested) = suggested.filter(|json| json.kind() != "null") else {
        return Ok(*TTL_MS.end());
    };
    let suggested = suggested.decode::<u64>().map_err(|_| {
        RequestError::invalid_params("`params.ttlMs` must be a number of milliseconds or null")
    })?;
    Ok(suggested.clamp(*TTL_MS.start(), *TTL_MS.end()))
}

fn subscription_result(
    request: &RequestContext<'_>,
    (id, reader, expires_at): (&str, &EventReader, WallTime),
    is_truncated: bool,
) -> Json {
    let state = request.caller.state;
    let epoch = state.components.events.epoch();
    let cursor = reader.cursor_at(&state.mcp_components.event_cursors, epoch, reader.position);
    Json::object_from([
        ("id", &Json::encode(id)),
        ("refreshBefore", &Json::encode(&expires_at.to_string())),
        ("cursor", &cursor),
        ("truncated", &Json::encode(&is_truncated)),
    ])
}

/// Verifies that the owner of the callback URL wants its messages: it must return a challenge that only
/// a receiver of the message knows.
async fn verify_callback(
    request: &RequestContext<'_>,
    callback: &CallbackRequest,
    subscription: &WebhookSubscription,
) -> Result<(), RequestError> {
    let state = request.caller.state;
    let table = &state.mcp_components.webhooks;
    let clock = state.components.clock.as_ref();
    let [org, key, _] = request.caller.endpoint.owner_binding(request.caller.principal);
    let caller_url = [format!("{org}/{key}").into(), callback.url.as_str().into()];
    if table.is_verified(&caller_url, clock.monotonic_now()) {
        return Ok(());
    }
    let host = callback.url.parse::<http::Uri>().ok().and_then(|uri| Some(uri.host()?.to_owned()));
    table
        .count_verification(&host.unwrap_or_default(), clock.monotonic_now())
        .map_err(limit_error)?;
    let challenge = Uuid::new_v4().simple().to_string();
    let body = Json::object_from([
        ("type", &Json::encode("verification")),
        ("challenge", &Json::encode(&challenge)),
    ]);
    let message = subscription.message(None, "verification", &body);
    let secrets = subscription.secrets(clock.wall_now());
    let target = WebhookTarget {
        transport: callback.transport.as_ref(),
        clock,
        url: &callback.url,
        secrets: &secrets,
    };
    let sent = tokio::time::timeout(VERIFICATION_TIMEOUT, target.send_once(&message)).await;
    let answer = match sent {
        Ok(sent) => sent.map_err(callback_unreachable)?,
        Err(_) => return Err(callback_failed("timeout")),
    };
    let answer = Json::parse(answer, JsonLimits::DOCUMENT).ok();
    let echoed = answer.and_then(|json| json.get("challenge"));
    // Digests are compared, so that the time of the comparison says nothing of the challenge.
    let is_echoed = echoed
        .as_ref()
        .and_then(Json::string_value)
        .is_some_and(|echoed| hash_parts(&[&echoed]) == hash_parts(&[&challenge]));
    if !is_echoed {
        return Err(callback_failed("challenge_failed"));
    }
    table.mark_verified(caller_url, clock.monotonic_now());
    Ok(())
}
