//! Handles one JSON-RPC message and returns one response, independent of the HTTP server.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use identity::Principal;
use mcp::{
    ProtocolEra, ProtocolVersion, RpcMessage, RpcNotification, RpcRequest, RpcResponse, error_codes,
};
use tool::Json;

use super::endpoint::Endpoint;
use super::request_context::{EndpointCaller, RequestContext};
use super::request_error::RequestError;
use super::request_headers::{RequestHeaders, RequestMeta};
use super::response_body::{self, McpResponse};
use super::{
    events, list_methods, resource_subscriptions, server_capabilities, server_stream,
    source_methods, tasks, tools_call,
};
use crate::McpServerState;
use server_core::body::json_limits_for;

/// Handles one message of `principal`, whose credential was verified, as Host and Origin were.
pub(crate) async fn handle_message(
    state: &McpServerState,
    principal: &Principal,
    endpoint: &Endpoint,
    headers: &HeaderMap,
    body: Bytes,
) -> McpResponse {
    match reject_headers(headers) {
        None => {
            let now = state.components.clock.wall_now();
            dispatch_message(
                EndpointCaller { state, principal, endpoint, received_at: now },
                RequestHeaders::new(headers),
                body,
            )
            .await
        }
        Some(reply) => reply,
    }
}

/// Returns an error response if the media types of these headers are not acceptable.
pub fn reject_headers(headers: &HeaderMap) -> Option<McpResponse> {
    RequestHeaders::new(headers).check_media_types().err().map(|refused| refused.to_response(None))
}

/// Dispatches one message whose headers [`reject_headers`] has accepted.
pub async fn dispatch_message(
    caller: EndpointCaller<'_>,
    headers: RequestHeaders<'_>,
    body: Bytes,
) -> McpResponse {
    let narrowed = caller.endpoint.narrow_principal(caller.principal);
    let caller = EndpointCaller { principal: &narrowed, ..caller };
    let limits = json_limits_for(body.len()).around_arguments(mcp::ARGUMENT_DEPTH);
    match gateway::run_blocking_if_large(body.len(), || RpcMessage::parse(body, limits)) {
        Ok(RpcMessage::Request(request)) => {
            let replied = handle_request(caller, headers, &request).await;
            replied.unwrap_or_else(|refused| refused.to_response(Some(&request.id)))
        }
        Ok(RpcMessage::Notification(notification)) => {
            let taken = handle_notification(caller, headers, &notification);
            taken.map_or_else(
                |refused| refused.to_response(None),
                |()| response_body::status_response(StatusCode::ACCEPTED),
            )
        }
        Ok(RpcMessage::Response(response)) => {
            let taken = handle_client_response(caller, headers, response);
            taken.map_or_else(
                |refused| refused.to_response(None),
                |()| response_body::status_response(StatusCode::ACCEPTED),
            )
        }
        Err(fault) => response_body::json_response(
            StatusCode::BAD_REQUEST,
            mcp::encode::encode_error(fault.id.as_ref(), &fault.error),
        ),
    }
}

async fn handle_request(
    caller: EndpointCaller<'_>,
    headers: RequestHeaders<'_>,
    request: &RpcRequest,
) -> Result<McpResponse, RequestError> {
    let size = request.params.as_ref().map_or(0, |params| params.bytes().len());
    let parse = || RequestContext::parse(caller, headers, request);
    let mut context = gateway::run_blocking_if_large(size, parse)?;
    let narrowed = context.restricted_principal()?;
    // Replaced in place: it is large, and few requests restrict themselves.
    if let Some(narrowed) = &narrowed {
        context.caller.principal = narrowed;
    }
    context.caller.check_endpoint_exists()?;
    match (context.method, context.era) {
        ("tools/call", _) => tools_call::call_tool(&context).await,
        ("tools/list", _) => list_methods::list_tools(&context),
        ("ping", ProtocolEra::Handshake) => Ok(context.encode_result(&Json::empty_object())),
        ("initialize", ProtocolEra::Handshake) => server_capabilities::handle_initialize(&context),
        ("server/discover", ProtocolEra::Stateless) => {
            server_capabilities::handle_discover(&context)
        }
        ("logging/setLevel", ProtocolEra::Handshake) => {
            source_methods::set_log_level(&context).await
        }
        ("subscriptions/listen", ProtocolEra::Stateless) => {
            server_stream::open_listen_stream(&context).await
        }
        ("tasks/get" | "tasks/update" | "tasks/cancel", ProtocolEra::Stateless) => {
            tasks::handle_task_method(&context).await
        }
        (
            "events/list" | "events/poll" | "events/stream" | "events/subscribe"
            | "events/unsubscribe",
            ProtocolEra::Stateless,
        ) => events::handle_event_method(&context).await,
        ("prompts/list", _) => list_methods::list_prompts(&context),
        ("resources/list", _) => list_methods::list_resources(&context, false),
        ("resources/templates/list", _) => list_methods::list_resources(&context, true),
        ("prompts/get", _) => source_methods::get_prompt(&context).await,
        ("resources/read", _) => source_methods::read_resource(&context).await,
        ("resources/directory/read", _) => source_methods::read_directory(&context).await,
        ("skills/list", _) => list_methods::list_skills(&context),
        ("skills/get", _) => list_methods::get_skill(&context),
        ("completion/complete", _) => source_methods::complete_argument(&context).await,
        ("resources/subscribe", ProtocolEra::Handshake) => {
            resource_subscriptions::subscribe_resource(&context).await
        }
        ("resources/unsubscribe", ProtocolEra::Handshake) => {
            resource_subscriptions::unsubscribe_resource(&context)
        }
        _ => source_methods::relay_method(&context).await,
    }
}

/// Handles a notification. Those of stateless clients have no effect: they cancel a request by
/// closing its stream.
fn handle_notification(
    caller: EndpointCaller<'_>,
    headers: RequestHeaders<'_>,
    message: &RpcNotification,
) -> Result<(), RequestError> {
    let beside = message.params.as_ref().and_then(mcp::meta::get_meta);
    let meta = beside.as_ref().map(RequestMeta::from_json).unwrap_or_default();
    let stateless = |revision: ProtocolVersion| revision.era() == ProtocolEra::Stateless;
    if meta.protocol_version.is_some() || headers.declared_version()?.is_some_and(stateless) {
        return Ok(());
    }
    let Some(session) = caller.find_session(headers)? else { return Ok(()) };
    if message.method == "notifications/cancelled" {
        let id = message.params.as_ref().and_then(|params| params.get("requestId"));
        if let Some(id) = id.as_ref().and_then(mcp::RequestId::from_json) {
            session.runtime.running_requests.cancel_request(&id);
        }
    }
    Ok(())
}

/// Handles a client's response to a request that the server sent.
fn handle_client_response(
    caller: EndpointCaller<'_>,
    headers: RequestHeaders<'_>,
    response: RpcResponse,
) -> Result<(), RequestError> {
    let session = match headers.declared_version()?.map(ProtocolVersion::era) {
        Some(ProtocolEra::Stateless) => None,
        Some(ProtocolEra::Handshake) | None => caller.find_session(headers)?,
    };
    let Some(session) = session else {
        let message = "the response matches no session with a pending request";
        return Err(RequestError::bad_request(error_codes::INVALID_REQUEST, message));
    };
    session.runtime.resolve_client_request(response.id.as_ref(), response.result);
    Ok(())
}
