//! Trying a tool: the decision, the call as REST makes it, and nothing that the caller may not call.

use identity::Right;
use serde_json::json;
use tool::PermissionLevel;
use tool::call_outcome::OutcomeBody;
use tool::{ExecutionState, Json, Outcome};

use crate::approvals::ApprovalServer;
use crate::support::{Browser, tools};

#[tokio::test]
async fn a_tool_is_explained_and_run_from_its_page() {
    let bench = ApprovalServer::new().await;
    let browser = Browser::sign_in(&bench.server, &bench.owner).await;
    let page = browser.page("/ui/tools/ls").await;
    assert_eq!(page.hidden_field("argument_source"), Some("fields"));
    let json = |arguments: &'static str, action: &'static str| {
        [("argument_source", "json"), ("arguments", arguments), ("action", action)]
    };
    let explained = browser.post("/ui/tools/ls/try", &json("{\"n\": 1}", "explain")).await;
    let text = explained.text();
    assert!(text.contains("This call would run."), "{text}");
    let ran = browser.post("/ui/tools/ls/try", &json("{\"n\": 5}", "run")).await;
    let text = ran.text();
    assert!(text.contains("succeeded") && text.contains("&quot;n&quot;: 5"), "{text}");
    assert!(text.contains("curl -s http://127.0.0.1:"), "{text}");
    let call = text.split("/ui/calls/").nth(1).unwrap().split('"').next().unwrap();
    let record = bench.owner.get(&format!("/v1/records?call={call}")).await.expect_ok();
    assert_eq!(record["records"][1]["body"]["door"], "console", "{record}");
}

#[tokio::test]
async fn a_person_with_the_right_acts_for_another_user_with_the_lesser_rights() {
    let bench = ApprovalServer::new().await;
    bench.owner.post("/v1/users", &json!({"subject": "bob", "level": "guest"})).await.expect_ok();
    let form = |action: &'static str, subject: &'static str| {
        [("argument_source", "json"), ("arguments", "{}"), ("action", action), ("act_for", subject)]
    };
    let actor = bench.server.client_with(|key| {
        (key.is_agent, key.level) = (false, PermissionLevel::Admin);
        key.rights = [Right::ActAs, Right::RecordsRead].into();
    });
    let actor = actor.await;
    let browser = Browser::sign_in(&bench.server, &actor).await;
    for _ in 0..2 {
        let ran = browser.post("/ui/tools/ls/try", &form("run", "bob")).await;
        assert!(ran.text().contains("succeeded"), "{}", ran.text());
    }
    let records = actor.get("/v1/records?caller=bob&kind=intent").await.expect_ok();
    let records = records["records"].as_array().unwrap().clone();
    assert_eq!(records.len(), 2, "{records:?}");
    let caller = &records[0]["body"]["caller"];
    assert!(caller.to_string().contains(&actor.key_id), "it says who acts: {caller}");
    assert_eq!(records[0]["body"]["caller"]["key"], records[1]["body"]["caller"]["key"], "one key");
    // Without the right, and for nobody.
    let agent = Browser::sign_in(&bench.server, &bench.agent).await;
    for action in ["run", "explain"] {
        assert_eq!(agent.post("/ui/tools/ls/try", &form(action, "bob")).await.status, 403);
    }
    let records = actor.get("/v1/records?caller=bob&kind=intent").await.expect_ok();
    assert_eq!(records["records"].as_array().unwrap().len(), 2, "nothing ran for the agent");
    let none = browser.post("/ui/tools/ls/try", &form("run", "a b ")).await;
    assert!(none.status.is_client_error(), "{}", none.status);
}

#[tokio::test]
async fn a_call_that_needs_an_approval_waits_for_it() {
    let bench = ApprovalServer::new().await;
    let browser = Browser::sign_in(&bench.server, &bench.agent).await;
    let form = [("argument_source", "json"), ("arguments", "{\"n\": 7}")];
    let explained = browser.post("/ui/tools/rm/try", &form).await;
    assert!(explained.text().contains("would wait for an approval."), "{}", explained.text());
    assert!(bench.executed().is_empty());
    let [source, arguments] = form;
    let pending = browser.post("/ui/tools/rm/try", &[source, arguments, ("action", "run")]).await;
    let text = pending.text();
    let id = text.split("/ui/approvals/").nth(1).unwrap().split('"').next().unwrap();
    assert!(bench.executed().is_empty(), "it has not run");
    let owner = Browser::sign_in(&bench.server, &bench.owner).await;
    assert_eq!(owner.decide(id, "approve", "").await.status, 303);
    let resume = format!("/v1/calls/{id}/resume?wait=30s");
    bench.agent.post(&resume, &json!({})).await.expect_ok();
    assert_eq!(bench.executed(), [r#"{"n": 7}"#]);
}

#[tokio::test]
async fn nothing_runs_with_wrong_arguments_or_without_the_form_of_a_page() {
    let bench = ApprovalServer::new().await;
    let browser = Browser::sign_in(&bench.server, &bench.owner).await;
    let run = ("action", "run");
    for wrong in ["[1]", "{\"n\": }", "7", "{} {}"] {
        let form = [("argument_source", "json"), ("arguments", wrong), run];
        let reply = browser.post("/ui/tools/ls/try", &form).await;
        assert_eq!(reply.status, 400, "{wrong}");
        assert!(reply.text().contains("Nothing has run."), "{wrong}");
    }
    let unknown = browser.post("/ui/tools/none/try", &[run]).await;
    assert_eq!(unknown.status, 404);
    let forged = [("form_token", "other"), run];
    let origin = [("origin", browser.origin.as_str())];
    let foreign = browser.post_from("/ui/tools/ls/try", &forged, &origin).await;
    assert_eq!(foreign.status, 403);
    let control = browser.post("/ui/tools/ls/try", &[("argument_source", "fields"), run]).await;
    assert_eq!(control.status, 200, "{}", control.text());
}

#[tokio::test]
async fn fields_become_arguments_and_come_back_with_their_errors() {
    let bench = ApprovalServer::new().await;
    let schema = json!({"type": "object", "properties": {
        "path": {"type": "string"}, "depth": {"type": "integer"}}});
    let find = tools::tool_with("find", |tool| tool.input_schema = Json::encode(&schema));
    let offer = tools::tool_offer(find, testkit::executor::echo_executor());
    bench.server.replace_offers(vec![offer]).await;
    let browser = Browser::sign_in(&bench.server, &bench.owner).await;
    let fields =
        |depth: &'static str| [("/path", "<b>\u{202e}"), ("/depth", depth), ("action", "run")];
    let wrong = browser.post("/ui/tools/find/try", &fields("deep")).await;
    let text = wrong.text();
    assert_eq!(wrong.status, 400);
    assert!(
        text.contains("/depth: expected a number") && text.contains("value=\"deep\""),
        "{text}"
    );
    assert!(text.contains("&lt;b&gt;\u{202e}</textarea>"), "what was typed is kept: {text}");
    let ran = browser.post("/ui/tools/find/try", &fields("2")).await;
    let ran = ran.text();
    assert!(ran.contains("succeeded") && ran.contains("&quot;depth&quot;: 2"), "{ran}");
}

#[tokio::test]
async fn a_picture_is_shown_to_the_key_that_made_the_call() {
    let bench = ApprovalServer::new().await;
    let picture = json!({"content": [{"type": "image", "mimeType": "image/svg+xml",
        "data": "PHN2Zy8+"}, {"type": "text", "text": "a plot"}]});
    let plot = testkit::executor::MockExecutor::new(move |_| {
        let body = OutcomeBody::Mcp(Json::encode(&picture));
        Ok(ExecutionState::Completed(Outcome { body, is_error: false }))
    });
    let offer = tools::tool_offer(tools::test_tool("plot"), std::sync::Arc::new(plot));
    bench.server.replace_offers(vec![offer]).await;
    let browser = Browser::sign_in(&bench.server, &bench.owner).await;
    let reply = browser.post("/ui/tools/plot/try", &[("action", "run")]).await;
    let text = reply.text();
    let path = text.split("src=\"/ui/pictures/").nth(1).unwrap().split('"').next().unwrap();
    let path = format!("/ui/pictures/{path}");
    let shown = browser.get(&path).await;
    assert_eq!((shown.status.as_u16(), shown.header("content-type")), (200, Some("image/svg+xml")));
    assert_eq!(shown.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(shown.text(), "<svg/>");
    let other = Browser::sign_in(&bench.server, &bench.agent).await;
    assert_eq!(other.get(&path).await.status, 404);
    assert_eq!(bench.owner.get(&path).await.status, 303, "a header opens no page");
}
