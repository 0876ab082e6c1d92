//! Signing in and out, and the end of sessions.

use std::time::Duration;

use hyper::Method;
use server::HttpService;

use crate::support::browser::{send_key, stored_cookies};
use crate::support::test_server::serve_on_free_port;
use crate::support::{Browser, Client, FixtureServer, Page};

fn key_of(client: &Client) -> String {
    client.bearer().strip_prefix("Bearer ").unwrap().to_owned()
}

#[tokio::test]
async fn a_user_signs_in_with_a_key_and_out_again() {
    let server = FixtureServer::new().await;
    let (owner, keyless) = (server.owner_client().await, server.keyless_client());
    let origin = format!("http://{}", server.address);
    let page = keyless.get("/ui/tools?q=a").await;
    assert_eq!(
        (page.status.as_u16(), page.header("location")),
        (303, Some("/ui/sign-in?next=%2Fui%2Ftools%3Fq%3Da"))
    );
    let reply = send_key(&keyless, &origin, &key_of(&owner), "/ui/tools?q=a").await;
    assert_eq!((reply.status.as_u16(), reply.header("location")), (303, Some("/ui/tools?q=a")));
    let line = reply.headers.get("set-cookie").unwrap().to_str().unwrap();
    let port = server.address.port();
    assert!(line.starts_with(&format!("toolkeep_session_{port}=")), "{line}");
    assert!(line.ends_with("; Path=/ui; HttpOnly; SameSite=Strict"), "{line}");
    assert!(!line.contains(&key_of(&owner)));
    let browser = Browser::sign_in(&server, &owner).await;
    assert!(browser.page("/ui/tools").await.text.contains("owner"));
    let home = browser.get("/ui/").await;
    assert_eq!((home.status.as_u16(), home.header("location")), (303, Some("/ui")));
    let out = browser.post("/ui/sign-out", &[]).await;
    assert_eq!((out.status.as_u16(), out.header("location")), (303, Some("/ui/sign-in")));
    // The cookie alone is worth nothing afterwards.
    assert_eq!(browser.get("/ui/tools").await.status, 303);
}

#[tokio::test]
async fn only_a_valid_key_signs_in() {
    let server = FixtureServer::new().await;
    let (owner, keyless) = (server.owner_client().await, server.keyless_client());
    let (origin, key) = (format!("http://{}", server.address), key_of(&owner));
    let mut changed = key.clone();
    let last = changed.pop();
    changed.push(if last == Some('a') { 'b' } else { 'a' });
    for bad in ["", "x", &changed, "a\r\nb", "é", "a.b.c"] {
        let reply = send_key(&keyless, &origin, bad, "").await;
        assert_eq!(reply.status, 401, "{bad:?}: {}", reply.text());
        assert!(!reply.text().contains(&changed), "the page does not repeat the key");
        let stored = stored_cookies(&reply);
        assert!(stored.iter().all(|cookie| cookie.starts_with("toolkeep_sign_in")), "{stored:?}");
    }
    server.revoke_key(&owner).await;
    assert_eq!(send_key(&keyless, &origin, &key, "").await.status, 401, "revoked");
    let other = server.owner_client().await;
    assert_eq!(send_key(&keyless, &origin, &key_of(&other), "").await.status, 303, "the control");
}

#[tokio::test]
async fn a_session_ends_with_its_key_and_by_time() {
    let server = FixtureServer::new().await;
    let (ann, bob) = (server.owner_client().await, server.owner_client().await);
    let browser = Browser::sign_in(&server, &ann).await;
    let other = Browser::sign_in(&server, &bob).await;
    assert_eq!(browser.get("/ui/tools").await.status, 200);
    server.revoke_key(&ann).await;
    assert_eq!(browser.get("/ui/tools").await.status, 303, "revoked");
    assert_eq!(browser.get("/ui/tools").await.status, 303);
    assert_eq!(other.get("/ui/tools").await.status, 200, "another key's session goes on");
    server.clock.advance(Duration::from_mins(29));
    assert_eq!(other.get("/ui/tools").await.status, 200);
    server.clock.advance(Duration::from_mins(30));
    assert_eq!(other.get("/ui/tools").await.status, 303, "unused for half an hour");
}

#[tokio::test]
async fn cookies_open_pages_only_and_keys_interfaces_only() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let browser = Browser::sign_in(&server, &owner).await;
    for path in ["/v1/tools", "/v1/approvals", "/mcp"] {
        assert_eq!(browser.get(path).await.status, 401, "{path}");
    }
    assert_eq!(owner.get("/v1/tools").await.status, 200, "the control");
    assert_eq!(owner.get("/ui/tools").await.status, 303);
    assert_eq!(browser.get("/ui/tools").await.status, 200, "the control");
}

#[tokio::test]
async fn every_response_has_the_headers_that_restrict_a_page() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let browser = Browser::sign_in(&server, &owner).await;
    for path in [
        "/ui",
        "/ui/sign-in",
        "/ui/approvals",
        "/ui/approvals?state=x",
        "/ui/approvals/none",
        "/ui/tools",
        "/ui/tools/none",
        "/ui/sign-out",
        "/ui/none",
        "/ui/assets/console.css",
        "/ui/assets/console.js",
        "/ui/assets/none",
    ] {
        let reply = browser.get(path).await;
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"), "{path}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "same-origin"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(reply.header(name), Some(value), "{path}");
        }
        let is_asset = path.starts_with("/ui/assets/console");
        assert_eq!(reply.header("cache-control") == Some("no-store"), !is_asset, "{path}");
    }
    // Nothing inline: a page works under its own policy.
    let page = browser.page("/ui/tools").await;
    for tag in &page.tags {
        assert!(tag.attributes.keys().all(|name| name != "style" && !name.starts_with("on")));
        assert!(
            tag.name != "style" && (tag.name != "script" || tag.attributes.contains_key("src"))
        );
    }
    let asset = browser.get("/ui/assets/console.js").await;
    assert_eq!(asset.header("content-type"), Some("text/javascript; charset=utf-8"));
}

/// The name of another host leads to no page, as at every interface.
#[tokio::test]
async fn a_foreign_host_gets_no_page_and_the_console_can_be_off() {
    let server = FixtureServer::new().await;
    let keyless = server.keyless_client();
    assert_eq!(keyless.with_header("host", "evil.example").get("/ui/sign-in").await.status, 403);
    assert_eq!(keyless.get("/ui/sign-in").await.status, 200, "the control");
    let (address, stop, _) = serve_on_free_port(HttpService::new(&server.state)).await;
    let off = Client::new(address);
    for path in ["/ui", "/ui/sign-in", "/ui/assets/console.css"] {
        assert_eq!(off.get(path).await.status, 404, "{path}");
    }
    assert_eq!(off.send(Method::POST, "/ui/sign-in", "a=b".into()).await.status, 404);
    assert_eq!(off.get("/healthz").await.status, 200, "the control");
    stop.cancel();
}

#[tokio::test]
async fn a_link_from_another_site_leads_back_to_the_page() {
    let server = FixtureServer::new().await;
    let keyless = server.keyless_client();
    let page = keyless.get("/ui/sign-in?next=%2Fui%2Ftools%2Fls").await;
    let page = Page::parse(page.text());
    assert!(page.values_of("href").contains(&"/ui/tools/ls"));
    let foreign = keyless.get("/ui/sign-in?next=%2F%2Fevil.example").await;
    assert!(!foreign.text().contains("evil"));
}

#[tokio::test]
async fn a_stream_tells_that_the_list_has_changed_and_ends_with_its_key() {
    let bench = crate::approvals::ApprovalServer::new().await;
    let browser = Browser::sign_in(&bench.server, &bench.owner).await;
    let mut stream = browser.open_stream("/ui/events/approvals").await;
    assert_eq!(stream.status, 200);
    assert_eq!(stream.headers["content-type"], "text/event-stream");
    let id = bench.pending_call(serde_json::json!({"n": 1})).await;
    let event = stream.event().await.unwrap();
    assert!(event.starts_with("event: changed") && !event.contains(&id), "{event}");
    browser.decide(&id, "deny", "").await;
    assert!(stream.event().await.unwrap().starts_with("event: changed"));
    // A call that this principal does not see changes nothing for it.
    let guest = bench.server.agent_client("eve", tool::PermissionLevel::Guest).await;
    let other = Browser::sign_in(&bench.server, &guest).await;
    let mut quiet = other.open_stream("/ui/events/approvals").await;
    bench.pending_call(serde_json::json!({"n": 2})).await;
    assert!(stream.event().await.unwrap().starts_with("event: changed"), "the control");
    bench.server.revoke_key(&guest).await;
    assert!(quiet.event().await.unwrap().starts_with("event: ended"));
    assert_eq!(quiet.event().await, None);
    bench.server.state.close();
    assert_eq!(stream.event().await, None, "a server that stops waits for no stream");
    assert_eq!(browser.without_cookie().get("/ui/events/approvals").await.status, 303);
}
