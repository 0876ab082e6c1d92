//! Tests of the family `approvals` of `authz_cases`: only approved calls run, once, with the
//! approved bytes.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::shared_data::read_rows;
use tool::PermissionLevel;

use crate::approvals::ApprovalServer;
use crate::grpc::{call_with_claims, connect_grpc};
use crate::support::client::{message, modern_message};
use crate::support::tools;

/// Result of a case.
enum AttackOutcome {
    /// Executions with unapproved arguments, and all executions.
    To { foreign: usize, ran: usize },
    /// Not applicable here, with the test that covers it or the reason.
    Elsewhere(&'static str),
}

/// The requested arguments; any other execution is foreign.
const ARGS: &str = r#"{"n":1}"#;

fn args() -> Value {
    serde_json::from_str(ARGS).unwrap()
}

async fn modern(bench: &ApprovalServer, name: &str, args: Value, state: Option<Value>) -> Value {
    let mut params = json!({"name": name, "arguments": args});
    if let Some(state) = state {
        params["requestState"] = state;
    }
    bench.agent.modern_message(&modern_message("tools/call", params)).await.json()
}

/// A call through MCP that is held: its state and its id.
async fn pending_state(bench: &ApprovalServer) -> (Value, String) {
    let held = modern(bench, "rm", args(), None).await;
    (held["result"]["requestState"].clone(), bench.wait_for_pending().await)
}

/// Approves it, and comes back with the state for this tool and these arguments instead.
async fn misuse_state(bench: &ApprovalServer, name: &str, other: Value) -> Value {
    let (state, _) = pending_state(bench).await;
    let answer = modern(bench, name, other, Some(state)).await;
    assert!(answer.get("error").is_some(), "{answer}");
    answer
}

async fn resume(bench: &ApprovalServer, id: &str) -> u16 {
    let path = format!("/v1/calls/{id}/resume?wait=30s");
    bench.agent.post(&path, &json!({})).await.status.as_u16()
}

#[expect(
    clippy::too_many_lines,
    clippy::cognitive_complexity,
    reason = "a table: each arm is a case"
)]
async fn run_case(name: &str) -> AttackOutcome {
    let bench = ApprovalServer::new().await;
    match name {
        "args changed after approval" => drop(misuse_state(&bench, "rm", json!({"n": 2})).await),
        "extra unknown argument added" => {
            drop(misuse_state(&bench, "rm", json!({"n": 1, "force": true})).await);
        }
        "tool changed after approval" => drop(misuse_state(&bench, "ls", args()).await),
        "approval for module.tool used for module2.tool" => {
            drop(misuse_state(&bench, "m2.rm", args()).await);
        }
        "alias of the approved tool" => drop(misuse_state(&bench, "m2_rm", args()).await),
        "approval token truncated / extended" => {
            let (state, _) = pending_state(&bench).await;
            let state = state.as_str().unwrap();
            let (short, late) = (state.chars().skip(1).collect(), state.chars().rev().skip(1));
            let cut: String = late.collect::<Vec<_>>().into_iter().rev().collect();
            for bent in [short, cut, format!("{state}{state}"), String::new()] {
                modern(&bench, "rm", args(), Some(json!(bent))).await;
            }
        }
        "args equal but other JSON text (key order, 1 vs 1.0, unicode escapes)" => {
            let (state, id) = pending_state(&bench).await;
            bench.decide(&id, "approve", json!({})).await;
            assert_eq!(resume(&bench, &id).await, 200);
            for text in [r#"{"\u006e":1}"#, r#"{ "n" : 1.0 }"#, r#"{"n":1e0}"#] {
                let args: Box<serde_json::value::RawValue> = serde_json::from_str(text).unwrap();
                modern(&bench, "rm", json!(args), Some(state.clone())).await;
            }
        }
        "tool definition version changed" => {
            let id = bench.pending_call(args()).await;
            let changed = tools::tool_with("rm", |tool| {
                tool.traits.safety = tool::SafetyLevel::Dangerous;
                tool.raw_definition = tool::Json::encode("another");
            });
            bench
                .server
                .replace_offers(vec![tools::tool_offer(changed, bench.ran.clone() as _)])
                .await;
            bench.decide(&id, "approve", json!({})).await;
            assert_eq!(resume(&bench, &id).await, 409);
        }
        "org changed" | "approval by a role below the tool's need" => {
            let foreign = name == "org changed";
            let needs = tools::tool_with("rm", |tool| {
                (tool.traits.safety, tool.traits.min_level) =
                    (tool::SafetyLevel::Dangerous, PermissionLevel::User);
            });
            bench
                .server
                .replace_offers(vec![tools::tool_offer(needs, bench.ran.clone() as _)])
                .await;
            let id = bench.pending_call(args()).await;
            let approver = bench.server.client_with(|key| {
                (key.is_agent, key.subject, key.level) =
                    (false, "eve".to_owned(), PermissionLevel::Guest);
                key.rights = [identity::Right::Approve].into();
                if foreign {
                    (key.level, key.org) =
                        (PermissionLevel::Owner, tool::Org::new("other").unwrap());
                }
            });
            let path = format!("/v1/approvals/{id}/approve");
            let refused = approver.await.post(&path, &json!({})).await.status;
            assert_eq!(refused, 404, "the tool, and so the call, is not there for it");
        }
        "session changed" => {
            let ask = |args: Value| message("tools/call", json!({"name": "rm", "arguments": args}));
            let one = bench.agent.open_session(json!({})).await;
            one.legacy_request(&ask(args())).await;
            let id = bench.wait_for_pending().await;
            bench.decide(&id, "approve", json!({})).await;
            let two = bench.agent.open_session(json!({})).await;
            two.legacy_request(&ask(json!({"n": 3}))).await;
            two.legacy_request(&ask(args())).await;
        }
        "clock stepped back 1 h" => {
            let id = bench.pending_call(args()).await;
            bench.server.clock.advance(Duration::from_mins(11));
            bench.server.clock.step_back(Duration::from_hours(1));
            let path = format!("/v1/approvals/{id}/approve");
            assert_eq!(bench.owner.post(&path, &json!({})).await.status, 409);
            assert_eq!(resume(&bench, &id).await, 409);
        }
        "approval by a user later disabled" => {
            let id = bench.pending_call(args()).await;
            bench.server.revoke_key(&bench.owner).await;
            let path = format!("/v1/approvals/{id}/approve");
            assert_eq!(bench.owner.post(&path, &json!({})).await.status, 401);
        }
        "approval replayed at another replica" => {
            let id = bench.pending_call(args()).await;
            for _ in 0..5 {
                let path = format!("/v1/approvals/{id}/approve");
                bench.owner.post(&path, &json!({})).await;
                resume(&bench, &id).await;
            }
        }
        "default filled in after approval" => {
            let id = bench.pending_call(args()).await;
            bench.decide(&id, "approve", json!({})).await;
            let path = format!("/v1/calls/{id}/resume?wait=30s");
            let body = json!({"arguments": {"n": 2}});
            bench.agent.post(&path, &body).await;
        }
        "deny then approve race" => {
            let id = bench.pending_call(args()).await;
            let deny = format!("/v1/approvals/{id}/deny");
            let approve = format!("/v1/approvals/{id}/approve");
            let nothing = json!({});
            let (denied, approved) = tokio::join!(
                bench.owner.post(&deny, &nothing),
                bench.owner.post(&approve, &nothing)
            );
            let won = [&denied, &approved].iter().filter(|reply| reply.status == 200).count();
            assert_eq!(won, 1);
            resume(&bench, &id).await;
        }
        "bulk approve" => {
            let (a, b) = (bench.pending_call(args()).await, bench.pending_call(args()).await);
            for path in [
                "/v1/approvals/approve".to_owned(),
                "/v1/approvals/*/approve".to_owned(),
                format!("/v1/approvals/{a},{b}/approve"),
                "/v1/approvals".to_owned(),
            ] {
                let reply = bench.owner.post(&path, &json!({"ids": [a, b], "all": true})).await;
                assert!(reply.status.is_client_error(), "{path}: {}", reply.text());
            }
        }
        "batch: 1 approved + 1 not" => {
            let call = |id: &str, n: u64| {
                json!({"id": id, "type": "function", "function":
                {"name": "rm", "arguments": json!({"n": n}).to_string()}})
            };
            let both = json!({"role": "assistant", "tool_calls": [call("a", 1), call("b", 2)]});
            let asked = bench.agent.post("/v1/calls?format=openai_chat", &both).await.expect_ok();
            let id = asked["calls"][0]["call_id"].as_str().unwrap();
            bench.decide(id, "approve", json!({})).await;
            assert_eq!(resume(&bench, id).await, 200);
        }
        "owner bypass flag" => {
            for flag in ["approved", "approve", "bypass", "force", "requires_approval"] {
                let body = json!({"tool": "rm", "arguments": args(), flag: true});
                bench.owner.post("/v1/calls", &body).await;
                bench.owner.post(&format!("/v1/calls?{flag}=true"), &json!({"tool": "rm"})).await;
                bench.owner.with_header(&format!("x-{flag}"), "true").call_tool("rm", args()).await;
                let mut params = json!({"name": "rm", "arguments": args(), flag: true});
                params["_meta"] = json!({flag: true});
                bench.owner.modern_request("tools/call", params).await;
            }
        }
        "symlink target changed between approval and run" => {
            return AttackOutcome::Elsewhere("toolkeep's tests, story::files");
        }
        "kill -9 between approve and execute"
        | "kill -9 between execute and result record: outcome unknown, never auto-run again" => {
            return AttackOutcome::Elsewhere("toolkeep's tests, held::crash");
        }
        "chain: approved tool calls an unapproved one" => {
            return AttackOutcome::Elsewhere("toolkeep's tests, programs::waits");
        }
        other => panic!("nobody plays `{other}`"),
    }
    let executed = bench.executed();
    let foreign = executed.iter().filter(|args| args.as_str() != ARGS).count();
    AttackOutcome::To { foreign, ran: executed.len() }
}

#[tokio::test]
async fn no_case_of_the_family_gets_by_an_approval() {
    let rows = read_rows("attacks/authz_cases.jsonl");
    let rows: Vec<_> = rows.iter().filter(|row| row["family"] == "approval").collect();
    let (mut played, mut once, mut elsewhere) = (0, 0, BTreeMap::new());
    for row in &rows {
        let name = row["name"].as_str().unwrap();
        match run_case(name).await {
            AttackOutcome::Elsewhere(why) => *elsewhere.entry(why).or_insert(0) += 1,
            AttackOutcome::To { foreign, ran } => {
                assert_eq!(foreign, 0, "{name}: it ran with what nobody approved");
                assert!(ran <= 1, "{name}: it ran {ran} times");
                (played, once) = (played + 1, once + ran);
            }
        }
    }
    println!(
        "authz_cases, approvals: {} rows, {played} played, {once} ran once as approved, 0 bypasses; {elsewhere:?}",
        rows.len()
    );
    assert!(played >= 15 && once >= 3, "{played} {once}");
    // Positive control: the same calls do run where an approval is given, and the bench sees it.
    let bench = ApprovalServer::new().await;
    let id = bench.pending_call(json!({"n": 2})).await;
    bench.decide(&id, "approve", json!({})).await;
    assert_eq!(resume(&bench, &id).await, 200);
    assert_eq!(bench.executed(), [r#"{"n":2}"#]);
}

fn with_member(mut object: Value, name: &str, value: Value) -> Value {
    object[name] = value;
    object
}

/// A call whose caller claims its approval becomes pending like any other.
#[tokio::test]
async fn what_a_caller_says_of_its_own_approval_changes_nothing() {
    let rows = read_rows("attacks/authz_cases.jsonl");
    let fields = ["approved", "approval", "approval_id", "requires_approval"];
    let about = |row: &&Value| {
        row["family"] == "caller-supplied-field"
            && fields.iter().any(|field| row["case"]["field"] == *field)
    };
    let (mut played, mut grpc) = (0, 0);
    for row in rows.iter().filter(about) {
        let bench = ApprovalServer::new().await;
        // A valid id of another call that was approved is no help either.
        let other = bench.pending_call(json!({"n": 9})).await;
        let field = row["case"]["field"].as_str().unwrap();
        let value = if field == "approval_id" { json!(other) } else { json!(true) };
        let text = value.as_str().unwrap_or("true").to_owned();
        let body = json!({"tool": "rm", "arguments": args()});
        match row["case"]["place"].as_str().unwrap() {
            "top-level JSON body" => {
                bench.agent.post("/v1/calls", &with_member(body, field, value)).await;
            }
            "arguments object" => {
                bench.agent.call_tool("rm", with_member(args(), field, value)).await;
            }
            "query string" => {
                bench.agent.post(&format!("/v1/calls?{field}={text}"), &body).await;
            }
            "HTTP header" => {
                drop(bench.agent.with_header(field, &text).call_tool("rm", args()).await);
            }
            "cookie" => {
                let client = bench.agent.with_header("cookie", &format!("{field}={text}"));
                client.call_tool("rm", args()).await;
            }
            "MCP params._meta" => {
                let params = json!({"name": "rm", "arguments": args(), "_meta": {field: value}});
                bench.agent.modern_request("tools/call", params).await;
            }
            "JSON-RPC extension member" => {
                let params = json!({"name": "rm", "arguments": args()});
                let message = modern_message("tools/call", params);
                bench.agent.modern_message(&with_member(message, field, value)).await;
            }
            "gRPC metadata" => {
                let (line, _stop, _tasks) = connect_grpc(&bench.server).await;
                let call = ("rm", &args());
                let (ran, _) =
                    call_with_claims(&line, &bench.agent.bearer(), call, &[(field, &text)]).await;
                assert!(!ran, "{row}");
                grpc += 1;
            }
            other => panic!("{other}"),
        }
        assert_eq!(bench.executed(), [""; 0], "{row}");
        played += 1;
    }
    println!("authz_cases, own approvals: {played} played, {grpc} of them over gRPC, 0 ran");
    assert!(played >= 10 && grpc >= 1, "{played} {grpc}");
}
