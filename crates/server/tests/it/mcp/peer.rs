//! The door as a client of others sees it, in both eras.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rmcp::model::{
    CallToolRequestParams, GetPromptRequestParams, ReadResourceRequestParams,
    SubscribeRequestParams, SubscriptionFilter,
};
use serde_json::json;
use testkit::executor::{Scripted, echo};
use tokio::sync::Semaphore;
use tool::{Body, Json, Level, Limits, Offer, Outcome, Step};

use crate::support::executors::{Asking, Following, Reporting};
use crate::support::peer::Peer;
use crate::support::{Server, bench::Setup, soon, tools};

fn received(json: &'static str) -> Arc<Scripted> {
    Arc::new(Scripted::new(move |_| {
        let json = Json::check(json, Limits::DOCUMENT).unwrap();
        Ok(Step::Done(Outcome { body: Body::Mcp(json), is_error: false }))
    }))
}

fn offers(following: &Arc<Following>) -> Vec<Offer> {
    let asking = Asking {
        method: "elicitation/create",
        params: Json::of(&json!({"mode": "form", "message": "?", "requestedSchema": {
            "type": "object", "properties": {"answer": {"type": "integer"}}}})),
    };
    let reports = vec![(1.0, None, None), (2.0, None, None)];
    let reporting = Reporting { reports, next: Arc::new(Semaphore::new(1_000)) };
    let define =
        |name: &str| json!({"name": name, "description": "d", "inputSchema": {"type": "object"}});
    vec![
        tools::of_server(&define("echo"), echo()),
        tools::of_server(&define("asks"), Arc::new(asking)),
        tools::of_server(&define("reports"), Arc::new(reporting)),
        tools::prompt(&json!({"name": "greet"})),
        tools::resource(&json!({"uri": "test://a", "name": "a"})),
        tools::method(
            "mcp.prompts.get",
            received(r#"{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}]}"#),
        ),
        tools::method(
            "mcp.resources.read",
            received(r#"{"contents":[{"uri":"test://a","text":"body"}]}"#),
        ),
        tools::method("mcp.resources.subscribe", Arc::clone(following) as _),
    ]
}

async fn server() -> (Server, Arc<Following>) {
    let following = Arc::new(Following::default());
    let setup = Setup { offers: offers(&following), kind: Some("mcp"), ..Setup::default() };
    (Server::with(setup).await, following)
}

#[tokio::test]
async fn tools_prompts_and_resources() {
    let (server, _) = server().await;
    let ann = server.agent("ann", Level::User).await;
    for modern in [false, true] {
        let peer = Peer::new(&ann.at("/mcp/s"), modern).await.client;
        let tools = soon(peer.list_all_tools()).await.unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
        assert_eq!(names, ["echo", "asks", "reports"]);
        let args = json!({"a": [1]}).as_object().cloned().unwrap();
        let call = CallToolRequestParams::new("echo").with_arguments(args);
        let result = soon(peer.call_tool(call)).await.unwrap();
        assert_eq!(result.structured_content, Some(json!({"a": [1]})));
        let prompts = soon(peer.list_all_prompts()).await.unwrap();
        assert_eq!(prompts[0].name, "greet");
        let prompt = soon(peer.get_prompt(GetPromptRequestParams::new("greet"))).await.unwrap();
        assert_eq!(prompt.messages.len(), 1);
        let resources = soon(peer.list_all_resources()).await.unwrap();
        assert_eq!(resources[0].uri, "test://a");
        let read = ReadResourceRequestParams::new("test://a");
        let read = soon(peer.read_resource(read)).await.unwrap();
        assert_eq!(read.contents.len(), 1);
        let wrong = soon(peer.call_tool(CallToolRequestParams::new("nothing"))).await.unwrap_err();
        assert!(wrong.to_string().contains("unknown tool `nothing`"), "{wrong}");
        soon(peer.cancel()).await.unwrap();
    }
}

/// One tool, one question: on the stream of its call in one era, in a result in the other.
#[tokio::test]
async fn questions_and_progress() {
    let (server, _) = server().await;
    let ann = server.agent("ann", Level::User).await;
    for modern in [false, true] {
        let mut peer = Peer::new(&ann, modern).await;
        let asked =
            soon(peer.client.call_tool(CallToolRequestParams::new("s.asks"))).await.unwrap();
        let answer = asked.structured_content.unwrap();
        let answer = if modern { &answer["answers"]["q"] } else { &answer };
        assert_eq!(
            (&answer["action"], &answer["content"]),
            (&json!("accept"), &json!({"answer": 42}))
        );
        // rmcp asks for progress of every call.
        let told =
            soon(peer.client.call_tool(CallToolRequestParams::new("s.reports"))).await.unwrap();
        assert_eq!(told.content.len(), 1);
        assert_eq!(
            (peer.hears().await, peer.hears().await),
            ("progress 1".into(), "progress 2".into())
        );
        soon(peer.client.cancel()).await.unwrap();
    }
}

#[tokio::test]
async fn what_a_session_follows() {
    let (server, following) = server().await;
    let ann = server.agent("ann", Level::User).await;
    let mut peer = Peer::new(&ann.at("/mcp/s"), false).await;
    #[expect(deprecated, reason = "of the older era, as is this client")]
    soon(peer.client.subscribe(SubscribeRequestParams::new("test://a"))).await.unwrap();
    following.update.notify_one();
    assert_eq!(peer.hears().await, "updated test://a");
    let mut changed = offers(&following);
    changed.remove(0);
    server.relist(changed).await;
    assert_eq!(peer.hears().await, "tools");
    soon(peer.client.cancel()).await.unwrap();
}

#[tokio::test]
async fn what_a_stateless_client_follows() {
    let (server, following) = server().await;
    let ann = server.agent("ann", Level::User).await;
    let peer = Peer::new(&ann.at("/mcp/s"), true).await;
    let filter = SubscriptionFilter::builder()
        .tools_list_changed()
        .resource_subscriptions(vec!["test://a".to_owned()])
        .build();
    let mut listened = soon(peer.client.listen(filter.clone())).await.unwrap();
    assert_eq!(listened.acknowledged(), &filter);
    following.update.notify_one();
    let told = soon(listened.next()).await.unwrap().unwrap();
    assert!(format!("{told:?}").contains("test://a"), "{told:?}");
    server.doors.close();
    assert!(soon(listened.next()).await.unwrap().is_none());
    assert!(format!("{:?}", listened.end()).contains("Graceful"), "{:?}", listened.end());
    drop(listened);
    soon(async {
        while following.running.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    soon(peer.client.cancel()).await.unwrap();
}
