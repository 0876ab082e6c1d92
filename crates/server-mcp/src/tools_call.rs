//! The handler of `tools/call`, and the execution of a call with a plain response, or with a stream
//! as soon as an event precedes the response.

use std::pin::Pin;
use std::sync::Arc;

use gateway::{CallRequest, CatalogView, RequestArguments};
use http::HeaderName;
use mcp::headers::{ArgumentHeaders, HeaderMismatch};
use mcp::{ProtocolEra, error_codes, meta};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tool::{Interface, Json, JsonLimits};

use super::call_completion::CallCompletion;
use super::client_capabilities;
use super::client_requests::SessionRequester;
use super::endpoint::Endpoint;
use super::event_sink::EventSink;
use super::listing_mode::ToolListing;
use super::progress_stream::ProgressStream;
use super::request_context::{RequestContext, require_string};
use super::request_error::RequestError;
use super::response_body::{self, EventStream, McpResponse};
use super::result_encoding::EncodedResult;
use super::running_requests::RunningRequestGuard;
use super::search_mode::{self, RoutedCall};
use super::tool_name_caches::argument_headers;
use super::uri_rewriting::UriRewriter;

/// Handles the method `tools/call`.
pub(crate) async fn call_tool(context: &RequestContext<'_>) -> Result<McpResponse, RequestError> {
    let name = require_string("name", context.named_params.name.as_ref())?;
    let args = context.named_params.arguments.clone().filter(|args| args.kind() != "null");
    let args = args.unwrap_or_else(Json::empty_object);
    let view = context.caller.tool_view();
    let listing = context.tool_listing(&view);
    let (mut name, mut args, mut is_direct) = (name, args, true);
    if listing != ToolListing::Full {
        // In a box: calls of the complete list need no room for a search.
        match Box::pin(search_mode::route_call(context, (&view, listing), (name, args))).await {
            RoutedCall::Answer(response) => return Ok(response),
            RoutedCall::Tool(routed) => (name, args, is_direct) = routed,
        }
    }
    let native = resolve_native_name(context, &view, &name);
    // A client knows the headers of a tool that is listed with its schema, and calls it itself.
    let has_schema = || {
        let known = view.find_tool(&native).filter(|_| is_direct);
        let deferral = context.tool_deferral(&view, listing);
        known.is_some_and(|(entry, _)| !deferral.is_deferred(entry))
    };
    if context.era == ProtocolEra::Stateless && (listing == ToolListing::Full || has_schema()) {
        check_argument_headers(context, &view, (&native, &args))?;
    }
    let mut finish = CallCompletion::for_tool(context, (&native, name), &args);
    finish.uri_rewriter = UriRewriter::for_tool(context.caller.endpoint, &view, &native);
    if listing == ToolListing::Deferred {
        let tool = view.find_tool(&native).map(|(entry, _)| entry.tool.input_schema.clone());
        finish.deferred_schema = tool;
    }
    let continues = finish.take_resumption(context).await?;
    // The limits that the message was parsed with, less the levels around the arguments; the number
    // of nodes depends on the size.
    let by = JsonLimits { max_bytes: usize::MAX, max_nodes: usize::MAX, ..JsonLimits::ARGUMENTS };
    let mut request =
        Box::new(CallRequest::new(native, RequestArguments::Validated(args, by), Interface::Mcp));
    request.unsolicited_input = continues.is_none().then(|| context.unsolicited_input()).flatten();
    request.resumption = continues;
    Ok(run_call(context, finish, request).await)
}

/// Resolves the name that a client used to the native tool name. A name unknown at the endpoint
/// becomes one that no tool can have, so that no tool of another source matches.
fn resolve_native_name(request: &RequestContext<'_>, view: &CatalogView, name: &str) -> String {
    let Endpoint::Source(source) = request.caller.endpoint else {
        return request.caller.state.tool_lists.resolve_tool_name(view, name);
    };
    let own = request.caller.state.mcp_components.native_names.for_source(
        view,
        request.caller.endpoint,
        source,
    );
    own.get(name).cloned().unwrap_or_else(|| format!("{source}/{name}"))
}

/// Checks that arguments repeated in headers equal those in the body. Only callers who see the tool
/// learn that it has such arguments.
fn check_argument_headers(
    request: &RequestContext<'_>,
    view: &CatalogView,
    (name, args): (&str, &Json),
) -> Result<(), RequestError> {
    if view.full_catalog().is_selection() {
        return check_selected_headers(request, view, (name, args));
    }
    let mirrors =
        request.caller.state.mcp_components.argument_headers.for_catalog(view.full_catalog());
    let known = mirrors.has_any.then(|| view.full_catalog().find_tool(name)).flatten();
    let at = known.filter(|_| view.find_tool(name).is_some());
    // Only for the primary name: an alias has no headers.
    let Some(mirror) = at.and_then(|(at, _)| mirrors.get(at, name)) else { return Ok(()) };
    verify_argument_headers(request, mirror, args)
}

/// Checks the headers of a tool of a toolset, of which no table is cached.
fn check_selected_headers(
    request: &RequestContext<'_>,
    view: &CatalogView,
    (name, args): (&str, &Json),
) -> Result<(), RequestError> {
    let found = view.find_tool(name).filter(|(entry, _)| entry.name.as_str() == name);
    let mirror = found.and_then(|(entry, _)| argument_headers(&entry.tool.input_schema));
    mirror.map_or(Ok(()), |mirror| verify_argument_headers(request, &mirror, args))
}

fn verify_argument_headers(
    request: &RequestContext<'_>,
    mirror: &ArgumentHeaders,
    args: &Json,
) -> Result<(), RequestError> {
    if args.kind() != "object" {
        return Ok(());
    }
    let header = |name: &str| {
        let Ok(name) = HeaderName::try_from(name) else { return Ok(None) };
        request.headers.single_value(&name).map_err(|refused| HeaderMismatch(refused.error.message))
    };
    mirror.verify_headers(&args.to_value(), header).map_err(|mismatch| {
        RequestError::bad_request(error_codes::HEADER_MISMATCH, mismatch.to_string())
    })
}

/// Runs a call. A client that accepts notifications gets a stream as soon as there is one.
pub(crate) fn run_call<'a>(
    context: &'a RequestContext<'_>,
    completion: CallCompletion,
    mut request: Box<CallRequest>,
) -> impl Future<Output = McpResponse> + Send + 'a {
    request.meta = upstream_meta(context);
    request.client_capabilities = completion.capabilities.clone();
    let registration = context
        .session
        .as_ref()
        .map(|session| session.runtime.running_requests.register_request(context.request_id));
    let event_sink = attach_event_sink(context, &mut request);
    // Boxed here: futures carry what they capture through every layer above them, and this is most
    // of a call.
    respond_when_done(context, event_sink, registration, Box::pin(completion.execute(request)))
}

async fn respond_when_done(
    request: &RequestContext<'_>,
    event_sink: Option<Arc<EventSink>>,
    registration: Option<RunningRequestGuard>,
    mut work: Pin<Box<impl Future<Output = EncodedResult> + Send + 'static>>,
) -> McpResponse {
    let Some(event_sink) = event_sink else {
        return tokio::select! {
            biased;
            result = work => result.into_response(),
            () = wait_for_cancel(registration.as_ref().map(RunningRequestGuard::token)) => empty_stream(),
        };
    };
    let result = tokio::select! {
        biased;
        result = &mut work => result,
        () = event_sink.wait_ready() => {
            let cancel_token = registration.as_ref().map(RunningRequestGuard::token).cloned();
            return stream_response(request, event_sink, registration, async move {
                tokio::select! {
                    biased;
                    result = work => Some(result.into_event()),
                    () = wait_for_cancel(cancel_token.as_ref()) => None,
                }
            });
        }
        () = wait_for_cancel(registration.as_ref().map(RunningRequestGuard::token)) => return empty_stream(),
    };
    let mut events: Vec<_> = std::iter::from_fn(|| event_sink.pop_event()).collect();
    if events.is_empty() {
        return result.into_response();
    }
    events.push(result.into_event());
    response_body::buffered_events_response(events.concat().into())
}

/// The `_meta` sent upstream. Sources of 2026-07-28 expect the minimum log level in each request;
/// the session's level is added.
pub(crate) fn upstream_meta(request: &RequestContext<'_>) -> Option<Json> {
    let level = request.log_level().filter(|_| request.session.is_some());
    match (&request.raw_meta, level) {
        (raw_meta, None) => raw_meta.clone(),
        (Some(raw_meta), Some(level)) => {
            Some(raw_meta.with_member(meta::LOG_LEVEL, &level.to_json()))
        }
        (None, Some(level)) => Some(level.to_meta()),
    }
}

/// Attaches an event sink to the request, if this client accepts notifications or requests.
fn attach_event_sink(
    context: &RequestContext<'_>,
    request: &mut CallRequest,
) -> Option<Arc<EventSink>> {
    let level = context.log_level();
    let session = context
        .session
        .as_ref()
        .filter(|session| client_capabilities::supports_any_request(&session.capabilities));
    if context.meta.progress_token.is_none() && level.is_none() && session.is_none() {
        return None;
    }
    let event_sink = Arc::new(EventSink::default());
    let progress =
        ProgressStream::new(Arc::clone(&event_sink), context.meta.progress_token.clone(), level);
    request.progress = Some(Arc::new(progress));
    if let Some(session) = session {
        request.client_requests = Some(Arc::new(SessionRequester {
            runtime: Arc::clone(&session.runtime),
            event_sink: Arc::clone(&event_sink),
            capabilities: session.capabilities.clone(),
        }));
    }
    Some(event_sink)
}

/// Streams the response of a call that runs in its own task: a slow client does not delay it, and a
/// disconnect aborts it.
fn stream_response(
    request: &RequestContext<'_>,
    event_sink: Arc<EventSink>,
    registration: Option<RunningRequestGuard>,
    work: impl Future<Output = Option<bytes::Bytes>> + Send + 'static,
) -> McpResponse {
    let task = request.caller.state.mcp_components.background_tasks.spawn(work);
    response_body::event_stream_response(EventStream::new(
        event_sink,
        Some(AbortOnDropHandle::new(task)),
        registration,
    ))
}

/// Resolves when the request is cancelled; never for a request that cannot be cancelled.
async fn wait_for_cancel(token: Option<&CancellationToken>) {
    match token {
        Some(token) => token.cancelled().await,
        None => std::future::pending().await,
    }
}

/// An empty stream: MCP sends no response to a cancelled request.
fn empty_stream() -> McpResponse {
    response_body::buffered_events_response(bytes::Bytes::new())
}
