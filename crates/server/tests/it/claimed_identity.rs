//! Tests that only the credential identifies the caller: identity claims in requests change
//! nothing.

use serde_json::{Value, json};
use tool::PermissionLevel;

use crate::support::client::{message, modern_message};
use crate::support::{Client, FixtureServer, Reply};

/// Location of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimPlace {
    RestBody,
    Query,
    Header,
    Cookie,
    Arguments,
    McpMember,
    McpParams,
    McpMeta,
}

pub(crate) const PLACES: [ClaimPlace; 8] = [
    ClaimPlace::RestBody,
    ClaimPlace::Query,
    ClaimPlace::Header,
    ClaimPlace::Cookie,
    ClaimPlace::Arguments,
    ClaimPlace::McpMember,
    ClaimPlace::McpParams,
    ClaimPlace::McpMeta,
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

/// Result of a call at any interface: its error code, or that it ran.
fn call_outcome(reply: &Reply) -> String {
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
async fn claim(
    client: &Client,
    tool: &str,
    place: ClaimPlace,
    (field, value): (&str, &Value),
) -> Reply {
    let rest = json!({"tool": tool, "arguments": {}});
    let params = json!({"name": tool, "arguments": {}});
    let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    let pair = format!("{field}={text}");
    match place {
        ClaimPlace::RestBody => {
            let mut body = rest;
            body[field] = value.clone();
            client.post("/v1/calls", &body).await
        }
        ClaimPlace::Query => {
            client.with_query(&format!("?{}", escaped(&pair))).post("/v1/calls", &rest).await
        }
        ClaimPlace::Header => {
            let name = field.replace('_', "-").to_lowercase();
            client
                .with_header(&name, &text)
                .with_header(&format!("x-{name}"), &text)
                .post("/v1/calls", &rest)
                .await
        }
        ClaimPlace::Cookie => client.with_header("cookie", &pair).post("/v1/calls", &rest).await,
        ClaimPlace::Arguments => client.call_tool(tool, json!({ field: value })).await,
        ClaimPlace::McpMember => {
            let mut message = message("tools/call", params);
            message[field] = value.clone();
            client.legacy_request(&message).await
        }
        ClaimPlace::McpParams => {
            let mut params = params;
            params[field] = value.clone();
            client.legacy_request(&message("tools/call", params)).await
        }
        ClaimPlace::McpMeta => {
            let mut message = modern_message("tools/call", params);
            message["params"]["_meta"][field] = value.clone();
            client.modern_message(&message).await
        }
    }
}

/// Restrictions, which are accepted in the query and in the body of a call.
const NARROWS: [&str; 3] = ["read_only", "no_web", "task_type"];

/// Every decision with the claim is the decision without it, and the record names the key's own
/// subject and level.
pub(crate) async fn assert_ignored(
    server: &FixtureServer,
    guest: &Client,
    place: ClaimPlace,
    field: &str,
) {
    for value in [json!("owner"), json!(true), json!(["owner"])] {
        for (tool, without) in [
            ("needs.owner", "unknown_tool"),
            ("needs.guest", "ran"),
            ("dangerous", "approval_required"),
        ] {
            let reply = claim(guest, tool, place, (field, &value)).await;
            // Restrictions of a caller are parsed and must be valid; they grant nothing.
            let narrows = matches!(place, ClaimPlace::Query | ClaimPlace::RestBody)
                && NARROWS.contains(&field);
            let known = ["tool", "arguments", "timeout_ms"].contains(&field);
            let unread = if narrows {
                value != json!(true) || field == "task_type"
            } else {
                place == ClaimPlace::RestBody && !known
            };
            let expected = if unread { "refused as unreadable" } else { without };
            assert_eq!(call_outcome(&reply), expected, "{tool} {place:?} {field} = {value}");
        }
    }
    let mut callers = server.recorded_intents().into_iter().map(|intent| intent.caller);
    assert!(
        callers.all(
            |caller| (caller.subject.as_str(), caller.level) == ("eve", PermissionLevel::Guest)
        )
    );
    let mut callers = server.recorded_refusals().into_iter().map(|refusal| refusal.caller);
    assert!(
        callers.all(
            |caller| (caller.subject.as_str(), caller.level) == ("eve", PermissionLevel::Guest)
        )
    );
}

#[tokio::test]
async fn what_a_caller_says_of_himself_changes_nothing() {
    let server = FixtureServer::new().await;
    let guest = server.agent_client("eve", PermissionLevel::Guest).await;
    for place in PLACES {
        for field in FIELDS {
            assert_ignored(&server, &guest, place, field).await;
        }
    }
    // In all places but the one that is refused whole, the guest's tool ran each time.
    assert_eq!(server.recorded_intents().len(), (PLACES.len() - 1) * FIELDS.len() * 3);
}

/// Positive control: the same calls with a key that carries the level come out otherwise.
#[tokio::test]
async fn what_the_key_says_counts() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    for place in PLACES.into_iter().filter(|place| *place != ClaimPlace::RestBody) {
        let reply = claim(&owner, "needs.owner", place, ("level", &json!("guest"))).await;
        assert_eq!(call_outcome(&reply), "ran", "{place:?}");
    }
    assert!(server.recorded_intents().iter().all(|intent| intent.caller.subject == "owner"));
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
    let (address, stop, _) = crate::support::test_server::serve_on_free_port(naive).await;
    let client = Client::new(address);
    let claim = |value| {
        let client = client.clone();
        async move {
            call_outcome(
                &claim(&client, "needs.owner", ClaimPlace::RestBody, ("level", &value)).await,
            )
        }
    };
    assert_eq!(claim(json!("guest")).await, "unknown_tool");
    assert_eq!(claim(json!("owner")).await, "ran");
    stop.cancel();
}
