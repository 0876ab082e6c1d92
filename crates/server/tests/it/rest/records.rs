//! `/v1/records`.

use serde_json::{Value, json};
use tool::Level;

use crate::support::Server;

#[tokio::test]
async fn records_come_newest_first_in_pages() {
    let server = Server::new().await;
    let (ann, owner) = (server.agent("ann", Level::User).await, server.owner().await);
    for _ in 0..3 {
        ann.call("notes.append", json!({})).await.good();
    }
    let mut seqs = Vec::new();
    let mut path = "/v1/records?limit=4".to_owned();
    loop {
        let page = owner.get(&path).await.good();
        let records = page["records"].as_array().unwrap();
        seqs.push(records.iter().map(|record| record["seq"].as_u64().unwrap()).collect::<Vec<_>>());
        let Some(next) = page["next_cursor"].as_str() else { break };
        path = format!("/v1/records?limit=4&cursor={next}");
    }
    assert_eq!(seqs, [vec![5, 4, 3, 2], vec![1, 0]]);
    let whole = owner.get("/v1/records").await.good();
    let kinds: Vec<&Value> =
        whole["records"].as_array().unwrap().iter().map(|record| &record["kind"]).collect();
    assert_eq!(kinds, ["outcome", "intent", "outcome", "intent", "outcome", "intent"]);
}

#[tokio::test]
async fn bad_questions_are_told_what_is_wrong() {
    let server = Server::new().await;
    let owner = server.owner().await;
    for (query, told) in [
        ("limit=0", "`limit` is 1 to 1000"),
        ("limit=1001", "`limit` is 1 to 1000"),
        ("cursor=x", "the query: "),
        ("who=ann", "the query: "),
    ] {
        let (status, code, message) = owner.get(&format!("/v1/records?{query}")).await.error();
        assert_eq!((status, code.as_str()), (400, "invalid_request"), "{query}");
        assert!(message.starts_with(told), "{message}");
    }
}
