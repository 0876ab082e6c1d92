//! Tool calls that wait for an approval: the messages to the client, and the resumption of the
//! call.
//!
//! A client's response does not approve a call, unless the operator configured the client's key to
//! confirm calls. The record then names the client as the approver.

use std::sync::Arc;

use http::HeaderValue;
use identity::Principal;
use serde_json::{Value, json};
use tool::call_outcome::{CallResponse, CallStatus};
use tool::executor::{ClientCapabilities, ClientRequester};
use tool::{CallId, CallerType, ExecutionState, Interface, Json, PendingReason};

use super::client_capabilities;
use super::request_context::RequestContext;
use crate::McpServerState;
use server_core::pending_call::{PendingCall, pending_message};

/// The key of the only input request that an approval makes.
const INPUT_REQUEST_KEY: &str = "approval";
const ELICITATION_METHOD: &str = "elicitation/create";

/// The client to which an elicitation about an approval goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ElicitationClient<'a> {
    pub(crate) state: &'a McpServerState,
    pub(crate) capabilities: &'a ClientCapabilities,
    /// Whether the operator lets this client approve its own calls.
    pub(crate) can_confirm: bool,
}

/// The approval data of a request: approval page, native tool name and the pending call that it
/// resumes.
#[derive(Debug)]
pub(crate) struct ApprovalContext {
    /// The pending call that the request resumes, with the client's input responses.
    pub(crate) resumed_call: Option<(CallId, Option<Json>)>,
    /// The host name that the client used for this server.
    host: Option<HeaderValue>,
    /// The native name of the tool.
    native_tool_name: String,
}

impl ApprovalContext {
    pub(crate) fn from_request(request: &RequestContext<'_>, native: &str) -> Self {
        let host = request.headers.map.get(http::header::HOST).cloned();
        Self { resumed_call: None, host, native_tool_name: native.to_owned() }
    }

    /// The address of the approval page for a call.
    fn approval_page(&self, state: &McpServerState, call: CallId) -> Option<String> {
        if let Some(page) = state.approval_page() {
            return Some(page.replace("{id}", &call.to_string()));
        }
        let host = self.host.as_ref()?.to_str().ok()?;
        Some(format!("http://{host}/approvals/{call}"))
    }

    /// Whether the tool declares an output schema, which a pending result does not satisfy.
    pub(crate) fn has_output_schema(
        &self,
        (state, principal): (&McpServerState, &Principal),
    ) -> bool {
        let view = state.components.gateway.view_for(principal, CallerType::Direct);
        view.find_tool(&self.native_tool_name)
            .is_some_and(|(entry, _)| entry.tool.output_schema.is_some())
    }

    /// The elicitation for a pending call: the approval itself, if this client may give it, or a
    /// message with the address of the approval page.
    pub(crate) fn elicitation(
        &self,
        client: ElicitationClient<'_>,
        call: PendingCall<'_>,
    ) -> Option<Json> {
        let PendingCall { id, approval } = call;
        let (form, url) = (json!({"mode": "form"}), json!({"mode": "url"}));
        let answers = |mode: &Value| {
            client_capabilities::supports_request(
                client.capabilities,
                ELICITATION_METHOD,
                &Json::encode(mode),
            )
        };
        if client.can_confirm && answers(&form) {
            let message = format!("{} Let call {id} run?", approval.reason);
            return Some(Json::encode(&json!({
                "mode": "form", "message": message,
                "requestedSchema": {
                    "type": "object",
                    "properties": {"approve": {"type": "boolean", "title": "Approve"}},
                    "required": ["approve"],
                },
            })));
        }
        let page = self.approval_page(client.state, id).filter(|_| answers(&url))?;
        Some(Json::encode(&json!({
            "mode": "url", "elicitationId": id.to_string(), "url": page,
            "message": pending_message(call),
        })))
    }

    /// The elicitation as an input request of protocol version 2026-07-28. It is sent with the
    /// first response only, so that nobody is asked twice.
    pub(crate) fn input_requests(
        &self,
        client: ElicitationClient<'_>,
        call: PendingCall<'_>,
    ) -> Option<Json> {
        let question = self.resumed_call.is_none().then(|| self.elicitation(client, call))??;
        let request = Json::encode(&json!({"method": ELICITATION_METHOD, "params": question}));
        Some(Json::object_from([(INPUT_REQUEST_KEY, &request)]))
    }
}

/// Resumes a pending call for its client and waits for its result for a limited time.
pub(crate) async fn resume_pending_call(
    state: &McpServerState,
    principal: &Principal,
    (call, answers): (CallId, Option<Json>),
) -> CallResponse {
    let gateway = &state.components.gateway;
    let word = answers.and_then(|answers| parse_decision(&answers.get(INPUT_REQUEST_KEY)?));
    if let Some(agrees) = word.filter(|_| gateway.allows_client_confirmation(principal)) {
        // An earlier decision of a person takes precedence.
        gateway.confirm_as_client((principal, Interface::Mcp), call, agrees).await.ok();
    }
    let wait = state.components.pending_call_options.poll_timeout;
    wait_for_result(state, principal, (call, wait)).await
}

/// Waits for the result of a pending call; returns its state if the time is over.
pub(crate) async fn wait_for_result(
    state: &McpServerState,
    principal: &Principal,
    (call, wait): (CallId, std::time::Duration),
) -> CallResponse {
    let wait = state.streams.allowed_wait(principal, wait);
    let answered = state.components.gateway.wait_for_result(principal, call, wait.duration).await;
    answered.unwrap_or_else(|failure| CallResponse {
        call_id: call,
        status: CallStatus::Refused,
        result: Err(failure),
        elapsed_ms: 0,
    })
}

/// Parses the client's decision from its response to the elicitation; `None` if it decides nothing.
fn parse_decision(answer: &Json) -> Option<bool> {
    let [action, content] = answer.pick(["action", "content"]);
    match action?.string_value()?.as_ref() {
        "accept" => content?.get("approve")?.decode().ok(),
        "decline" => Some(false),
        _ => None,
    }
}

/// Keeps a pending call of a handshake-era client open for a limited time, and sends the client the
/// address of the approval page.
pub(crate) async fn hold_open(
    (state, principal): (&McpServerState, &Principal),
    (context, capabilities, requester): (
        &ApprovalContext,
        &ClientCapabilities,
        Option<Arc<dyn ClientRequester>>,
    ),
    answer: CallResponse,
) -> CallResponse {
    let Ok(ExecutionState::Pending(PendingReason::Approval(approval))) = &answer.result else {
        return answer;
    };
    let (gateway, call) = (&state.components.gateway, answer.call_id);
    let confirms = gateway.allows_client_confirmation(principal);
    let client = ElicitationClient { state, capabilities, can_confirm: confirms };
    let question = context.elicitation(client, PendingCall { id: call, approval });
    let waiting = wait_for_result(
        state,
        principal,
        (call, state.components.pending_call_options.response_timeout),
    );
    let asking = async {
        let Some((requester, question)) = requester.zip(question) else { return };
        let answered =
            ClientRequester::send_request(requester.as_ref(), ELICITATION_METHOD, question).await;
        let word = answered.ok().and_then(|answer| parse_decision(&answer)).filter(|_| confirms);
        if let Some(agrees) = word {
            gateway.confirm_as_client((principal, Interface::Mcp), call, agrees).await.ok();
        }
    };
    tokio::pin!(waiting);
    tokio::select! {
        biased;
        answer = &mut waiting => answer,
        () = asking => waiting.await,
    }
}
