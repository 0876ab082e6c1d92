//! The errors of the events extension.

use http::StatusCode;
use mcp::{RpcError, error_codes};
use server_core::webhook::WebhookFailure;
use tool::Json;
use tool::call_outcome::CallFailure;

use crate::request_error::RequestError;

fn event_error(code: i64, message: String, data: &[(&'static str, Json)]) -> RequestError {
    let data = Json::object_from(data.iter().map(|(key, value)| (*key, value)));
    let error = RpcError { data: Some(data), ..RpcError::new(code, message) };
    RequestError { status: StatusCode::OK, error }
}

/// An error for event types that do not exist, and equally for those that the caller may not see.
pub(super) fn unknown_event(name: &str) -> RequestError {
    let name = crate::request_headers::escape_input(name);
    let message = format!("NotFound: unknown event `{name}`; `events/list` has the known ones");
    event_error(error_codes::NOT_FOUND, message, &[("kind", Json::encode("event"))])
}

pub(super) fn unknown_subscription() -> RequestError {
    let message = "NotFound: no subscription with this name, these arguments and this URL";
    event_error(
        error_codes::NOT_FOUND,
        message.to_owned(),
        &[("kind", Json::encode("subscription"))],
    )
}

pub(super) fn forbidden(message: &str) -> RequestError {
    event_error(error_codes::FORBIDDEN, format!("Forbidden: {message}"), &[])
}

pub(super) fn resource_exhausted(limit: &str, max: usize) -> RequestError {
    let message = format!("ResourceExhausted: at most {max} {limit} are allowed");
    let data = [("limit", Json::encode(limit)), ("max", Json::encode(&max))];
    event_error(error_codes::RESOURCE_EXHAUSTED, message, &data)
}

pub(super) fn unsupported_mode(mode: &str) -> RequestError {
    let mode = crate::request_headers::escape_input(mode);
    let message = format!("Unsupported: the delivery mode `{mode}`");
    let data = [("feature", Json::encode("deliveryMode")), ("value", Json::encode(&mode))];
    event_error(error_codes::UNSUPPORTED, message, &data)
}

/// The error of a callback URL that failed; `reason` is one of the categories of the extension.
pub(super) fn callback_failed(reason: &str) -> RequestError {
    let message = format!("CallbackEndpointError: the callback URL failed: {reason}");
    event_error(error_codes::CALLBACK_ENDPOINT, message, &[("reason", Json::encode(reason))])
}

pub(super) fn callback_unreachable(failure: WebhookFailure) -> RequestError {
    callback_failed(failure.category())
}

/// The error with which a subscription to events of a source ends: the source's own, or that the caller
/// may not have them.
pub(super) fn failure_error(failure: &CallFailure) -> Json {
    let Some(error) = &failure.rpc_error else { return access_revoked() };
    let (code, message) = (Json::encode(&error.code), Json::encode(&error.message));
    let members = [Some(("code", &code)), Some(("message", &message))];
    let data = error.data.as_ref().map(|data| ("data", data));
    Json::object_from(members.into_iter().flatten().chain(data))
}

/// The error with which a subscription ends when its caller's access has ended.
pub(super) fn access_revoked() -> Json {
    let data = Json::object_from([("reason", &Json::encode("Access revoked"))]);
    Json::object_from([
        ("code", &Json::encode(&error_codes::FORBIDDEN)),
        ("message", &Json::encode("Forbidden")),
        ("data", &data),
    ])
}
