//! Methods that are forwarded to the endpoint's source: prompts, resources, completion, log level.

use gateway::{CallRequest, CallTarget};
use tool::{Interface, Json};

use super::call_completion::CallCompletion;
use super::log_level::LogLevel;
use super::request_context::RequestContext;
use super::request_error::RequestError;
use super::request_headers::escape_input;
use super::response_body::McpResponse;
use super::tools_call::run_call;

/// Members of the params that this server consumes and does not forward.
const RESERVED_PARAMS: [&str; 3] = ["_meta", "requestState", "inputResponses"];

/// Forwards a request to the method `name` of [`tool::MCP_METHODS`].
pub(crate) async fn forward_method(
    request: &RequestContext<'_>,
    name: &'static str,
) -> Result<McpResponse, RequestError> {
    forward_with_args(request, name, upstream_params(request)).await
}

async fn forward_with_args(
    context: &RequestContext<'_>,
    name: &'static str,
    args: Json,
) -> Result<McpResponse, RequestError> {
    let target = source_method(context, name)?;
    let mut finish = CallCompletion::for_method(context, &args);
    let continues = finish.take_resumption(context).await?;
    let mut request =
        Box::new(CallRequest::for_target(target, args.bytes().clone(), Interface::Mcp));
    request.unsolicited_input = continues.is_none().then(|| context.unsolicited_input()).flatten();
    request.resumption = continues;
    Ok(run_call(context, finish, request).await)
}

/// Handles `prompts/get`. Prompts whose definition was not approved are rejected.
pub(crate) async fn get_prompt(request: &RequestContext<'_>) -> Result<McpResponse, RequestError> {
    let [name] = request.pick_params(["name"]);
    let name = name.as_ref().and_then(Json::string_value);
    let view = request.caller.tool_view();
    let shelf =
        request.caller.endpoint.source_catalog(&view).map_err(RequestError::invalid_params)?;
    if let (Some(shelf), Some(name)) = (shelf, name)
        && shelf.is_prompt_blocked(&name)
    {
        let message = format!("unknown prompt `{}`", escape_input(&name));
        return Err(RequestError::invalid_params(message));
    }
    forward_method(request, "mcp.prompts.get").await
}

/// The params without the members meant for this server.
pub(crate) fn upstream_params(request: &RequestContext<'_>) -> Json {
    let params = request.params.cloned().unwrap_or_else(Json::empty_object);
    RESERVED_PARAMS.iter().fold(params, |params, key| params.without_member(key))
}

/// Handles `logging/setLevel` for the session, and at the source if it supports levels. Sessions
/// share the source: it receives the lowest requested level, and each session filters by its own.
pub(crate) async fn set_log_level(
    request: &RequestContext<'_>,
) -> Result<McpResponse, RequestError> {
    let session = request.session.as_ref().ok_or_else(|| request.method_not_found())?;
    let [level] = request.pick_params(["level"]);
    let level = level.as_ref().and_then(LogLevel::from_json).ok_or_else(|| {
        RequestError::invalid_params(format!(
            "`params.level` must be one of {}",
            LogLevel::level_names()
        ))
    })?;
    session.runtime.set_log_level(level);
    let method = "mcp.logging.setLevel";
    if source_method(request, method).is_ok() {
        let least =
            request.caller.state.mcp_components.sessions.min_log_level(request.caller.endpoint);
        let least = least.map_or(level, |least| least.min(level));
        return forward_with_args(
            request,
            method,
            upstream_params(request).with_member("level", &least.to_json()),
        )
        .await;
    }
    Ok(request.encode_result(&Json::empty_object()))
}

/// Returns a method of the endpoint's source, or an error if the caller cannot use it.
pub(crate) fn source_method(
    request: &RequestContext<'_>,
    name: &'static str,
) -> Result<CallTarget, RequestError> {
    let source = request.caller.endpoint.source().ok_or_else(|| request.method_not_found())?;
    if request.caller.tool_view().find_method(source, name).is_none() {
        return Err(request.method_not_found());
    }
    Ok(CallTarget::Method { source: source.to_owned(), name })
}
