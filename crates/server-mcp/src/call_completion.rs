//! The completion of one call: runs it through the gateway and encodes its response.

use std::sync::Arc;

use gateway::CallRequest;
use http::StatusCode;
use identity::Principal;
use mcp::{ProtocolEra, RequestId, RpcError, error_codes};
use serde_json::json;
use tool::call::CallResumption;
use tool::call_outcome::{CallFailure, CallResponse, CallStatus};
use tool::executor::ClientCapabilities;
use tool::{ErrorCode, ExecutionState, Interface, Json, PendingReason};

use super::approvals::{self, ApprovalContext, ElicitationClient};
use super::client_capabilities;
use super::request_context::RequestContext;
use super::request_error::RequestError;
use super::request_state::{ResumableMethod, StateBinding};
use super::result_encoding::{EncodedResult, ResultEncoder, client_errors};
use super::tasks::CallTask;
use super::uri_rewriting::UriRewriter;
use crate::McpServerState;
use server_core::pending_call::{PendingCall, pending_message};

/// The data needed to run a call and encode its response.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent properties of one request")]
pub(crate) struct CallCompletion {
    pub(crate) state: McpServerState,
    principal: Principal,
    era: ProtocolEra,
    pub(crate) request_id: RequestId,
    client_tool_name: Option<String>,
    is_method: bool,
    is_single_source: bool,
    needs_cache_hints: bool,
    has_input_responses: bool,
    /// The schema that the client has not seen: the answer to arguments that do not fit it.
    pub(crate) deferred_schema: Option<Json>,
    pub(crate) capabilities: ClientCapabilities,
    /// The binding of a request state, if the client can resume the call.
    state_binding: Option<StateBinding>,
    /// The approval data of a tool call.
    approval: Option<ApprovalContext>,
    /// Rewrites URIs in results, if the client knows them by other names.
    pub(crate) uri_rewriter: Option<Box<UriRewriter>>,
    /// The task that the call can become, for a client that supports tasks.
    task: Option<Arc<CallTask>>,
}

impl CallCompletion {
    /// Creates the completion of a tool call from its native name and the client's name.
    pub(crate) fn for_tool(
        request: &RequestContext<'_>,
        (native, name): (&str, String),
        args: &Json,
    ) -> Self {
        let (endpoint, is_stateless) =
            (request.caller.endpoint, request.era == ProtocolEra::Stateless);
        let method = ResumableMethod::ToolsCall;
        let completion = Self {
            client_tool_name: endpoint.source().map(|_| name),
            state_binding: is_stateless.then(|| StateBinding::new(endpoint, method, native, args)),
            approval: Some(ApprovalContext::from_request(request, native)),
            ..Self::new(request)
        };
        let can_become_task = completion.capabilities.supports_tasks && is_stateless;
        let task = can_become_task.then(|| {
            let client_name = completion.client_tool_name.clone();
            request.caller.state.mcp_components.task_store.reserve_task(request, client_name)
        });
        Self { task, ..completion }
    }

    /// Creates the completion of the call of a task that this caller continues after a restart.
    pub(crate) fn for_continued_task(
        request: &RequestContext<'_>,
        principal: Principal,
        client_tool_name: Option<String>,
    ) -> Self {
        Self { principal, client_tool_name, ..Self::new(request) }
    }

    /// Creates the completion of a method call, which may request input only where MCP allows it.
    pub(crate) fn for_method(request: &RequestContext<'_>, args: &Json) -> Self {
        let is_stateless = request.era == ProtocolEra::Stateless;
        let method = ResumableMethod::parse(request.method).filter(|_| is_stateless);
        Self {
            is_method: true,
            needs_cache_hints: method == Some(ResumableMethod::ResourcesRead),
            state_binding: method
                .map(|method| StateBinding::new(request.caller.endpoint, method, "", args)),
            ..Self::new(request)
        }
    }

    fn new(request: &RequestContext<'_>) -> Self {
        Self {
            state: request.caller.state.clone(),
            principal: request.caller.principal.clone(),
            era: request.era,
            request_id: request.request_id.clone(),
            client_tool_name: None,
            is_method: false,
            is_single_source: request.caller.endpoint.source().is_some(),
            needs_cache_hints: false,
            has_input_responses: request.named_params.input_responses.is_some(),
            deferred_schema: None,
            capabilities: request.client_capabilities(),
            state_binding: None,
            approval: None,
            uri_rewriter: None,
            task: None,
        }
    }

    /// Opens the request state that this request resumes, if it has one. A pending approval is only
    /// referenced.
    pub(crate) async fn take_resumption(
        &mut self,
        request: &RequestContext<'_>,
    ) -> Result<Option<CallResumption>, RequestError> {
        let Some(binding) = &self.state_binding else { return Ok(None) };
        let request_states = &request.caller.state.mcp_components.request_states;
        let params = &request.named_params;
        let pending_call = request_states.open_approval_state(
            &self.principal,
            binding,
            params.request_state.as_ref(),
        )?;
        if let (Some(call), Some(approval)) = (pending_call, &mut self.approval) {
            approval.resumed_call = Some((call, params.input_responses.clone()));
            return Ok(None);
        }
        let resumed = (params.request_state.clone(), params.input_responses.clone());
        request_states.open_state(request.caller, binding, resumed).await
    }

    /// Runs the call and encodes its response. The call may become a task.
    pub(crate) async fn execute(mut self, request: Box<CallRequest>) -> EncodedResult {
        if let Some(task) = self.task.take() {
            return Box::pin(super::tasks::run_detachable(self, task, request)).await;
        }
        let answer = self.execute_call(request).await;
        self.encode_response(answer)
    }

    /// Runs the call. Code for pending calls is boxed, so that other calls do not carry its future.
    async fn execute_call(&self, request: Box<CallRequest>) -> CallResponse {
        let (state, principal) = (&self.state, &self.principal);
        if let Some(ApprovalContext { resumed_call: Some(resumed_call), .. }) = &self.approval {
            return Box::pin(approvals::resume_pending_call(
                state,
                principal,
                resumed_call.clone(),
            ))
            .await;
        }
        // A client of the older era can only call again. A call that equals a pending one, or one
        // whose result was not fetched yet, resumes that one.
        let can_wait = self.approval.as_ref().filter(|_| self.era == ProtocolEra::Handshake);
        let gateway = &state.components.gateway;
        let client_requests = can_wait.and_then(|_| request.client_requests.clone());
        let answer = if let Some(call) =
            can_wait.and_then(|_| gateway.find_unfetched_call(principal, &request))
        {
            let now = std::time::Duration::ZERO;
            Box::pin(approvals::wait_for_result(state, principal, (call, now))).await
        } else {
            let answer = gateway.call_tool(principal, request).await;
            state.metrics.observe_call(Interface::Mcp, &answer);
            answer
        };
        match can_wait {
            Some(approval)
                if matches!(
                    &answer.result,
                    Ok(ExecutionState::Pending(PendingReason::Approval(_)))
                ) =>
            {
                let client = (approval, &self.capabilities, client_requests);
                Box::pin(approvals::hold_open((state, principal), client, answer)).await
            }
            _ => answer,
        }
    }

    /// Runs the call for a task and returns its recorded status too. Separate, to keep the future
    /// of other calls small.
    pub(crate) async fn execute_for_task(
        mut self,
        request: Box<CallRequest>,
        task: Arc<CallTask>,
    ) -> (EncodedResult, CallStatus) {
        let answer = self.execute_call(request).await;
        let status = answer.status;
        // A task that ends with an error of the protocol has failed (SEP-2663), at each endpoint.
        self.is_single_source |= task.is_created();
        (self.encode_response(answer), status)
    }

    /// Writes URIs as the client knows them, and adds the schema that it has not seen to the answer
    /// to arguments that do not fit it.
    fn adapt_to_client(&self, answer: &mut CallResponse) {
        if let Some(rewriter) = &self.uri_rewriter {
            rewriter.rewrite_response(answer);
        }
        if let (Err(failure), Some(schema)) = (&mut answer.result, &self.deferred_schema)
            && failure.code == ErrorCode::InvalidArguments
        {
            failure.message.push_str("; the arguments must fit this schema: ");
            failure.message.push_str(schema.as_str());
        }
    }

    fn encode_response(self, answer: CallResponse) -> EncodedResult {
        let size = match &answer.result {
            Ok(ExecutionState::Completed(outcome)) => outcome.size_bytes(),
            _ => 0,
        };
        gateway::run_blocking_if_large(size, || self.encode_answer(answer))
    }

    fn encode_answer(self, mut answer: CallResponse) -> EncodedResult {
        self.adapt_to_client(&mut answer);
        let encoder = ResultEncoder {
            era: self.era,
            id: &self.request_id,
            client_tool_name: self.client_tool_name.as_deref(),
            is_single_source: self.is_single_source,
            needs_cache_hints: self.needs_cache_hints,
            client_errors: client_errors(self.era, &self.capabilities, self.has_input_responses),
        };
        let call = answer.call_id;
        let state = match if self.is_method {
            encoder.encode_method_result(answer)
        } else {
            encoder.encode_tool_result(answer)
        } {
            Ok(result) => return result,
            Err(state) => state,
        };
        let message = "the tool requests input, which this client does not support";
        match (state, &self.state_binding) {
            (
                ExecutionState::Pending(PendingReason::Input { input_requests, state }),
                Some(binding),
            ) => {
                if let Some((status, error)) =
                    missing_capability(&self.capabilities, &input_requests)
                {
                    return EncodedResult::error(&self.request_id, status, &error);
                }
                let request_states = &self.state.mcp_components.request_states;
                let now = self.state.components.clock.wall_now();
                let sealed =
                    request_states.seal_state(&self.principal, binding, (call, &state), now);
                match sealed {
                    Some(state) => {
                        let (kind, state) = (Json::encode("input_required"), Json::encode(&state));
                        encoder.encode_result(&Json::object_from([
                            ("resultType", &kind),
                            ("inputRequests", &input_requests),
                            ("requestState", &state),
                        ]))
                    }
                    None => encoder.encode_failure(
                        &CallFailure::new(
                            ErrorCode::Internal,
                            "the tool's input request cannot be stored",
                        ),
                        self.is_method,
                    ),
                }
            }
            (ExecutionState::Pending(PendingReason::Approval(approval)), binding) => {
                let call = PendingCall { id: call, approval: &approval };
                self.encode_pending_approval(encoder, binding.as_ref(), call)
            }
            _ => encoder.encode_failure(
                &CallFailure::new(ErrorCode::UpstreamFailed, message),
                self.is_method,
            ),
        }
    }

    /// Encodes a pending approval: as a request state to resume with, or as text.
    fn encode_pending_approval(
        &self,
        encoder: ResultEncoder<'_>,
        binding: Option<&StateBinding>,
        call: PendingCall<'_>,
    ) -> EncodedResult {
        let request_states = &self.state.mcp_components.request_states;
        let state = binding.and_then(|binding| {
            request_states.seal_approval_state(&self.principal, binding, call.id)
        });
        let Some(state) = state else {
            let caller = (&self.state, &self.principal);
            let has_schema =
                self.approval.as_ref().is_some_and(|context| context.has_output_schema(caller));
            let text = json!({"type": "text", "text": pending_message(call)});
            return encoder
                .encode_result(&Json::encode(&json!({"content": [text], "isError": has_schema})));
        };
        let (kind, state) = (Json::encode("input_required"), Json::encode(&state));
        let gateway = &self.state.components.gateway;
        let client = ElicitationClient {
            state: &self.state,
            capabilities: &self.capabilities,
            can_confirm: gateway.allows_client_confirmation(&self.principal),
        };
        let context = self.approval.as_ref();
        let requests = context.and_then(|context| context.input_requests(client, call));
        let result = Json::object_from([("resultType", &kind), ("requestState", &state)]);
        encoder.encode_result(&match requests {
            Some(requests) => result.with_member("inputRequests", &requests),
            None => result,
        })
    }
}

/// Returns the error for the first input request that the client did not declare support for.
fn missing_capability(
    capabilities: &ClientCapabilities,
    requests: &Json,
) -> Option<(StatusCode, RpcError)> {
    let unanswerable = requests.members().into_iter().find_map(|(_, question)| {
        let [method, params] = question.pick(["method", "params"]);
        let method: String = method.and_then(|method| method.decode().ok()).unwrap_or_default();
        let params = params.unwrap_or_else(Json::empty_object);
        (!client_capabilities::supports_request(capabilities, &method, &params)).then_some(method)
    });
    let method = unanswerable?;
    let Some(needed) = client_capabilities::required_capability(&method) else {
        let message = "the tool requests input of a kind that no client supports";
        return Some((StatusCode::OK, RpcError::new(error_codes::INTERNAL_ERROR, message)));
    };
    let message = format!(
        "the tool requests input through `{method}`; declare the capability \
        `{needed}`"
    );
    let empty = Json::empty_object();
    let data =
        Json::object_from([("requiredCapabilities", &Json::object_from([(needed, &empty)]))]);
    let error =
        RpcError { data: Some(data), ..RpcError::new(error_codes::MISSING_CAPABILITY, message) };
    Some((StatusCode::BAD_REQUEST, error))
}
