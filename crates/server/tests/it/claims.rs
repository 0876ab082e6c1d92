//! Who asks is the credential's to say: what a caller writes of himself changes nothing.

use serde_json::{Value, json};
use tool::Level;

use crate::support::client::{message, modern_message};
use crate::support::{Client, Reply, Server};

/// Where a claim can stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    RestBody,
    Query,
    Header,
    Cookie,
    Arguments,
    McpMember,
    McpParams,
    McpMeta,
}

pub(crate) const PLACES: [Place; 8] = [
    Place::RestBody,
    Place::Query,
    Place::Header,
    Place::Cookie,
    Place::Arguments,
    Place::McpMember,
    Place::McpParams,
    Place::McpMeta,
];

const FIELDS: [&str; 20] = [
    "user_id",
    "userId",
    "user",
    "subject",
    "sub",
    "role",
    "roles",
    "level",
    "org",
    "org_id",
    "permission",
    "user_permission",
    "permissions",
    "persona",
    "allowed_modules",
    "agent",
    "is_admin",
    "on_behalf_of",
    "approved",
    "caller_type",
];

/// What came of a call, whatever the door: its code, or that it ran.
fn came_to(reply: &Reply) -> String {
    let body = reply.messages().remove(0);
    let code = body["error"]["code"].clone();
    let text = body["result"]["content"][0]["text"].as_str().unwrap_or_default();
    match (code.as_str(), code.as_i64()) {
        (Some("invalid_request"), _) => "refused as unreadable".to_owned(),
        (Some(code), _) => code.to_owned(),
        (None, Some(-32_602)) => "unknown_tool".to_owned(),
        (None, Some(other)) => other.to_string(),
        (None, None) if body["result"]["isError"] == true => {
            text.split(':').next().unwrap().to_owned()
        }
        (None, None) => "ran".to_owned(),
    }
}

/// With everything escaped that a query cannot hold.
fn escaped(pair: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'=' | b'_' | b'-');
    let byte = |b: u8| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") };
    pair.bytes().map(byte).collect()
}

/// A call of `tool` in which `field` claims `value`.
async fn claim(client: &Client, tool: &str, place: Place, (field, value): (&str, &Value)) -> Reply {
    let rest = json!({"tool": tool, "arguments": {}});
    let params = json!({"name": tool, "arguments": {}});
    let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    let pair = format!("{field}={text}");
    match place {
        Place::RestBody => {
            let mut body = rest;
            body[field] = value.clone();
            client.post("/v1/calls", &body).await
        }
        Place::Query => {
            client.query(&format!("?{}", escaped(&pair))).post("/v1/calls", &rest).await
        }
        Place::Header => {
            let name = field.replace('_', "-").to_lowercase();
            client
                .with(&name, &text)
                .with(&format!("x-{name}"), &text)
                .post("/v1/calls", &rest)
                .await
        }
        Place::Cookie => client.with("cookie", &pair).post("/v1/calls", &rest).await,
        Place::Arguments => client.call(tool, json!({ field: value })).await,
        Place::McpMember => {
            let mut message = message("tools/call", params);
            message[field] = value.clone();
            client.legacy(&message).await
        }
        Place::McpParams => {
            let mut params = params;
            params[field] = value.clone();
            client.legacy(&message("tools/call", params)).await
        }
        Place::McpMeta => {
            let mut message = modern_message("tools/call", params);
            message["params"]["_meta"][field] = value.clone();
            client.modern_message(&message).await
        }
    }
}

/// What narrows, and is read in a query and in the body of a call.
const NARROWS: [&str; 3] = ["read_only", "no_web", "task_type"];

/// Every decision with the claim is the decision without it, and the record names the key's own
/// subject and level.
pub(crate) async fn changes_nothing(server: &Server, guest: &Client, place: Place, field: &str) {
    for value in [json!("owner"), json!(true), json!(["owner"])] {
        for (tool, without) in [
            ("needs.owner", "unknown_tool"),
            ("needs.guest", "ran"),
            ("dangerous", "approval_required"),
        ] {
            let reply = claim(guest, tool, place, (field, &value)).await;
            // What a caller may take from itself is read, and must be readable; it gives nothing.
            let narrows =
                matches!(place, Place::Query | Place::RestBody) && NARROWS.contains(&field);
            let known = ["tool", "arguments", "timeout_ms"].contains(&field);
            let unread = if narrows {
                value != json!(true) || field == "task_type"
            } else {
                place == Place::RestBody && !known
            };
            let expected = if unread { "refused as unreadable" } else { without };
            assert_eq!(came_to(&reply), expected, "{tool} {place:?} {field} = {value}");
        }
    }
    let mut callers = server.intents().into_iter().map(|intent| intent.caller);
    assert!(callers.all(|caller| (caller.subject.as_str(), caller.level) == ("eve", Level::Guest)));
    let mut callers = server.refusals().into_iter().map(|refusal| refusal.caller);
    assert!(callers.all(|caller| (caller.subject.as_str(), caller.level) == ("eve", Level::Guest)));
}

#[tokio::test]
async fn what_a_caller_says_of_himself_changes_nothing() {
    let server = Server::new().await;
    let guest = server.agent("eve", Level::Guest).await;
    for place in PLACES {
        for field in FIELDS {
            changes_nothing(&server, &guest, place, field).await;
        }
    }
    // In all places but the one that is refused whole, the guest's tool ran each time.
    assert_eq!(server.intents().len(), (PLACES.len() - 1) * FIELDS.len() * 3);
}

/// Positive control: the same calls with a key that carries the level come out otherwise.
#[tokio::test]
async fn what_the_key_says_counts() {
    let server = Server::new().await;
    let owner = server.owner().await;
    for place in PLACES.into_iter().filter(|place| *place != Place::RestBody) {
        let reply = claim(&owner, "needs.owner", place, ("level", &json!("guest"))).await;
        assert_eq!(came_to(&reply), "ran", "{place:?}");
    }
    assert!(server.intents().iter().all(|intent| intent.caller.subject == "owner"));
}

/// Positive control: a naive server that believes the body lets the same claim through.
#[tokio::test]
async fn a_server_that_believes_the_body_would_be_fooled() {
    let naive = axum::Router::new().route(
        "/v1/calls",
        axum::routing::post(|axum::Json(body): axum::Json<Value>| async move {
            let level = body["level"].as_str().unwrap_or("guest");
            let ran = json!({"result": "ran"});
            let unknown = json!({"error": {"code": "unknown_tool"}});
            axum::Json(if level == "owner" { ran } else { unknown })
        }),
    );
    let (address, stop, _) = crate::support::bench::listen(naive).await;
    let client = Client::new(address);
    let claim = |value| {
        let client = client.clone();
        async move { came_to(&claim(&client, "needs.owner", Place::RestBody, ("level", &value)).await) }
    };
    assert_eq!(claim(json!("guest")).await, "unknown_tool");
    assert_eq!(claim(json!("owner")).await, "ran");
    stop.cancel();
}
