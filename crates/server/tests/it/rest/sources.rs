//! Tests of sources over REST: `/v1/sources`.

use serde_json::json;
use testkit::source::MockListing;
use tool::source::SourceErrorKind;
use tool::{PermissionLevel, Problem, SourceError, SourceListing};

use crate::support::{Browser, FixtureServer, tools};

#[tokio::test]
async fn a_source_says_how_it_stands() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let expected = json!({"sources": [{"name": "s", "kind": "test", "state": "ok", "tools": 11,
        "prompts": 0, "resources": 0, "trust": "full", "login": true, "problems": []}]});
    assert_eq!(owner.get("/v1/sources").await.expect_ok(), expected);
    let problem = Problem::new("http://127.0.0.1:1", "connection refused").with_help("start it");
    server.source.set_answer(MockListing::Error(SourceError {
        kind: SourceErrorKind::Unreachable,
        problem,
    }));
    let away = owner.post("/v1/sources/refresh", &json!({"source": "s"})).await.expect_ok();
    let expected = json!({"sources": [{"name": "s", "kind": "test", "state": "stale", "tools": 11,
        "prompts": 0, "resources": 0, "trust": "full", "needs_attention": true, "login": true, "stale_since": "2001-09-09T01:46:40.000Z",
        "problems": [{"place": "http://127.0.0.1:1", "message": "connection refused", "fix": "start it"}]}]});
    assert_eq!(away, expected);
    // Its tools stay callable.
    owner.call_tool("notes.append", json!({})).await.expect_ok();
}

#[tokio::test]
async fn a_refresh_shows_the_new_tools() {
    let server = FixtureServer::new().await;
    let (owner, ann) =
        (server.owner_client().await, server.agent_client("ann", PermissionLevel::User).await);
    let offers =
        vec![tools::tool_offer(tools::test_tool("fresh"), testkit::executor::echo_executor())];
    server
        .source
        .set_answer(MockListing::Listing(SourceListing { offers, ..SourceListing::default() }));
    owner.post("/v1/sources/refresh", &json!({})).await.expect_ok();
    for query in ["", "?format=mcp", "?format=openai"] {
        let list = ann.get(&format!("/v1/tools{query}")).await.expect_ok();
        assert!(list.to_string().contains("fresh") && !list.to_string().contains("append"));
    }
    ann.call_tool("fresh", json!({})).await.expect_ok();
    assert_eq!(ann.call_tool("notes.append", json!({})).await.error().1, "unknown_tool");
}

#[tokio::test]
async fn an_unknown_source_is_told_so() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    for name in ["none", "a b"] {
        let reply = owner.post("/v1/sources/refresh", &json!({"source": name})).await;
        let told = format!("no source `{name}`");
        assert_eq!(reply.error(), (404, "not_found".to_owned(), told));
    }
}

/// Problems name files, addresses and hidden tools, so they are only for operators.
#[tokio::test]
async fn who_may_not_mend_a_source_is_not_told_what_is_wrong() {
    let server = FixtureServer::new().await;
    server.source.set_answer(MockListing::Error(SourceError {
        kind: SourceErrorKind::Unreachable,
        problem: Problem::new("/secret/place", "gone"),
    }));
    let (owner, agent) =
        (server.owner_client().await, server.agent_client("ann", PermissionLevel::User).await);
    owner.post("/v1/sources/refresh", &json!({})).await.expect_ok();
    assert!(owner.get("/v1/sources").await.text().contains("/secret/place"));
    assert!(!agent.get("/v1/sources").await.text().contains("/secret/place"));
    let seen = agent.get("/v1/sources").await.expect_ok();
    assert_eq!(seen["sources"][0]["state"], "stale");
}

#[tokio::test]
async fn a_persons_consent_is_for_persons_who_may() {
    let server = FixtureServer::new().await;
    let (owner, agent) =
        (server.owner_client().await, server.agent_client("ann", PermissionLevel::Admin).await);
    let begin = json!({"source": "s", "redirect_uri": "http://127.0.0.1:1/"});
    let begun = owner.post("/v1/sources/login", &begin).await.expect_ok();
    assert_eq!(begun["url"], "https://login.example/?to=http://127.0.0.1:1/");
    let finish = json!({"source": "s", "query": "code=1"});
    let done = owner.post("/v1/sources/login/finish", &finish).await.expect_ok();
    assert_eq!(done, json!({"source": "s", "given": true}));
    let no = owner.post("/v1/sources/login/finish", &json!({"source": "s", "query": "no"})).await;
    let told = "the source `s` was not given consent".to_owned();
    assert_eq!(no.error(), (502, "upstream_failed".to_owned(), told));
    for path in ["/v1/sources/login", "/v1/sources/login/finish", "/v1/sources/logout"] {
        let body = if path.ends_with("login") { &begin } else { &finish };
        assert_eq!(server.keyless_client().post(path, body).await.status, 401, "{path}");
        if !path.ends_with("logout") {
            assert_eq!(agent.post(path, body).await.status, 403, "{path}");
        }
    }
    // A code does not go to a place of the caller's choice.
    for elsewhere in ["https://evil.example/", "http://evil.example/", "javascript:alert(1)", ""] {
        let body = json!({"source": "s", "redirect_uri": elsewhere});
        assert_eq!(owner.post("/v1/sources/login", &body).await.status, 400, "{elsewhere}");
    }
    let unknown = json!({"source": "none"});
    assert_eq!(owner.post("/v1/sources/logout", &unknown).await.status, 404);
}

/// The browser goes to the login page, and comes back from another site without its cookie.
#[tokio::test]
async fn a_person_signs_in_to_a_source_in_the_console() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let browser = Browser::sign_in(&server, &owner).await;
    let begun = browser.post("/ui/sources/s/login", &[]).await;
    let callback = format!("{}/ui/sources/s/login/callback", browser.origin);
    let login = format!("0; url=https://login.example/?to={callback}");
    assert_eq!((begun.status.as_u16(), begun.header("refresh")), (200, Some(login.as_str())));
    let answer = "/ui/sources/s/login/callback/x?code=1&state=2";
    let returned = browser.without_cookie().get(answer).await;
    let again = format!("{answer}&returned=1");
    assert_eq!(returned.header("refresh"), Some(format!("0; url={again}").as_str()));
    assert_eq!(browser.without_cookie().get(&again).await.status, 303, "nobody is signed in");
    let done = browser.get(&again).await;
    assert_eq!((done.status.as_u16(), done.header("location")), (303, Some("/ui/sources")));
    let agent = server.agent_client("ann", PermissionLevel::Admin).await;
    let agent = Browser::sign_in(&server, &agent).await;
    assert_eq!(agent.get(&again).await.status, 403, "an agent gives no consent");
    assert_eq!(agent.post("/ui/sources/s/login", &[]).await.status, 403);
}

/// Commands on this machine are set in the configuration only; no key can change them remotely.
#[tokio::test]
async fn no_route_adds_or_changes_a_source() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let before = owner.get("/v1/sources").await.expect_ok();
    let source = json!({ "name": "evil", "mcp": { "command": "sh", "args": ["-c", "true"] } });
    for path in ["/v1/sources", "/v1/sources/files", "/v1/sources/evil"] {
        let posted = owner.post(path, &source).await;
        assert!(matches!(posted.status.as_u16(), 404 | 405), "{path}: {}", posted.status);
        assert!(matches!(owner.delete(path).await.status.as_u16(), 404 | 405), "{path}");
    }
    assert_eq!(owner.get("/v1/sources").await.expect_ok(), before);
    // The control: the owner may what there is.
    assert_eq!(owner.post("/v1/sources/refresh", &json!({})).await.status, 200);
}
