//! The gRPC interface: `CallFunction` of the cluster tools and Toolkeep's own tool service.
//!
//! The key in the metadata authenticates the caller. Calls without a key are rejected unless the
//! server allows anonymous access. All decisions are the gateway's.

mod connection_principal;

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use gateway::CallRequest;
use http::header::{AUTHORIZATION, InvalidHeaderValue};
use http::{HeaderMap, HeaderValue, Uri};
use identity::Principal;
use proto::node::Tool as Listed;
use proto::server::{
    ConnectionExtension, FunctionResult, IncomingCall, ProgressSender, RuntimeAssignment,
    ServiceFuture, ToolService, run_until_cancelled, serve_pinned,
};
use proto::{MetadataMap, Status};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tool::call_outcome::{CallFailure, CallResponse};
use tool::executor::{PendingReason, ProgressSink};
use tool::node_registry::node_call_arguments;
use tool::{CallerType, ErrorCode, ExecutionState, Interface, Json, JsonLimits, Secret};

use crate::ConnectionWorkers;
use connection_principal::ConnectionPrincipal;
use server_core::authentication::RequestCredentials;
use server_core::call_result::to_plain_result;
use server_core::error::ApiError;
use server_core::pending_call::PendingCall;
use server_core::server_state::ServerState;
use server_core::{authentication, pending_call, request_restrictions};

/// Serves gRPC calls on `workers` until `stop` fires, then finishes the running calls. If the
/// listener is bound to a key, every caller acts as that key's owner; credentials in the metadata
/// are ignored.
///
/// # Errors
/// The listener fails, or the key is not a valid header value.
pub async fn serve_grpc(
    state: &ServerState,
    listener: TcpListener,
    bound_key: Option<&Secret>,
    workers: &ConnectionWorkers,
    stop: CancellationToken,
) -> io::Result<()> {
    let bound = bound_key.map(bearer_headers).transpose().map_err(io::Error::other)?;
    let service = Arc::new(GatewayToolService {
        state: state.clone(),
        fixed_headers: bound,
        stop: stop.clone(),
    });
    let seat = || {
        let seat = workers.assign_worker();
        RuntimeAssignment { runtime: seat.runtime.clone(), guard: Box::new(seat) }
    };
    serve_pinned(service, listener, &seat, stop).await
}

/// Returns a tool service that acts with the rights of one key, for an interface that authenticates
/// its callers itself, such as a node's. Metadata of the caller is ignored.
///
/// # Errors
/// The key is not a valid header value.
pub fn key_bound_service(
    state: &ServerState,
    key: &Secret,
    stop: CancellationToken,
) -> Result<Arc<dyn ToolService>, InvalidHeaderValue> {
    let bound = Some(bearer_headers(key)?);
    Ok(Arc::new(GatewayToolService { state: state.clone(), fixed_headers: bound, stop }))
}

/// Builds the request headers of a caller with this key.
fn bearer_headers(key: &Secret) -> Result<HeaderMap, InvalidHeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose()))?;
    value.set_sensitive(true);
    Ok([(AUTHORIZATION, value)].into_iter().collect())
}

struct GatewayToolService {
    state: ServerState,
    /// Headers that replace those of the caller.
    fixed_headers: Option<HeaderMap>,
    stop: CancellationToken,
}

impl GatewayToolService {
    fn effective_headers(&self, sent: MetadataMap) -> HeaderMap {
        self.fixed_headers.clone().unwrap_or_else(|| sent.into_headers())
    }
}

impl ToolService for GatewayToolService {
    fn open_connection(&self) -> Option<ConnectionExtension> {
        Some(Arc::<ConnectionPrincipal>::default())
    }

    fn check_admission(
        &self,
        headers: MetadataMap,
        connection: Option<ConnectionExtension>,
    ) -> ServiceFuture<Result<(), Status>> {
        let (state, headers) = (self.state.clone(), self.effective_headers(headers));
        Box::pin(async move {
            let known =
                connection.as_ref().and_then(|kept| kept.downcast_ref::<ConnectionPrincipal>());
            connection_principal::authenticate_cached(&state, headers, known).await.map(drop)
        })
    }

    fn caller_id(&self, headers: MetadataMap) -> ServiceFuture<Result<String, Status>> {
        let (state, headers) = (self.state.clone(), self.effective_headers(headers));
        Box::pin(async move {
            let principal = authenticate(&state, headers).await?;
            Ok(format!("{}/{}/{}", principal.org(), principal.subject(), principal.key_id()))
        })
    }

    fn list_tools(&self, headers: MetadataMap) -> ServiceFuture<Result<Vec<Listed>, Status>> {
        let (state, headers) = (self.state.clone(), self.effective_headers(headers));
        Box::pin(async move {
            let principal = authenticate(&state, headers).await?;
            let view = state.components.gateway.view_for(&principal, CallerType::Direct);
            let tools = view.list_tools().map(|entry| Listed {
                name: entry.name.to_string(),
                description: entry.tool.description.clone(),
                input_spec: entry.tool.input_schema.bytes().clone(),
                metadata: Json::encode(&serde_json::json!({
                    "source": entry.tool_key.source,
                    "effects": entry.tool.traits.effects.effect_names(),
                }))
                .bytes()
                .clone(),
            });
            Ok(tools.collect())
        })
    }

    fn call_tool(&self, grpc_call: IncomingCall) -> ServiceFuture<Result<FunctionResult, Status>> {
        let state = self.state.clone();
        let IncomingCall {
            tool_name,
            input,
            headers,
            timeout: within,
            progress,
            cancel_token: cancelled,
            connection,
        } = grpc_call;
        let headers = self.effective_headers(headers);
        Box::pin(async move {
            let known =
                connection.as_ref().and_then(|kept| kept.downcast_ref::<ConnectionPrincipal>());
            let principal =
                connection_principal::authenticate_cached(&state, headers, known).await?;
            let args = if input.is_empty() {
                Json::empty_object().bytes().clone()
            } else {
                normalize_input(input)
            };
            let view = state.components.gateway.view_for(&principal, CallerType::Direct);
            let own_name = state.tool_lists.resolve_tool_name(&view, &tool_name);
            let mut request = CallRequest::new(own_name, args, Interface::Grpc);
            request.timeout = within;
            if progress.has_receiver() {
                request.progress = Some(Arc::new(ProgressForwarder(progress)));
            }
            let call = state.components.gateway.call_tool(&principal, request);
            let Some(response) = run_until_cancelled(cancelled, call).await else {
                let error = "the call was cancelled".to_owned();
                return Ok(FunctionResult { error, ..FunctionResult::default() });
            };
            state.metrics.observe_call(Interface::Grpc, &response);
            to_call_result(&tool_name, response)
        })
    }

    fn node_id(&self) -> String {
        String::new()
    }

    fn is_draining(&self) -> bool {
        self.stop.is_cancelled()
    }
}

/// Converts an input of any JSON type to an arguments object. Invalid JSON is left for argument
/// validation to reject.
fn normalize_input(input: Bytes) -> Bytes {
    if input.trim_ascii_start().starts_with(b"{") {
        return input;
    }
    let checked = Json::parse(input.clone(), JsonLimits::DOCUMENT);
    checked.map_or(input, |input| node_call_arguments(&input).bytes().clone())
}

fn apply_restrictions(
    state: &ServerState,
    principal: Principal,
    headers: &HeaderMap,
) -> Result<Principal, Status> {
    request_restrictions::restrict_from_request(state, principal, (headers, &Uri::default()))
        .map_err(|error| grpc_status(&error))
}

/// Authenticates by the credential, then applies the restrictions from the metadata.
async fn authenticate(state: &ServerState, headers: HeaderMap) -> Result<Principal, Status> {
    let credentials = RequestCredentials { headers: &headers, source: None };
    let now = state.components.clock.wall_now();
    let found = authentication::authenticate_request(state, credentials, None, now).await;
    apply_restrictions(state, found.map_err(|error| grpc_status(&error))?, &headers)
}

fn grpc_status(error: &ApiError) -> Status {
    let message = error.message().to_owned();
    match error.code() {
        ErrorCode::Unauthenticated => Status::unauthenticated(message),
        ErrorCode::Forbidden => Status::permission_denied(message),
        ErrorCode::InvalidRequest => Status::invalid_argument(message),
        _ => Status::unavailable(message),
    }
}

struct ProgressForwarder(ProgressSender);

impl ProgressSink for ProgressForwarder {
    fn report_progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        self.0.send_progress(done, total, message.unwrap_or_default());
    }
}

/// Converts a call's response. A failed call is an unsuccessful result, as the cluster tools define
/// it; a hidden tool looks like an unknown one.
fn to_call_result(name: &str, response: CallResponse) -> Result<FunctionResult, Status> {
    let call_id = ("call_id".to_owned(), response.call_id.to_string());
    let failed = |error: String| {
        Ok(FunctionResult {
            error,
            metadata: [call_id.clone()].into(),
            ..FunctionResult::default()
        })
    };
    match response.result {
        Ok(ExecutionState::Completed(outcome)) if outcome.is_error => {
            let (told, _) = to_plain_result(outcome);
            failed(told.decode::<String>().unwrap_or_else(|_| told.as_str().to_owned()))
        }
        Ok(ExecutionState::Completed(outcome)) => {
            let (output, _) = to_plain_result(outcome);
            let (output, error) = (output.bytes().clone(), String::new());
            Ok(FunctionResult { success: true, output, error, metadata: [call_id].into() })
        }
        Ok(ExecutionState::Pending(PendingReason::Approval(approval))) => {
            let call = PendingCall { id: response.call_id, approval: &approval };
            failed(pending_call::pending_message(call))
        }
        Ok(ExecutionState::Pending(_)) => failed(pending_call::INPUT_NOT_SUPPORTED.to_owned()),
        Err(CallFailure { code: ErrorCode::UnknownTool, .. }) => {
            failed(format!("Tool '{name}' not found."))
        }
        Err(CallFailure { code: ErrorCode::RateLimited | ErrorCode::Busy, message, .. }) => {
            Err(Status::resource_exhausted(message))
        }
        Err(CallFailure { code: ErrorCode::Timeout, message, .. }) => {
            Err(Status::deadline_exceeded(message))
        }
        Err(CallFailure {
            code: ErrorCode::ShuttingDown | ErrorCode::RecordUnavailable,
            message,
            ..
        }) => Err(Status::unavailable(message)),
        Err(failure) => failed(failure.message),
    }
}
