//! Tool calls that wait for an approval: what the client is told and how it resumes the call.
//!
//! A client's response does not approve a call, unless the operator configured the client's key to
//! confirm calls. The record then names the client as the approver.

use std::sync::Arc;

use http::HeaderValue;
use identity::Principal;
use serde_json::{Value, json};
use tool::executor::{Approval, Ask, ClientCan};
use tool::outcome::{Answer, Status};
use tool::{CallId, CallerType, Interface, Json, Step, Wait};

use super::asked::Asked;
use super::client;
use crate::McpDoors;
use server_core::held::sentence;

/// The key of the only input request that an approval makes.
const KEY: &str = "approval";
const METHOD: &str = "elicitation/create";

/// The approval data of a request: approval page, native tool name and the pending call that it
/// resumes.
#[derive(Debug)]
pub(crate) struct Held {
    /// The pending call that the request resumes, with the client's input responses.
    pub(crate) again: Option<(CallId, Option<Json>)>,
    /// The host name that the client used for this server.
    host: Option<HeaderValue>,
    /// The native name of the tool.
    native: String,
}

impl Held {
    pub(crate) fn of(asked: &Asked<'_>, native: &str) -> Self {
        let host = asked.heads.all.get(http::header::HOST).cloned();
        Self { again: None, host, native: native.to_owned() }
    }

    /// The address of the approval page for a call.
    fn page(&self, doors: &McpDoors, call: CallId) -> Option<String> {
        if let Some(page) = doors.page() {
            return Some(page.replace("{id}", &call.to_string()));
        }
        let host = self.host.as_ref()?.to_str().ok()?;
        Some(format!("http://{host}/approvals/{call}"))
    }

    /// Whether the tool declares an output schema, which a pending result does not satisfy.
    pub(crate) fn typed(&self, (doors, principal): (&McpDoors, &Principal)) -> bool {
        let view = doors.parts.gateway.view(principal, CallerType::Direct);
        view.find(&self.native).is_some_and(|(entry, _)| entry.tool.output.is_some())
    }

    /// The elicitation for a pending call: the approval itself, if this client may give it, or a
    /// message with the address of the approval page.
    pub(crate) fn question(
        &self,
        (doors, can, confirms): (&McpDoors, &ClientCan, bool),
        (call, approval): (CallId, &Approval),
    ) -> Option<Json> {
        let (form, url) = (json!({"mode": "form"}), json!({"mode": "url"}));
        let answers = |mode: &Value| client::answers(can, METHOD, &Json::of(mode));
        if confirms && answers(&form) {
            let told = format!("{} Let call {call} run?", approval.reason);
            return Some(Json::of(&json!({
                "mode": "form", "message": told,
                "requestedSchema": {
                    "type": "object",
                    "properties": {"approve": {"type": "boolean", "title": "Approve"}},
                    "required": ["approve"],
                },
            })));
        }
        let page = self.page(doors, call).filter(|_| answers(&url))?;
        Some(Json::of(&json!({
            "mode": "url", "elicitationId": call.to_string(), "url": page,
            "message": sentence(call, approval),
        })))
    }

    /// The elicitation as an input request of protocol version 2026-07-28. It is sent with the
    /// first response only, so that nobody is asked twice.
    pub(crate) fn requests(
        &self,
        client: (&McpDoors, &ClientCan, bool),
        held: (CallId, &Approval),
    ) -> Option<Json> {
        let question = self.again.is_none().then(|| self.question(client, held))??;
        let request = Json::of(&json!({"method": METHOD, "params": question}));
        Some(Json::fields([(KEY, &request)]))
    }
}

/// Resumes a pending call for its client and waits for its result for a limited time.
pub(crate) async fn again(
    doors: &McpDoors,
    principal: &Principal,
    (call, answers): (CallId, Option<Json>),
) -> Answer {
    let gateway = &doors.parts.gateway;
    let word = answers.and_then(|answers| agrees(&answers.get(KEY)?));
    if let Some(agrees) = word.filter(|_| gateway.client_confirms(principal)) {
        // An earlier decision of a person takes precedence.
        gateway.confirm((principal, Interface::Mcp), call, agrees).await.ok();
    }
    let wait = doors.parts.notices.poll;
    settled(doors, principal, (call, wait)).await
}

/// Waits for the result of a pending call; returns its state if the time is over.
pub(crate) async fn settled(
    doors: &McpDoors,
    principal: &Principal,
    (call, wait): (CallId, std::time::Duration),
) -> Answer {
    let wait = doors.streams.allowed_wait(principal, wait);
    let answered = doors.parts.gateway.settled(principal, call, wait.time).await;
    answered.unwrap_or_else(|failure| Answer {
        call,
        status: Status::Refused,
        result: Err(failure),
        elapsed_ms: 0,
    })
}

/// Parses the client's decision from its response to the elicitation; `None` if it decides nothing.
fn agrees(answer: &Json) -> Option<bool> {
    let [action, content] = answer.pick(["action", "content"]);
    match action?.text()?.as_ref() {
        "accept" => content?.get("approve")?.read().ok(),
        "decline" => Some(false),
        _ => None,
    }
}

/// Keeps a pending call of a handshake-era client open for a limited time, and sends the client the
/// address of the approval page.
pub(crate) async fn patiently(
    (doors, principal): (&McpDoors, &Principal),
    (held, can, ask): (&Held, &ClientCan, Option<Arc<dyn Ask>>),
    answer: Answer,
) -> Answer {
    let Ok(Step::Wait(Wait::Approval(approval))) = &answer.result else { return answer };
    let (gateway, call) = (&doors.parts.gateway, answer.call);
    let confirms = gateway.client_confirms(principal);
    let question = held.question((doors, can, confirms), (call, approval));
    let waiting = settled(doors, principal, (call, doors.parts.notices.open));
    let asking = async {
        let Some((ask, question)) = ask.zip(question) else { return };
        let answered = Ask::ask(ask.as_ref(), METHOD, question).await;
        let word = answered.ok().and_then(|answer| agrees(&answer)).filter(|_| confirms);
        if let Some(agrees) = word {
            gateway.confirm((principal, Interface::Mcp), call, agrees).await.ok();
        }
    };
    tokio::pin!(waiting);
    tokio::select! {
        biased;
        answer = &mut waiting => answer,
        () = asking => waiting.await,
    }
}
