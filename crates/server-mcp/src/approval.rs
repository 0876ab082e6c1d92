//! Calls of MCP clients that are held for a person: how a client is told, and how it comes back.
//!
//! What a client answers is no approval. Only where the operator names its key does the gateway take its
//! word, and then the record says whose word it was.

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

/// The key of our one question.
const KEY: &str = "approval";
const METHOD: &str = "elicitation/create";

/// What a request has to do with approvals.
#[derive(Debug)]
pub(crate) struct Held {
    /// The call that it comes back for, with what the client answered.
    pub(crate) again: Option<(CallId, Option<Json>)>,
    /// The name by which the client calls this server.
    host: Option<HeaderValue>,
    /// The tool's own name.
    native: String,
}

impl Held {
    pub(crate) fn of(asked: &Asked<'_>, native: &str) -> Self {
        let host = asked.heads.all.get(http::header::HOST).cloned();
        Self { again: None, host, native: native.to_owned() }
    }

    /// Where a person is sent.
    fn page(&self, doors: &McpDoors, call: CallId) -> Option<String> {
        if let Some(page) = doors.page() {
            return Some(page.replace("{id}", &call.to_string()));
        }
        let host = self.host.as_ref()?.to_str().ok()?;
        Some(format!("http://{host}/approvals/{call}"))
    }

    /// Whether the tool promises a shape for its results, which a pending one has not.
    pub(crate) fn typed(&self, (doors, principal): (&McpDoors, &Principal)) -> bool {
        let view = doors.parts.gateway.view(principal, CallerType::Direct);
        view.find(&self.native).is_some_and(|(entry, _)| entry.tool.output.is_some())
    }

    /// The question that goes with a held call: the approval itself, where this client may give it, or a
    /// notice with the page where a person can.
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

    /// The same as 2026-07-28 has it: with the first answer only, so that nobody is asked twice.
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

/// A client comes back for its call; it is kept waiting for a while.
pub(crate) async fn again(
    doors: &McpDoors,
    principal: &Principal,
    (call, answers): (CallId, Option<Json>),
) -> Answer {
    let gateway = &doors.parts.gateway;
    let word = answers.and_then(|answers| agrees(&answers.get(KEY)?));
    if let Some(agrees) = word.filter(|_| gateway.client_confirms(principal)) {
        // Where a person was sooner, that counts.
        gateway.confirm((principal, Interface::Mcp), call, agrees).await.ok();
    }
    let wait = doors.parts.notices.poll;
    settled(doors, principal, (call, wait)).await
}

/// How a held call ended, or how it stands after a while.
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

/// Whether the client's answer to our question says yes, or no; nothing where it says neither.
fn agrees(answer: &Json) -> Option<bool> {
    let [action, content] = answer.pick(["action", "content"]);
    match action?.text()?.as_ref() {
        "accept" => content?.get("approve")?.read().ok(),
        "decline" => Some(false),
        _ => None,
    }
}

/// A held call of a client of the older era stays open for a while, and the client is shown where a person
/// can decide.
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
