//! The live page of records, and the calls of a program as a waterfall.

use serde_json::{Value, json};
use tool::PermissionLevel;
use tool::{CallerType, Interface};

use crate::support::{Browser, FixtureServer};

/// The rows of an event.
fn rows(event: &str) -> Value {
    let data = event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    serde_json::from_str(data).unwrap()
}

#[tokio::test]
async fn records_arrive_as_they_are_written_and_only_those_that_rest_shows() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let browser = Browser::sign_in(&server, &owner).await;
    owner.post("/v1/calls", &json!({"tool": "notes.append", "arguments": {}})).await;
    let page = browser.page("/ui/calls/live?tool=notes.append").await;
    assert_eq!(page.entries().len(), 2, "the intent and its outcome");
    let events = page.values_of("data-live-rows")[0].to_owned();
    assert!(events.starts_with("/ui/events/calls?tool=notes.append&after="), "{events}");
    let mut stream = browser.open_stream(&events).await;
    assert_eq!(
        (stream.status.as_u16(), &stream.headers["content-type"]),
        (200, &"text/event-stream".parse().unwrap())
    );
    // A call of another tool does not match the filter.
    owner.post("/v1/calls", &json!({"tool": "no\u{202e}<b>", "arguments": {}})).await;
    owner.post("/v1/calls", &json!({"tool": "notes.append", "arguments": {}})).await;
    let event = stream.event().await.unwrap();
    assert!(event.starts_with("event: records"), "{event}");
    let mut seen = rows(&event);
    // Intent and outcome may be in two looks.
    if seen["rows"].as_array().unwrap().len() < 2 {
        seen = rows(&stream.event().await.unwrap());
    }
    assert_eq!(seen["gap"], false);
    assert_eq!(seen["rows"][0][0], "tr", "{seen}");
    // Text is text: invisible characters in letters, and no markup.
    let mut all = browser.open_stream("/ui/events/calls?after=0").await;
    let text = rows(&all.event().await.unwrap()).to_string();
    assert!(text.contains("no") && text.contains(r#"["mark",{},["\\u{202e}"]]"#), "{text}");
    let agent = server.agent_client("eve", PermissionLevel::Admin).await;
    let other = Browser::sign_in(&server, &agent).await;
    for path in ["/ui/calls/live", "/ui/events/calls"] {
        assert_eq!(other.get(path).await.status, 403, "{path}");
    }
    assert_eq!(browser.get("/ui/calls/live?status=none").await.status, 400);
    server.revoke_key(&owner).await;
    loop {
        let event = stream.event().await.unwrap();
        if event.starts_with("event: ended") {
            break;
        }
    }
    assert_eq!(stream.event().await, None);
}

#[tokio::test]
async fn more_records_than_a_page_has_are_a_gap_and_no_flood() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let browser = Browser::sign_in(&server, &owner).await;
    let mut stream = browser.open_stream("/ui/events/calls?after=0").await;
    for _ in 0..60 {
        owner.post("/v1/calls", &json!({"tool": "notes.append", "arguments": {}})).await;
    }
    let (mut shown, mut has_gap) = (0, false);
    while !has_gap {
        let event = rows(&stream.event().await.unwrap());
        let count = event["rows"].as_array().unwrap().len();
        assert!(count <= 50, "{count}");
        (shown, has_gap) = (shown + count, event["gap"] == true);
        if shown >= 120 {
            break;
        }
    }
    assert!(has_gap || shown == 120, "{shown}: every record was shown, or the gap is told");
}

#[tokio::test]
async fn the_calls_of_a_program_are_bars_on_its_page() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let program = server.gateway.new_call_id();
    let ann = server.agent_client("ann", PermissionLevel::Admin).await;
    let principal = server.keys.key_ring().principal_of_key(&ann.key_id).unwrap().clone();
    for index in 0..3 {
        let request = gateway::CallRequest {
            caller_type: CallerType::Direct,
            parent_id: Some(program),
            chain_index: Some(index),
            ..gateway::CallRequest::new("notes.append", "{}".to_owned(), Interface::Program)
        };
        server.gateway.call_tool(&principal, request).await.result.unwrap();
        server.clock.advance(std::time::Duration::from_millis(20));
    }
    let path = format!("/v1/calls/{program}/children");
    let list = ann.get(&path).await.expect_ok();
    let calls = list["calls"].as_array().unwrap();
    assert_eq!((calls.len(), &list["complete"]), (3, &json!(true)), "{list}");
    let offsets: Vec<_> = calls.iter().map(|call| call["offset_ms"].as_u64().unwrap()).collect();
    assert_eq!(offsets, [0, 20, 40]);
    assert_eq!(calls[2]["chain_index"], 2);
    assert_eq!(owner.get(&path).await.expect_ok(), list, "who may read records sees them too");
    let eve = server.agent_client("eve", PermissionLevel::Admin).await;
    assert_eq!(eve.get(&path).await.expect_ok()["calls"], json!([]), "and nobody else");
    let browser = Browser::sign_in(&server, &owner).await;
    let page = browser.page(&format!("/ui/calls/{program}")).await;
    assert_eq!(page.entries().len(), 3);
    assert_eq!(page.tags.iter().filter(|tag| tag.name == "rect").count(), 3);
    let child = calls[0]["call_id"].as_str().unwrap();
    let shown = browser.page(&format!("/ui/calls/{child}")).await;
    assert!(shown.values_of("href").contains(&format!("/ui/calls/{program}").as_str()));
    let foreign = Browser::sign_in(&server, &eve).await;
    assert_eq!(foreign.get(&format!("/ui/calls/{program}")).await.status, 404);
    let records = owner.get(&format!("/v1/records?parent={program}")).await.expect_ok();
    assert_eq!(records["records"].as_array().unwrap().len(), 3);
    assert_eq!(owner.get("/v1/records?parent=x").await.status, 400);
}
