//! Questions of a server to the client at the other end of a call.

use ::mcp::{RpcError, code};
use tool::Json;
use tool::executor::{Ask, ClientCan, Unanswered};

/// The questions that are passed on, each with the capability that a client declares for it.
const QUESTIONS: [(&str, &str); 3] = [
    ("elicitation/create", "elicitation"),
    ("sampling/createMessage", "sampling"),
    ("roots/list", "roots"),
];

/// Whether a question is one for clients.
pub(super) fn is_passed_on(method: &str) -> bool {
    QUESTIONS.iter().any(|(asked, _)| *asked == method)
}

/// Whether the client said that it answers such a question.
pub(super) fn can_answer(client: &ClientCan, method: &str) -> bool {
    let Some((_, capability)) = QUESTIONS.iter().find(|(asked, _)| *asked == method) else {
        return false;
    };
    match &client.declared {
        Some(declared) => declared.get(capability).is_some_and(|said| said.kind() == "object"),
        None => said(client, capability),
    }
}

fn said(client: &ClientCan, capability: &str) -> bool {
    match capability {
        "elicitation" => client.elicit,
        "sampling" => client.sample,
        _ => client.roots,
    }
}

/// What a client of 2026-07-28 is told that did not declare what it would have to be asked.
pub(super) fn undeclared(method: &str) -> RpcError {
    let needed = QUESTIONS.iter().find(|(asked, _)| *asked == method);
    let needed = needed.map_or("", |(_, capability)| capability);
    let told = format!("the server asks through `{method}`; declare the capability `{needed}`");
    let data = serde_json::json!({"requiredCapabilities": {needed: {}}});
    RpcError { data: Some(Json::of(&data)), ..RpcError::new(code::MISSING_CAPABILITY, told) }
}

/// What a server of 2026-07-28 is told of the client: what can be passed on, in the client's own words.
pub(super) fn relayed(client: &ClientCan) -> Json {
    let empty = Json::empty();
    let names = QUESTIONS.map(|(_, capability)| capability);
    let told = match &client.declared {
        Some(declared) => declared.pick(names),
        None => names.map(|name| said(client, name).then(|| empty.clone())),
    };
    let told: Vec<_> =
        names.into_iter().zip(told).filter_map(|(name, said)| Some((name, said?))).collect();
    Json::fields(told.iter().map(|(name, said)| (*name, said)))
}

/// Asks; a client that refuses or is gone is an error for the server.
pub(super) async fn ask(
    client: &dyn Ask,
    method: &str,
    params: Option<&Json>,
) -> Result<Json, RpcError> {
    let params = params.cloned().unwrap_or_else(Json::empty);
    client.ask(method, params).await.map_err(|why| match why {
        Unanswered::Refused { code, message } => RpcError::new(code, message),
        Unanswered::Gone => RpcError::new(code::INTERNAL_ERROR, why.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::Json;
    use tool::executor::ClientCan;

    use super::{can_answer, relayed};

    #[test]
    fn a_client_is_told_of_in_its_own_words() {
        let declared =
            json!({"roots": {"listChanged": true}, "odd": {}, "elicitation": {"url": {}}});
        let client = ClientCan { declared: Some(Json::of(&declared)), ..ClientCan::default() };
        let told = relayed(&client);
        assert_eq!(told.as_str(), r#"{"elicitation":{"url":{}},"roots":{"listChanged":true}}"#);
        assert!(can_answer(&client, "elicitation/create") && can_answer(&client, "roots/list"));
        assert!(!can_answer(&client, "sampling/createMessage") && !can_answer(&client, "ping"));

        let client = ClientCan { sample: true, ..ClientCan::default() };
        assert_eq!(relayed(&client).as_str(), r#"{"sampling":{}}"#);
        assert!(can_answer(&client, "sampling/createMessage"));
        assert_eq!(relayed(&ClientCan::default()).as_str(), "{}");
    }
}
