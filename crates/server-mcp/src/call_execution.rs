//! The execution of one call with a plain response, or with a stream as soon as an event precedes
//! the response.

use std::pin::Pin;
use std::sync::Arc;

use gateway::CallRequest;
use mcp::meta;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tool::Json;

use super::call_completion::CallCompletion;
use super::client_capabilities;
use super::client_requests::SessionRequester;
use super::event_sink::EventSink;
use super::progress_stream::ProgressStream;
use super::request_context::RequestContext;
use super::response_body::{self, EventStream, McpResponse};
use super::result_encoding::EncodedResult;
use super::running_requests::RunningRequestGuard;

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
    respond_when_done(context, (event_sink, registration), Box::pin(completion.execute(request)))
}

async fn respond_when_done(
    request: &RequestContext<'_>,
    (event_sink, registration): (Option<Arc<EventSink>>, Option<RunningRequestGuard>),
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
            return stream_response(request, (event_sink, registration), async move {
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
fn upstream_meta(request: &RequestContext<'_>) -> Option<Json> {
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
    (event_sink, registration): (Arc<EventSink>, Option<RunningRequestGuard>),
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
