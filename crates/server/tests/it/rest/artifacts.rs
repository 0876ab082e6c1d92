//! Tests of results that are too large to return inline.

use std::sync::Arc;
use std::time::Duration;

use gateway::GatewayOptions;
use serde_json::{Value, json};
use store::{ArtifactLimits, FileArtifactStore};
use testkit::clock::FakeClock;
use testkit::executor::MockExecutor;
use tool::{ExecutionState, Json, Offer, Outcome, OutcomeBody, PermissionLevel};

use crate::support::{FixtureServer, ServerSetup, tools};

/// Says a secret and much more, as a value or as an MCP server does.
fn says(name: &str, mcp: bool) -> Offer {
    let secret = format!("ghp_{} ", "a".repeat(36));
    let text = secret + &"0123456789".repeat(1_000);
    let script = move |_| {
        let body = if mcp {
            OutcomeBody::Mcp(Json::encode(&json!({"content": [{"type": "text", "text": text}]})))
        } else {
            OutcomeBody::Value(Json::encode(&text))
        };
        Ok(ExecutionState::Completed(Outcome { body, is_error: false }))
    };
    tools::tool_offer(tools::test_tool(name), Arc::new(MockExecutor::new(script)))
}

async fn server(dir: &std::path::Path, clock: Arc<FakeClock>) -> FixtureServer {
    let artefacts =
        FileArtifactStore::open_directory(dir, ArtifactLimits::default(), clock).unwrap();
    let setup = ServerSetup {
        offers: vec![says("value", false), says("mcp", true)],
        options: GatewayOptions { max_result_bytes: 4_096, ..GatewayOptions::default() },
        artifacts: Some(Arc::new(artefacts)),
        ..ServerSetup::default()
    };
    FixtureServer::with_setup(setup).await
}

#[tokio::test]
async fn a_large_answer_is_a_preview_and_a_handle_for_its_caller_alone() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(FakeClock::default()));
    let server = server(dir.path(), Arc::clone(&clock)).await;
    let (ann, bob) = (
        server.agent_client("ann", PermissionLevel::User).await,
        server.agent_client("bob", PermissionLevel::Owner).await,
    );
    let answer = ann.call_tool("value", json!({})).await.expect_ok();
    assert_eq!(answer["status"], "succeeded");
    let result = &answer["result"];
    let id = result["artefact"]["id"].as_str().unwrap();
    assert!(result["preview"].as_str().unwrap().starts_with("\"[REDACTED:github_pat] 0123"));
    let path = format!("/v1/artefacts/{id}");
    let whole = ann.get(&path).await;
    assert_eq!(whole.text().len() as u64, result["artefact"]["bytes"].as_u64().unwrap());
    assert!(whole.text().ends_with("789\"") && !whole.text().contains("ghp_"));
    assert_eq!(whole.header("cache-control"), Some("private, no-store"));
    let part = ann.with_header("range", "bytes=1-10").get(&path).await;
    assert_eq!((part.status.as_u16(), part.text()), (206, "[REDACTED:"));
    let of = format!("bytes 1-10/{}", whole.text().len());
    assert_eq!(part.header("content-range"), Some(of.as_str()));
    let past = ann.with_header("range", "bytes=900000-").get(&path).await;
    assert_eq!(past.status, 416);
    // Another's, unknown and over are one answer.
    let missing = bob.get(&path).await;
    let told = missing.error();
    assert_eq!((told.0, told.1.as_str()), (404, "not_found"));
    assert_eq!(ann.get("/v1/artefacts/art_00").await.error(), told);
    assert_eq!(server.keyless_client().get(&path).await.status, 401);
    clock.advance(Duration::from_hours(1));
    assert_eq!(ann.get(&path).await.error(), told);
}

#[tokio::test]
async fn an_mcp_answer_stays_one() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(FakeClock::default()));
    let server = server(dir.path(), clock).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let params = json!({"name": "mcp", "arguments": {}});
    let result =
        ann.modern_request("tools/call", params).await.messages().remove(0)["result"].take();
    let id = result["_meta"]["toolkeep/artefact"]["id"].as_str().unwrap();
    assert!(result["content"][1]["text"].as_str().unwrap().contains(id), "{result}");
    let whole: Value = ann.get(&format!("/v1/artefacts/{id}")).await.expect_ok();
    assert!(whole["content"][0]["text"].as_str().unwrap().ends_with("789"));
}

/// Checks a result of MCP as the SDKs do: one that is no error has structured content, which fits.
fn check_result(result: &Value) -> Result<(), String> {
    match (&result["isError"], &result["structuredContent"]["letters"]) {
        (Value::Bool(true), _) | (_, Value::String(_)) => Ok(()),
        _ => Err(format!("has an output schema but no structured content that fits: {result}")),
    }
}

/// Answers with `n` letters, as a value or as an MCP server that writes them twice.
fn schemed(name: &str, mcp: bool) -> Offer {
    let schema = json!({"type": "object", "required": ["letters"],
        "properties": {"letters": {"type": "string"}}});
    let script = move |args: Json| {
        let n = usize::try_from(args.to_value()["n"].as_u64().unwrap()).unwrap();
        let value = json!({"letters": "x".repeat(n)});
        let body = if mcp {
            let text = value.to_string();
            OutcomeBody::Mcp(Json::encode(&json!({"content": [{"type": "text", "text": text}],
                "structuredContent": value})))
        } else {
            OutcomeBody::Value(Json::encode(&value))
        };
        Ok(ExecutionState::Completed(Outcome { body, is_error: false }))
    };
    let mut tool =
        testkit::read_only_tool(name, "Answers with letters.", &json!({"type": "object"}));
    tool.output_schema = Some(Json::encode(&schema));
    tools::tool_offer(tool, Arc::new(MockExecutor::new(script)))
}

#[tokio::test]
async fn a_large_answer_of_a_tool_with_an_output_schema_is_a_valid_result() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(FakeClock::default()));
    let artefacts =
        FileArtifactStore::open_directory(dir.path(), ArtifactLimits::default(), clock).unwrap();
    let setup = ServerSetup {
        offers: vec![schemed("value", false), schemed("mcp", true)],
        options: GatewayOptions { max_result_bytes: 128 << 10, ..GatewayOptions::default() },
        artifacts: Some(Arc::new(artefacts)),
        ..ServerSetup::default()
    };
    let server = FixtureServer::with_setup(setup).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    // Whole, above the limit with both copies and below it with one, and above it with one.
    for (tool, n, is_error, is_whole) in [
        ("value", 1_000, false, true),
        ("value", 200_000, true, false),
        ("mcp", 1_000, false, true),
        ("mcp", 80_000, false, true),
        ("mcp", 200_000, true, false),
    ] {
        let params = json!({"name": tool, "arguments": {"n": n}});
        let result =
            ann.modern_request("tools/call", params).await.messages().remove(0)["result"].take();
        check_result(&result).unwrap_or_else(|told| panic!("{tool} {n}: {told}"));
        assert_eq!(result["isError"] == true, is_error, "{tool} {n}");
        let letters = result["structuredContent"]["letters"].as_str().map(str::len);
        assert_eq!(letters, is_whole.then_some(n), "{tool} {n}");
        // The call succeeded, as REST states; its result has the location of the rest.
        let answer = ann.call_tool(tool, json!({"n": n})).await.expect_ok();
        assert_eq!((&answer["status"], &answer["is_error"]), (&json!("succeeded"), &json!(false)));
        if is_whole {
            assert_eq!(answer["result"]["letters"].as_str().map(str::len), Some(n), "{tool} {n}");
            continue;
        }
        let told = result["content"][1]["text"].as_str().unwrap();
        assert!(told.contains("the tool ran and succeeded") && told.contains("131072"), "{told}");
        let id = answer["result"]["artefact"]["id"].as_str().unwrap();
        let whole: Value = ann.get(&format!("/v1/artefacts/{id}")).await.expect_ok();
        let whole = if tool == "mcp" { &whole["structuredContent"] } else { &whole };
        assert_eq!(whole["letters"].as_str().map(str::len), Some(n), "{tool} {n}");
        // The control: without the flag the check that the SDKs make fails.
        let mut unflagged = result.clone();
        unflagged["isError"] = json!(false);
        assert!(check_result(&unflagged).is_err());
    }
}
