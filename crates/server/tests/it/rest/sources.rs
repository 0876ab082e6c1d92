//! `/v1/sources`.

use serde_json::json;
use testkit::source::Answer;
use tool::source::SourceFault;
use tool::{Level, Listing, Problem, SourceError};

use crate::support::{Server, tools};

#[tokio::test]
async fn a_source_says_how_it_stands() {
    let server = Server::new().await;
    let owner = server.owner().await;
    let expected = json!({"sources": [{"name": "s", "kind": "test", "state": "ok", "tools": 11,
        "prompts": 0, "resources": 0, "trust": "full", "problems": []}]});
    assert_eq!(owner.get("/v1/sources").await.good(), expected);
    let problem = Problem::new("http://127.0.0.1:1", "connection refused").fix("start it");
    server.source.set(Answer::Error(SourceError { kind: SourceFault::Unreachable, problem }));
    let away = owner.post("/v1/sources/refresh", &json!({"source": "s"})).await.good();
    let expected = json!({"sources": [{"name": "s", "kind": "test", "state": "stale", "tools": 11,
        "prompts": 0, "resources": 0, "trust": "full", "stale_since": "2001-09-09T01:46:40.000Z",
        "problems": [{"place": "http://127.0.0.1:1", "message": "connection refused", "fix": "start it"}]}]});
    assert_eq!(away, expected);
    // What it offered stays callable.
    owner.call("notes.append", json!({})).await.good();
}

#[tokio::test]
async fn a_refresh_shows_the_new_tools() {
    let server = Server::new().await;
    let (owner, ann) = (server.owner().await, server.agent("ann", Level::User).await);
    let offers = vec![tools::offer(tools::tool("fresh"), testkit::executor::echo())];
    server.source.set(Answer::Listing(Listing { offers, ..Listing::default() }));
    owner.post("/v1/sources/refresh", &json!({})).await.good();
    for query in ["", "?format=mcp", "?format=openai"] {
        let list = ann.get(&format!("/v1/tools{query}")).await.good();
        assert!(list.to_string().contains("fresh") && !list.to_string().contains("append"));
    }
    ann.call("fresh", json!({})).await.good();
    assert_eq!(ann.call("notes.append", json!({})).await.error().1, "unknown_tool");
}

#[tokio::test]
async fn an_unknown_source_is_told_so() {
    let server = Server::new().await;
    let owner = server.owner().await;
    for name in ["none", "a b"] {
        let reply = owner.post("/v1/sources/refresh", &json!({"source": name})).await;
        let told = format!("no source `{name}`");
        assert_eq!(reply.error(), (404, "not_found".to_owned(), told));
    }
}

/// Problems name files, addresses and hidden tools: they are for those who can do something.
#[tokio::test]
async fn who_may_not_mend_a_source_is_not_told_what_is_wrong() {
    let server = Server::new().await;
    server.source.set(Answer::Error(SourceError {
        kind: SourceFault::Unreachable,
        problem: Problem::new("/secret/place", "gone"),
    }));
    let (owner, agent) = (server.owner().await, server.agent("ann", Level::User).await);
    owner.post("/v1/sources/refresh", &json!({})).await.good();
    assert!(owner.get("/v1/sources").await.text().contains("/secret/place"));
    assert!(!agent.get("/v1/sources").await.text().contains("/secret/place"));
    let seen = agent.get("/v1/sources").await.good();
    assert_eq!(seen["sources"][0]["state"], "stale");
}

#[tokio::test]
async fn a_persons_consent_is_for_persons_who_may() {
    let server = Server::new().await;
    let (owner, agent) = (server.owner().await, server.agent("ann", Level::Admin).await);
    let begin = json!({"source": "s", "redirect_uri": "http://127.0.0.1:1/"});
    let begun = owner.post("/v1/sources/login", &begin).await.good();
    assert_eq!(begun["url"], "https://login.example/?to=http://127.0.0.1:1/");
    let finish = json!({"source": "s", "query": "code=1"});
    let done = owner.post("/v1/sources/login/finish", &finish).await.good();
    assert_eq!(done, json!({"source": "s", "given": true}));
    let no = owner.post("/v1/sources/login/finish", &json!({"source": "s", "query": "no"})).await;
    let told = "the source `s` was not given consent".to_owned();
    assert_eq!(no.error(), (502, "upstream_failed".to_owned(), told));
    for path in ["/v1/sources/login", "/v1/sources/login/finish", "/v1/sources/logout"] {
        let body = if path.ends_with("login") { &begin } else { &finish };
        assert_eq!(server.anyone().post(path, body).await.status, 401, "{path}");
        if !path.ends_with("logout") {
            assert_eq!(agent.post(path, body).await.status, 403, "{path}");
        }
    }
    let unknown = json!({"source": "none"});
    assert_eq!(owner.post("/v1/sources/logout", &unknown).await.status, 404);
}

/// What runs on this machine stands in the configuration, and no key changes it from outside.
#[tokio::test]
async fn no_route_adds_or_changes_a_source() {
    let server = Server::new().await;
    let owner = server.owner().await;
    let before = owner.get("/v1/sources").await.good();
    let source = json!({ "name": "evil", "mcp": { "command": "sh", "args": ["-c", "true"] } });
    for path in ["/v1/sources", "/v1/sources/files", "/v1/sources/evil"] {
        let posted = owner.post(path, &source).await;
        assert!(matches!(posted.status.as_u16(), 404 | 405), "{path}: {}", posted.status);
        assert!(matches!(owner.delete(path).await.status.as_u16(), 404 | 405), "{path}");
    }
    assert_eq!(owner.get("/v1/sources").await.good(), before);
    // The control: the owner may what there is.
    assert_eq!(owner.post("/v1/sources/refresh", &json!({})).await.status, 200);
}
