use std::time::Duration;

use tokio::task::JoinSet;

use serde_json::{Value, json};
use tool::ledger::RecordKind;

use super::{ApprovalServer, empty_object};

#[tokio::test]
async fn an_approval_from_end_to_end() {
    let bench = ApprovalServer::new().await;
    let id = bench.pending_call(json!({"n": 3})).await;
    let list = bench.owner.get("/v1/approvals").await.expect_ok();
    let shown = &list["approvals"][0];
    for (key, expected) in [
        ("id", json!(id)),
        ("state", json!("pending")),
        ("tool", json!("rm")),
        ("arguments", json!({"n": 3})),
        ("reason", json!("dangerous")),
        ("door", json!("rest")),
    ] {
        assert_eq!(shown[key], expected, "{key}");
    }
    assert_eq!(shown["asked_by"]["subject"], "ann");
    assert_eq!(bench.agent.get(&format!("/v1/calls/{id}")).await.expect_ok()["status"], "waiting");
    assert_eq!(bench.ran.call_count(), 0);
    let seen = json!({"arguments_sha256": shown["arguments_sha256"]});
    let approved = bench.decide(&id, "approve", seen).await;
    assert_eq!(
        (&approved["state"], &approved["decided"]["subject"]),
        (&json!("approved"), &json!("owner"))
    );
    let resume = format!("/v1/calls/{id}/resume?wait=30s");
    let answer = bench.agent.post(&resume, &empty_object()).await.expect_ok();
    assert_eq!((&answer["status"], &answer["result"]), (&json!("succeeded"), &json!({"n": 3})));
    // Looked at again, it is the same, and ran once. That it is kept is not waited for.
    while bench.owner.get(&format!("/v1/approvals/{id}")).await.expect_ok()["state"] != "done" {
        tokio::task::yield_now().await;
    }
    let state = bench.agent.get(&format!("/v1/calls/{id}")).await.expect_ok();
    assert_eq!((&state["status"], &state["result"]), (&json!("succeeded"), &json!({"n": 3})));
    assert_eq!(state["records"].as_array().unwrap().len(), 4);
    assert_eq!(
        bench.agent.post(&resume, &empty_object()).await.expect_ok()["result"],
        json!({"n": 3})
    );
    assert_eq!(bench.ran.call_count(), 1);
}

#[tokio::test]
async fn who_waits_gets_what_becomes_of_the_call() {
    type Case = (&'static str, Value, u16, &'static str);
    let cases: [Case; 3] = [
        ("approve", json!({}), 200, r#"{"n":1}"#),
        ("edit", json!({"arguments": {"n": 9}, "approve": true}), 200, r#"{"n":9}"#),
        ("deny", json!({"reason": "no"}), 403, "approval_denied"),
    ];
    for (how, body, status, expected) in cases {
        let bench = ApprovalServer::new().await;
        let agent = bench.agent.clone();
        let mut call = JoinSet::new();
        call.spawn(async move {
            let body = json!({"tool": "rm", "arguments": {"n": 1}});
            agent.post("/v1/calls?wait=30s", &body).await
        });
        let id = bench.wait_for_pending().await;
        bench.decide(&id, how, body).await;
        let reply = call.join_next().await.unwrap().unwrap();
        assert_eq!(reply.status, status, "{how}: {}", reply.text());
        if status == 200 {
            assert_eq!(reply.json()["result"].to_string(), expected, "{how}");
        } else {
            let (_, code, told) = reply.error();
            assert_eq!(code, expected);
            assert_eq!(told, "the call was denied by a person: no");
        }
    }
}

#[tokio::test]
async fn a_wait_that_ends_first_is_told_as_held_and_an_expired_call_as_expired() {
    let bench = ApprovalServer::new().await;
    let body = json!({"tool": "rm", "arguments": {}});
    let reply = bench.agent.post("/v1/calls?wait=50ms", &body).await;
    assert_eq!(reply.status, 202, "{}", reply.text());
    let id = reply.json()["approval"]["id"].as_str().unwrap().to_owned();
    bench.server.clock.advance(Duration::from_mins(10));
    let resume = format!("/v1/calls/{id}/resume");
    let (status, code, _) = bench.agent.post(&resume, &empty_object()).await.error();
    assert_eq!((status, code.as_str()), (409, "approval_expired"));
    let approve = format!("/v1/approvals/{id}/approve");
    assert_eq!(bench.owner.post(&approve, &empty_object()).await.status, 409);
    assert_eq!(bench.agent.get(&format!("/v1/calls/{id}")).await.expect_ok()["status"], "refused");
    for bad in ["x", "1h", "-1s", ""] {
        let reply = bench.agent.post(&format!("/v1/calls?wait={bad}"), &body).await;
        assert_eq!(reply.status, 400, "{bad}");
    }
}

#[tokio::test]
async fn only_who_may_decide_decides_and_to_others_the_call_is_not_there() {
    let bench = ApprovalServer::new().await;
    let id = bench.pending_call(json!({"n": 1})).await;
    let stranger = bench.server.agent_client("bob", tool::PermissionLevel::User).await;
    let foreign = bench
        .server
        .client_with(|key| {
            (key.is_agent, key.level) = (false, tool::PermissionLevel::Owner);
            key.org = tool::Org::new("other").unwrap();
            key.rights = identity::Right::ALL.iter().copied().collect();
        })
        .await;
    for (client, expected) in [(&stranger, 404), (&foreign, 404), (&bench.agent, 403)] {
        for how in ["approve", "deny"] {
            let path = format!("/v1/approvals/{id}/{how}");
            assert_eq!(client.post(&path, &empty_object()).await.status, expected, "{how}");
        }
        let edit = format!("/v1/approvals/{id}/edit");
        assert_eq!(client.post(&edit, &json!({"arguments": {}})).await.status, expected);
    }
    for client in [&stranger, &foreign] {
        assert_eq!(client.get(&format!("/v1/approvals/{id}")).await.status, 404);
        assert_eq!(client.get("/v1/approvals?state=all").await.expect_ok()["approvals"], json!([]));
        let resume = format!("/v1/calls/{id}/resume");
        assert_eq!(client.post(&resume, &empty_object()).await.status, 404);
    }
    // An invalid ID gets the same error as an unknown one.
    let unknown = bench.owner.get("/v1/approvals/01980000-0000-7000-8000-000000000000").await;
    let none = bench.owner.get("/v1/approvals/..").await;
    assert_eq!((unknown.error().1, none.error().1), ("not_found".into(), "not_found".into()));
    // Its own caller may look.
    assert_eq!(
        bench.agent.get(&format!("/v1/approvals/{id}")).await.expect_ok()["state"],
        "pending"
    );
    // The owner's own call, by this same door, is another's to decide.
    let own = bench.owner.call_tool("rm", json!({})).await.json();
    let path = format!("/v1/approvals/{}/approve", own["call_id"].as_str().unwrap());
    assert_eq!(bench.owner.post(&path, &empty_object()).await.status, 403);
    assert_eq!((bench.ran.call_count(), bench.server.recorded_intents().len()), (0, 0));
    bench.decide(&id, "approve", empty_object()).await;
    let resume = format!("/v1/calls/{id}/resume?wait=30s");
    bench.agent.post(&resume, &empty_object()).await.expect_ok();
    assert_eq!(bench.ran.call_count(), 1);
}

#[tokio::test]
async fn an_edit_that_does_not_fit_changes_nothing() {
    let bench = ApprovalServer::new().await;
    let id = bench.pending_call(json!({"n": 1})).await;
    let before = bench.owner.get(&format!("/v1/approvals/{id}")).await.expect_ok();
    let edit = format!("/v1/approvals/{id}/edit");
    for bad in [json!({"arguments": {"n": 99}}), json!({"arguments": []}), json!({})] {
        let reply = bench.owner.post(&edit, &bad).await;
        assert_eq!(reply.status, 400, "{bad}: {}", reply.text());
    }
    assert_eq!(bench.owner.get(&format!("/v1/approvals/{id}")).await.expect_ok(), before);
    bench.decide(&id, "edit", json!({"arguments": {"n": 2}})).await;
    let stale = json!({"arguments_sha256": before["arguments_sha256"]});
    let approve = format!("/v1/approvals/{id}/approve");
    assert_eq!(bench.owner.post(&approve, &stale).await.status, 409);
    assert_eq!(bench.ran.call_count(), 0);
}

/// The research registry's pending result, on the module API's route and as a model's tool result.
#[tokio::test]
async fn doors_without_words_for_it_tell_the_research_registrys_pending_result() {
    let bench = ApprovalServer::new().await;
    let body = json!({"tool_name": "rm", "arguments": {"n": 1}});
    let held = bench.agent.post("/execute", &body).await.expect_ok();
    assert_eq!(held["success"], false, "nothing ran");
    let error = held["error"].as_str().unwrap();
    assert!(
        error.contains("waits for a person's approval") && error.contains("has not run"),
        "{error}"
    );
    let again = bench.agent.post("/execute", &body).await.expect_ok();
    assert_eq!(again["result"]["metadata"], held["result"]["metadata"], "the same pending call");
    let pending = &held["result"];
    for (key, expected) in [
        ("protocol_version", json!(1)),
        ("ok", json!(true)),
        ("status", json!("pending_approval")),
        ("output", Value::Null),
        ("requires_approval", json!(true)),
        ("side_effects_declared", json!(["read_only"])),
    ] {
        assert_eq!(pending[key], expected, "{key}");
    }
    assert_eq!(pending["metadata"]["tool_name"], "rm");
    assert_eq!(pending["metadata"]["args"], json!({"n": 1}));
    let body = json!({"tool": "rm", "arguments": {"n": 3}});
    let text = bench.agent.post("/v1/calls?envelope=to_human", &body).await;
    assert!(text.text().starts_with("[PENDING APPROVAL] Side effects: "), "{}", text.text());
    let message = json!({"role": "assistant", "tool_calls": [{"id": "c1", "type": "function",
        "function": {"name": "rm", "arguments": "{\"n\": 2}"}}]});
    let asked = bench.agent.post("/v1/calls?format=openai_chat", &message).await.expect_ok();
    assert_eq!(asked["calls"][0]["status"], "waiting");
    let told = asked["messages"][0]["content"].as_str().unwrap();
    let pending: Value = serde_json::from_str(told).unwrap();
    assert_eq!(
        (&pending["status"], &pending["metadata"]["args"]),
        (&json!("pending_approval"), &json!({"n": 2}))
    );
    // Both can be approved, and their caller has the answers.
    for id in [&held["result"]["metadata"]["approval_id"], &asked["calls"][0]["call_id"]] {
        let id = id.as_str().unwrap();
        bench.decide(id, "approve", empty_object()).await;
        let path = format!("/v1/calls/{id}/resume?wait=30s");
        assert_eq!(
            bench.agent.post(&path, &empty_object()).await.expect_ok()["status"],
            "succeeded"
        );
    }
    assert_eq!(bench.ran.call_count(), 2);
}

/// A client of the module API can only call again: while the call waits that is the same call, and
/// once it is approved it is its answer. Positive control: with other arguments it is another call.
#[tokio::test]
async fn a_module_api_client_that_calls_again_gets_the_answer_of_its_approved_call() {
    let bench = ApprovalServer::new().await;
    let execute = async |n: u64| {
        let body = json!({"tool_name": "rm", "arguments": {"n": n}});
        bench.agent.post("/execute", &body).await.expect_ok()
    };
    let id = |held: &Value| held["result"]["metadata"]["approval_id"].as_str().unwrap().to_owned();
    let first = id(&execute(1).await);
    assert_eq!(id(&execute(1).await), first);
    assert_ne!(id(&execute(2).await), first);
    bench.decide(&first, "approve", empty_object()).await;
    let path = format!("/v1/approvals/{first}");
    while bench.owner.get(&path).await.expect_ok()["state"] != "done" {
        tokio::task::yield_now().await;
    }
    let answer = execute(1).await;
    assert_eq!((&answer["success"], &answer["result"]), (&json!(true), &json!({"n": 1})));
    assert_eq!(bench.ran.call_count(), 1);
    assert_ne!(id(&execute(1).await), first, "its answer was fetched");
}

#[tokio::test]
async fn a_key_that_was_revoked_while_its_call_was_held_runs_nothing() {
    let bench = ApprovalServer::new().await;
    let id = bench.pending_call(json!({})).await;
    bench.server.revoke_key(&bench.agent).await;
    assert_eq!(bench.decide(&id, "approve", empty_object()).await["state"], "void");
    let frames = bench.server.ledger.all_records();
    assert!(frames.iter().all(|frame| frame.kind != RecordKind::Intent));
    assert_eq!(bench.ran.call_count(), 0);
}

#[tokio::test]
async fn the_page_knows_nothing_and_takes_only_ids() {
    let bench = ApprovalServer::new().await;
    let id = bench.pending_call(json!({"n": 7})).await;
    let page = bench.server.keyless_client().get(&format!("/approvals/{id}")).await;
    assert_eq!(page.status, 200);
    assert!(page.text().contains(&id) && !page.text().contains("rm<"), "{}", page.text());
    let other = "01980000-0000-7000-8000-000000000000";
    let none = bench.server.keyless_client().get(&format!("/approvals/{other}")).await;
    assert_eq!(none.text().replace(other, &id), page.text());
    let markup = bench.server.keyless_client().get("/approvals/%3Cscript%3E").await;
    assert_eq!(markup.header("content-type"), Some("application/json"));
    assert_eq!(markup.status, 404);
}

/// More requests of one key that wait at once than the server lets wait.
const MANY: usize = 1_000;

#[tokio::test]
async fn so_many_requests_of_one_key_wait_at_once_and_the_next_one_answers_as_things_stand() {
    let bench = ApprovalServer::new().await;
    let bob = bench.server.agent_client("bob", tool::PermissionLevel::User).await;
    let id = bench.pending_call(json!({})).await;
    let theirs =
        bob.call_tool("rm", json!({})).await.json()["call_id"].as_str().unwrap().to_owned();
    let resume = |id: &str| format!("/v1/calls/{id}/resume?wait=10m");
    let mut all = JoinSet::new();
    for _ in 0..=MANY {
        let (agent, path) = (bench.agent.clone(), resume(&id));
        all.spawn(async move { agent.post(&path, &empty_object()).await.status });
    }
    // One of them returns without waiting.
    assert_eq!(all.join_next().await.unwrap().unwrap(), 202);
    // The control: another key's request waits meanwhile, until its call is decided.
    let (client, path) = (bob.clone(), resume(&theirs));
    let mut other = JoinSet::new();
    other.spawn(async move { client.post(&path, &empty_object()).await });
    bench.decide(&theirs, "deny", empty_object()).await;
    assert_eq!(other.join_next().await.unwrap().unwrap().error().1, "approval_denied");
    // All others are still there.
    bench.decide(&id, "deny", empty_object()).await;
    let answers = all.join_all().await;
    assert_eq!(
        (answers.len(), answers.iter().filter(|it| it.as_u16() == 403).count()),
        (MANY, MANY)
    );
}

/// A person who followed the hint of their own call was refused, because nobody approves an own
/// call.
#[tokio::test]
async fn a_pending_call_says_who_can_approve_it_and_how() {
    let bench = ApprovalServer::new().await;
    let own = bench.owner.call_tool("rm", json!({"n": 1})).await.json();
    let id = own["call_id"].as_str().unwrap();
    let told = own["approval"]["fix"].as_str().unwrap();
    assert_eq!(own["approval"]["by_agent"], json!(false), "{own}");
    assert!(told.contains("by another person with the right `approve`"), "{told}");
    assert!(told.contains("`toolkeep tool call --agent`"), "{told}");
    let refused = bench.owner.post(&format!("/v1/approvals/{id}/approve"), &json!({})).await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    // Control: following the hint of an agent's call works for its owner.
    let asked = bench.agent.call_tool("rm", json!({"n": 2})).await.json();
    let (id, told) = (asked["call_id"].as_str().unwrap(), &asked["approval"]["fix"]);
    assert_eq!(asked["approval"]["by_agent"], json!(true), "{asked}");
    let hint = format!("have it approved with `toolkeep approval approve {id}`; then");
    assert!(told.as_str().unwrap().starts_with(&hint), "{told}");
    bench.decide(id, "approve", json!({})).await;
}
