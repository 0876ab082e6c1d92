//! Methods that are forwarded to a source: prompts, resources, completion, log level.

use std::borrow::Cow;
use std::sync::Arc;

use catalog::SourceState;
use futures_util::StreamExt as _;
use gateway::{CallRequest, CallTarget};
use identity::Principal;
use tool::{CallerType, Interface, Json, SourceName};

use super::call_completion::CallCompletion;
use super::endpoint::Endpoint;
use super::log_level::LogLevel;
use super::request_context::{RequestContext, require_string};
use super::request_error::RequestError;
use super::response_body::McpResponse;
use super::source_items::{
    self, DIRECTORY_METHOD, PROMPT_METHOD, RESOURCE_METHOD, endpoint_source,
};
use super::tools_call::run_call;
use super::uri_rewriting::UriRewriter;
use crate::McpServerState;

/// The method that sets the log level of a source.
const LOG_METHOD: &str = "mcp.logging.setLevel";
/// Maximum number of sources that receive a log level at once.
const MAX_PARALLEL_LEVELS: usize = 8;

/// Members of the params that this server consumes and does not forward.
const RESERVED_PARAMS: [&str; 3] = ["_meta", "requestState", "inputResponses"];

/// Forwards a request to a method of one source.
async fn forward_to(
    context: &RequestContext<'_>,
    (source, name): (&SourceName, impl Into<Cow<'static, str>>),
    (args, rewriter): (Json, Option<Box<UriRewriter>>),
) -> Result<McpResponse, RequestError> {
    let target = CallTarget::Method { source: source.to_string(), name: name.into() };
    let mut finish = CallCompletion::for_method(context, &args);
    finish.uri_rewriter = rewriter;
    let continues = finish.take_resumption(context).await?;
    let mut request =
        Box::new(CallRequest::for_target(target, args.bytes().clone(), Interface::Mcp));
    request.unsolicited_input = continues.is_none().then(|| context.unsolicited_input()).flatten();
    request.resumption = continues;
    Ok(run_call(context, finish, request).await)
}

/// Handles the method `prompts/get`.
pub(crate) async fn get_prompt(request: &RequestContext<'_>) -> Result<McpResponse, RequestError> {
    let view = request.caller.tool_view();
    endpoint_source(request, &view, PROMPT_METHOD)?;
    let name = require_string("name", request.named_params.name.as_ref())?;
    let item = source_items::find_prompt(request, &view, (PROMPT_METHOD, &name))?;
    let args = upstream_params(request).with_member("name", &Json::encode(&item.own_name));
    let rewriter = UriRewriter::for_method(request.caller.endpoint, &view, &item.source);
    forward_to(request, (&item.source.source, PROMPT_METHOD), (args, rewriter)).await
}

/// Handles the method `resources/read`.
pub(crate) async fn read_resource(
    request: &RequestContext<'_>,
) -> Result<McpResponse, RequestError> {
    let view = request.caller.tool_view();
    endpoint_source(request, &view, RESOURCE_METHOD)?;
    let uri = request.require_uri()?;
    let item = source_items::find_resource(request, &view, (RESOURCE_METHOD, &uri))?;
    let args = upstream_params(request).with_member("uri", &Json::encode(&item.own_name));
    let mut rewriter = UriRewriter::for_method(request.caller.endpoint, &view, &item.source);
    if let Some(rewriter) = &mut rewriter {
        rewriter.set_requested(&item.own_name, &uri);
    }
    forward_to(request, (&item.source.source, RESOURCE_METHOD), (args, rewriter)).await
}

/// Handles `resources/directory/read`, which lists the children of a directory (SEP-2640).
pub(crate) async fn read_directory(
    request: &RequestContext<'_>,
) -> Result<McpResponse, RequestError> {
    let view = request.caller.tool_view();
    endpoint_source(request, &view, DIRECTORY_METHOD)?;
    let uri = request.require_uri()?;
    let item = source_items::find_directory(request, &view, &uri)?;
    let args = upstream_params(request).with_member("uri", &Json::encode(&item.own_name));
    let rewriter = UriRewriter::for_directory(request.caller.endpoint, &view, &item, &uri);
    forward_to(request, (&item.source.source, DIRECTORY_METHOD), (args, Some(Box::new(rewriter))))
        .await
}

/// Handles `completion/complete`, for an argument of a prompt or of a resource template.
pub(crate) async fn complete_argument(
    request: &RequestContext<'_>,
) -> Result<McpResponse, RequestError> {
    let method = "mcp.completion.complete";
    let view = request.caller.tool_view();
    let own = endpoint_source(request, &view, method)?;
    let params = upstream_params(request);
    let reference = params.get("ref").unwrap_or_else(Json::empty_object);
    let [kind, name, uri] = reference.pick(["type", "name", "uri"]);
    let kind = kind.as_ref().and_then(Json::string_value);
    let (member, item) = match (kind.as_deref(), name, uri) {
        (Some("ref/prompt"), name, _) => {
            let name = require_string("ref.name", name.as_ref())?;
            ("name", source_items::find_prompt(request, &view, (method, &name))?)
        }
        (Some("ref/resource"), _, uri) => {
            let uri = require_string("ref.uri", uri.as_ref())?;
            ("uri", source_items::find_template(request, &view, (method, &uri))?)
        }
        _ => {
            if let Some(source) = own {
                return forward_to(request, (&source.source, method), (params, None)).await;
            }
            let message = "`params.ref.type` must be `ref/prompt` or `ref/resource`";
            return Err(RequestError::invalid_params(message));
        }
    };
    let reference = reference.with_member(member, &Json::encode(&item.own_name));
    let args = params.with_member("ref", &reference);
    forward_to(request, (&item.source.source, method), (args, None)).await
}

/// Relays a method of an extension that an operator allowed for a source. Every other method is unknown.
/// At the endpoint of all sources, it goes to the only visible source that has it.
pub(crate) async fn relay_method(
    request: &RequestContext<'_>,
) -> Result<McpResponse, RequestError> {
    let view = request.caller.tool_view();
    let name = source_items::extension_method_name(request.method)
        .ok_or_else(|| request.method_not_found())?;
    let source = if let Some(source) = endpoint_source(request, &view, &name)? {
        source
    } else {
        let all: Vec<_> = view.sources_with_method(&name).collect();
        source_items::choose_method_source(request, &all)?
    };
    let args = upstream_params(request);
    forward_to(request, (&source.source, name.clone()), (args, None)).await
}

/// The params without the members meant for this server.
pub(crate) fn upstream_params(request: &RequestContext<'_>) -> Json {
    let params = request.params.cloned().unwrap_or_else(Json::empty_object);
    RESERVED_PARAMS.iter().fold(params, |params, key| params.without_member(key))
}

/// Handles `logging/setLevel` for the session, and at the sources that support levels. Sessions
/// share the sources: they receive the lowest requested level, and each session filters by its own.
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
    let caller = request.caller;
    let view = caller.tool_view();
    match caller.endpoint.source() {
        Some(source) if view.find_method(source, LOG_METHOD).is_some() => {
            let source = view.source_catalog(source).ok_or_else(|| request.method_not_found())?;
            let least = caller.state.mcp_components.sessions.min_log_level(caller.endpoint);
            let least = least.map_or(level, |least| least.min(level));
            let args = upstream_params(request).with_member("level", &least.to_json());
            forward_to(request, (&source.source, LOG_METHOD), (args, None)).await
        }
        Some(_) => Ok(request.encode_result(&Json::empty_object())),
        None => {
            if session.runtime.begin_level_update() {
                let runtime = Arc::clone(&session.runtime);
                let (state, principal) = (caller.state.clone(), caller.principal.clone());
                let endpoint = caller.endpoint.clone();
                let update = async move {
                    loop {
                        send_log_level((&state, &principal, &endpoint), level).await;
                        if !runtime.finish_level_update() {
                            break;
                        }
                    }
                };
                drop(caller.state.mcp_components.background_tasks.spawn(update));
            }
            Ok(request.encode_result(&Json::empty_object()))
        }
    }
}

/// Sends the lowest level that a session of the endpoint requested to all sources that are reached,
/// in the background: a slow or unavailable source does not delay the client, which hears of no
/// failure. A session has one such update at a time.
async fn send_log_level(
    (state, principal, endpoint): (&McpServerState, &Principal, &Endpoint),
    level: LogLevel,
) {
    let least = state.mcp_components.sessions.min_log_level(endpoint).unwrap_or(level);
    let args = Json::object_from([("level", &least.to_json())]).bytes().clone();
    let view = state.components.gateway.view_for(principal, CallerType::Direct);
    let reached: Vec<_> = view
        .sources_with_method(LOG_METHOD)
        .filter(|source| source.state == SourceState::Current)
        .map(|source| source.source.to_string())
        .collect();
    let calls = reached.into_iter().map(|source| {
        let args = args.clone();
        async move {
            let target = CallTarget::Method { source, name: LOG_METHOD.into() };
            let call = CallRequest::for_target(target, args, Interface::Mcp);
            let answer = state.components.gateway.call_tool(principal, call).await;
            state.metrics.observe_call(Interface::Mcp, &answer);
        }
    });
    futures_util::stream::iter(calls)
        .buffer_unordered(MAX_PARALLEL_LEVELS)
        .for_each(|()| std::future::ready(()))
        .await;
}
