//! The handlers of `events/subscribe` and `events/unsubscribe`: webhooks that a client names, verified
//! before the first event is sent.

use std::sync::Arc;
use std::time::Duration;

use catalog::definition_digest::definition_digest;
use server_core::sealing_key::hash_parts;
use server_core::webhook::{WebhookSecret, WebhookTarget, WebhookTransport};
use tool::{Json, JsonLimits, WallTime};
use uuid::Uuid;

use super::event_errors::{
    callback_failed, callback_unreachable, forbidden, resource_exhausted, unknown_subscription,
    unsupported_mode,
};
use super::event_params::{StartParams, parse_event_name};
use super::event_reader::{EventReader, EventSubscription};
use super::source_subscription::SourceSubscription;
use super::source_webhook::{begin_subscription, deliver_source_events, open_feed};
use super::webhook_subscription::{Watermark, WebhookSender, WebhookSubscription, deliver_events};
use super::webhook_table::LimitReached;
use super::{SubscribedType, require_events, subscribed_type};
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

/// What a request subscribes to.
enum RequestedEvents {
    Own(EventSubscription),
    Source(Box<SourceSubscription>),
}

impl RequestedEvents {
    fn parse(request: &RequestContext<'_>) -> Result<Self, RequestError> {
        match subscribed_type(request)? {
            SubscribedType::Own => EventSubscription::parse(request).map(Self::Own),
            SubscribedType::Source => {
                let subscription = SourceSubscription::parse(request, &parse_event_name(request)?)?;
                let usable = subscription.usable_delivery(request.caller.state);
                if !usable.has_poll && !usable.has_push {
                    return Err(unsupported_mode("webhook"));
                }
                Ok(Self::Source(Box::new(subscription)))
            }
        }
    }

    /// The name and the arguments, so that equal ones are the same.
    fn identity(&self) -> Vec<String> {
        match self {
            Self::Own(own) => {
                let filters = own.filters.iter().flat_map(|(name, value)| [name, value]);
                std::iter::once(own.kind.as_str().to_owned()).chain(filters.cloned()).collect()
            }
            Self::Source(source) => {
                let arguments = source.events.arguments.clone().unwrap_or_else(Json::empty_object);
                // Its text does not depend on the order of members.
                vec![source.events.name.clone(), definition_digest(&arguments).to_string()]
            }
        }
    }

    /// The sealed cursor of a position.
    fn cursor_at(
        &self,
        request: &RequestContext<'_>,
        watermark: &Watermark,
    ) -> Result<Json, RequestError> {
        let state = request.caller.state;
        let key = &state.mcp_components.event_cursors;
        Ok(match (self, watermark) {
            (Self::Source(source), Watermark::Source(cursor)) => {
                source.seal_cursor(key, cursor.as_deref())
            }
            (Self::Own(own), Watermark::Log(position)) => {
                let reader = EventReader::start(request, own.clone())?;
                reader.cursor_at(key, state.components.events.epoch(), *position)
            }
            _ => Json::encode(&()),
        })
    }
}

/// A subscription that is ready to deliver.
enum StartedFeed {
    Own(EventReader),
    Source(Box<super::source_feed::SourceFeed>),
}

/// Where a subscription delivers to, as a request names it.
struct CallbackRequest {
    events: RequestedEvents,
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
        let events = RequestedEvents::parse(request)?;
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
        let identity = events.identity();
        let mut parts = vec![org, key, endpoint, &url];
        parts.extend(identity.iter().map(String::as_str));
        let digest = hash_parts(&parts);
        let digest = digest.iter().take(ID_BYTES).map(|byte| format!("{byte:02x}"));
        let id = format!("sub_{}", digest.collect::<String>());
        Ok(Self { events, url, id, transport })
    }

    /// Starts at the cursor of the request, or now. Returns the feed with its position, and whether
    /// events may have been skipped; or the failure of the source.
    async fn start(
        &self,
        request: &RequestContext<'_>,
    ) -> Result<Result<(StartedFeed, Watermark, bool), McpResponse>, RequestError> {
        let state = request.caller.state;
        let source = match &self.events {
            RequestedEvents::Own(own) => {
                let mut reader = EventReader::start(request, own.clone())?;
                let is_truncated = reader.take_truncation(state);
                let watermark = Watermark::Log(reader.position);
                return Ok(Ok((StartedFeed::Own(reader), watermark, is_truncated)));
            }
            RequestedEvents::Source(source) => source,
        };
        let key = &state.mcp_components.event_cursors;
        let position = source.open_position(key, &StartParams::parse(request)?);
        let mut position = match begin_subscription(state, source, position).await {
            Ok(position) => position,
            Err(failure) => {
                let answer = request.result_encoder().encode_failure(&failure, true);
                return Ok(Err(answer.into_response()));
            }
        };
        let is_truncated = std::mem::take(&mut position.is_truncated);
        let watermark = Watermark::Source(position.cursor.clone());
        let feed = open_feed(state, source.as_ref().clone(), position);
        Ok(Ok((StartedFeed::Source(Box::new(feed)), watermark, is_truncated)))
    }
}

fn pick_delivery(request: &RequestContext<'_>) -> Result<Json, RequestError> {
    let [delivery] = request.pick_params(["delivery"]);
    delivery
        .filter(|delivery| delivery.kind() == "object")
        .ok_or_else(|| RequestError::invalid_params("`params.delivery` must be an object"))
}

/// Handles the method `events/subscribe`: adds a subscription, or refreshes it.
pub(super) async fn subscribe_events(
    request: &RequestContext<'_>,
) -> Result<McpResponse, RequestError> {
    require_events(request, &request.caller.tool_view())?;
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
    let table = &state.mcp_components.webhooks;
    if let Some(existing) = table.find(&callback.id, now) {
        let cursor = callback.events.cursor_at(request, &existing.watermark())?;
        let status = existing.refresh(secret, request.caller.principal, (now, expires_at));
        let result = subscription_result((&callback.id, cursor, expires_at), false);
        return Ok(
            request.encode_result(&result.with_member("deliveryStatus", &Json::encode(&status)))
        );
    }
    let root_key: Box<str> = format!(
        "{}/{}",
        request.caller.principal.org().as_str(),
        request.caller.principal.limit_key_id()
    )
    .into();
    table.check_limits(&root_key, now).map_err(limit_error)?;
    let (feed, watermark, is_truncated) = match callback.start(request).await? {
        Ok(started) => started,
        Err(failure) => return Ok(failure),
    };
    let cursor = callback.events.cursor_at(request, &watermark)?;
    let subscription = WebhookSubscription::new(
        (callback.id.clone(), callback.url.clone()),
        root_key,
        secret,
        (expires_at, watermark),
    );
    verify_callback(request, &callback, &subscription).await?;
    table.insert(&subscription, now).map_err(limit_error)?;
    let result = subscription_result((&callback.id, cursor, expires_at), is_truncated);
    let sender =
        WebhookSender { state: state.clone(), transport: callback.transport, subscription };
    let tasks = &state.mcp_components.background_tasks;
    drop(match feed {
        StartedFeed::Own(reader) => tasks.spawn(deliver_events(sender, reader)),
        StartedFeed::Source(feed) => tasks.spawn(deliver_source_events(sender, *feed)),
    });
    Ok(request.encode_result(&result))
}

/// Handles the method `events/unsubscribe`.
pub(super) fn unsubscribe_events(
    request: &RequestContext<'_>,
) -> Result<McpResponse, RequestError> {
    require_events(request, &request.caller.tool_view())?;
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
    (id, cursor, expires_at): (&str, Json, WallTime),
    is_truncated: bool,
) -> Json {
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
