//! Tests with rmcp's client in both eras.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rmcp::model::{
    CallToolRequestParams, GetPromptRequestParams, ReadResourceRequestParams,
    SubscribeRequestParams, SubscriptionFilter,
};
use serde_json::json;
use testkit::executor::{MockExecutor, echo_executor};
use tokio::sync::Semaphore;
use tool::{ExecutionState, Json, JsonLimits, Offer, Outcome, OutcomeBody, PermissionLevel};

use crate::support::executors::{AskingExecutor, ReportingExecutor, SubscriptionExecutor};
use crate::support::rmcp_peer::Peer;
use crate::support::{FixtureServer, test_server::ServerSetup, tools, within_a_minute};

fn received(json: &'static str) -> Arc<MockExecutor> {
    Arc::new(MockExecutor::new(move |_| {
        let json = Json::parse(json, JsonLimits::DOCUMENT).unwrap();
        Ok(ExecutionState::Completed(Outcome { body: OutcomeBody::Mcp(json), is_error: false }))
    }))
}

fn offers(following: &Arc<SubscriptionExecutor>) -> Vec<Offer> {
    let asking = AskingExecutor {
        method: "elicitation/create",
        params: Json::encode(&json!({"mode": "form", "message": "?", "requestedSchema": {
            "type": "object", "properties": {"answer": {"type": "integer"}}}})),
    };
    let reports = vec![(1.0, None, None), (2.0, None, None)];
    let reporting = ReportingExecutor { reports, next: Arc::new(Semaphore::new(1_000)) };
    let define =
        |name: &str| json!({"name": name, "description": "d", "inputSchema": {"type": "object"}});
    vec![
        tools::server_offer(&define("echo"), echo_executor()),
        tools::server_offer(&define("asks"), Arc::new(asking)),
        tools::server_offer(&define("reports"), Arc::new(reporting)),
        tools::prompt_offer(&json!({"name": "greet"})),
        tools::resource_offer(&json!({"uri": "test://a", "name": "a"})),
        tools::method_offer(
            "mcp.prompts.get",
            received(r#"{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}]}"#),
        ),
        tools::method_offer(
            "mcp.resources.read",
            received(r#"{"contents":[{"uri":"test://a","text":"body"}]}"#),
        ),
        tools::method_offer("mcp.resources.subscribe", Arc::clone(following) as _),
    ]
}

async fn server() -> (FixtureServer, Arc<SubscriptionExecutor>) {
    let following = Arc::new(SubscriptionExecutor::default());
    let setup =
        ServerSetup { offers: offers(&following), kind: Some("mcp"), ..ServerSetup::default() };
    (FixtureServer::with_setup(setup).await, following)
}

#[tokio::test]
async fn tools_prompts_and_resources() {
    let (server, _) = server().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for modern in [false, true] {
        let peer = Peer::new(&ann.with_endpoint("/mcp/s"), modern).await.client;
        let tools = within_a_minute(peer.list_all_tools()).await.unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
        assert_eq!(names, ["echo", "asks", "reports"]);
        let args = json!({"a": [1]}).as_object().cloned().unwrap();
        let call = CallToolRequestParams::new("echo").with_arguments(args);
        let result = within_a_minute(peer.call_tool(call)).await.unwrap();
        assert_eq!(result.structured_content, Some(json!({"a": [1]})));
        let prompts = within_a_minute(peer.list_all_prompts()).await.unwrap();
        assert_eq!(prompts[0].name, "greet");
        let prompt =
            within_a_minute(peer.get_prompt(GetPromptRequestParams::new("greet"))).await.unwrap();
        assert_eq!(prompt.messages.len(), 1);
        let resources = within_a_minute(peer.list_all_resources()).await.unwrap();
        assert_eq!(resources[0].uri, "test://a");
        let read = ReadResourceRequestParams::new("test://a");
        let read = within_a_minute(peer.read_resource(read)).await.unwrap();
        assert_eq!(read.contents.len(), 1);
        let wrong = within_a_minute(peer.call_tool(CallToolRequestParams::new("nothing")))
            .await
            .unwrap_err();
        assert!(wrong.to_string().contains("unknown tool `nothing`"), "{wrong}");
        within_a_minute(peer.cancel()).await.unwrap();
    }
}

/// One tool, one question: on the stream of its call in one era, in a result in the other.
#[tokio::test]
async fn questions_and_progress() {
    let (server, _) = server().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for modern in [false, true] {
        let mut peer = Peer::new(&ann, modern).await;
        let asked = within_a_minute(peer.client.call_tool(CallToolRequestParams::new("s.asks")))
            .await
            .unwrap();
        let answer = asked.structured_content.unwrap();
        let answer = if modern { &answer["answers"]["q"] } else { &answer };
        assert_eq!(
            (&answer["action"], &answer["content"]),
            (&json!("accept"), &json!({"answer": 42}))
        );
        // rmcp asks for progress of every call.
        let told = within_a_minute(peer.client.call_tool(CallToolRequestParams::new("s.reports")))
            .await
            .unwrap();
        assert_eq!(told.content.len(), 1);
        assert_eq!(
            (peer.next_notification().await, peer.next_notification().await),
            ("progress 1".into(), "progress 2".into())
        );
        within_a_minute(peer.client.cancel()).await.unwrap();
    }
}

#[tokio::test]
async fn what_a_session_follows() {
    let (server, following) = server().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let mut peer = Peer::new(&ann.with_endpoint("/mcp/s"), false).await;
    #[expect(deprecated, reason = "of the older era, as is this client")]
    within_a_minute(peer.client.subscribe(SubscribeRequestParams::new("test://a"))).await.unwrap();
    following.update.notify_one();
    assert_eq!(peer.next_notification().await, "updated test://a");
    let mut changed = offers(&following);
    changed.remove(0);
    server.replace_offers(changed).await;
    assert_eq!(peer.next_notification().await, "tools");
    within_a_minute(peer.client.cancel()).await.unwrap();
}

#[tokio::test]
async fn what_a_stateless_client_follows() {
    let (server, following) = server().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let peer = Peer::new(&ann.with_endpoint("/mcp/s"), true).await;
    let filter = SubscriptionFilter::builder()
        .tools_list_changed()
        .resource_subscriptions(vec!["test://a".to_owned()])
        .build();
    let mut listened = within_a_minute(peer.client.listen(filter.clone())).await.unwrap();
    assert_eq!(listened.acknowledged(), &filter);
    following.update.notify_one();
    let told = within_a_minute(listened.next()).await.unwrap().unwrap();
    assert!(format!("{told:?}").contains("test://a"), "{told:?}");
    server.state.close();
    assert!(within_a_minute(listened.next()).await.unwrap().is_none());
    assert!(format!("{:?}", listened.end()).contains("Graceful"), "{:?}", listened.end());
    drop(listened);
    within_a_minute(async {
        while following.running.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    within_a_minute(peer.client.cancel()).await.unwrap();
}
