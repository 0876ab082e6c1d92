//! Forms: only from a page of the session, and decisions as REST makes them.

use serde_json::{Value, json};

use crate::approvals::ApprovalServer;
use crate::support::browser::{encode_form, stored_cookies};
use crate::support::{Browser, Page};

async fn state_of(bench: &ApprovalServer, id: &str) -> Value {
    bench.owner.get(&format!("/v1/approvals/{id}")).await.expect_ok()
}

#[tokio::test]
async fn an_approval_and_a_denial_from_end_to_end() {
    let bench = ApprovalServer::new().await;
    let browser = Browser::sign_in(&bench.server, &bench.owner).await;
    let first = bench.pending_call(json!({"n": 3})).await;
    bench.server.clock.advance(std::time::Duration::from_millis(1));
    let second = bench.pending_call(json!({"n": 4})).await;
    let page = browser.page("/ui/approvals").await;
    assert_eq!(
        page.entries(),
        [format!("/ui/approvals/{second}"), format!("/ui/approvals/{first}")]
    );
    assert!(page.text.contains("{\n  \"n\": 3\n}"), "{}", page.text);
    assert!(page.text.contains("dangerous") && page.text.contains("GET /v1/approvals"));
    let reply = browser.decide(&first, "approve", "").await;
    let page = format!("/ui/approvals/{first}");
    assert_eq!((reply.status.as_u16(), reply.header("location")), (303, Some(page.as_str())));
    let resume = format!("/v1/calls/{first}/resume?wait=30s");
    let done = bench.agent.post(&resume, &json!({})).await.expect_ok();
    assert_eq!((&done["status"], &done["result"]), (&json!("succeeded"), &json!({"n": 3})));
    let reply = browser.decide(&second, "deny", "  <b>not</b> now\u{202e} ").await;
    assert_eq!(reply.status, 303, "{}", reply.text());
    let denied = state_of(&bench, &second).await;
    assert_eq!(denied["decided"]["door"], "console");
    assert_eq!(denied["decided"]["reason"], "<b>not</b> now\\u{202e}");
    let text = browser.page(&format!("/ui/approvals/{second}")).await.text;
    assert!(text.contains("<b>not</b> now\\u{202e}"), "{text}");
    assert_eq!((bench.ran.call_count(), bench.executed()), (1, vec![r#"{"n":3}"#.to_owned()]));
    // A decided call has no forms, and a second decision is a conflict, as in REST.
    let page = browser.page(&format!("/ui/approvals/{second}")).await;
    assert_eq!(page.hidden_field("arguments_sha256"), None);
    assert_eq!(browser.decide(&second, "deny", "").await.status, 409);
    assert!(browser.page("/ui/approvals").await.entries().is_empty());
    assert_eq!(browser.page("/ui/approvals?state=all").await.entries().len(), 2);
}

#[tokio::test]
async fn an_approval_covers_the_arguments_that_the_page_showed() {
    let bench = ApprovalServer::new().await;
    let browser = Browser::sign_in(&bench.server, &bench.owner).await;
    let id = bench.pending_call(json!({"n": 1})).await;
    let path = format!("/ui/approvals/{id}");
    let stale = browser.page(&path).await.hidden_field("arguments_sha256").unwrap().to_owned();
    bench.decide(&id, "edit", json!({"arguments": {"n": 9}})).await;
    let approve = format!("{path}/approve");
    let reply = browser.post(&approve, &[("arguments_sha256", &stale)]).await;
    assert_eq!(reply.status, 409, "{}", reply.text());
    for bad in ["", "x"] {
        assert_eq!(browser.post(&approve, &[("arguments_sha256", bad)]).await.status, 400, "{bad}");
    }
    assert_eq!(browser.post(&approve, &[]).await.status, 400, "no hash approves nothing");
    assert_eq!(bench.ran.call_count(), 0);
    assert_eq!(browser.decide(&id, "approve", "").await.status, 303, "the control");
}

/// Each refused post has the rest of what a form needs; the last one has everything.
#[tokio::test]
async fn a_post_from_elsewhere_decides_nothing() {
    let bench = ApprovalServer::new().await;
    let browser = Browser::sign_in(&bench.server, &bench.owner).await;
    let other = Browser::sign_in(&bench.server, &bench.owner).await;
    let id = bench.pending_call(json!({"n": 1})).await;
    let deny = format!("/ui/approvals/{id}/deny");
    let (token, foreign) = (browser.form_token().await, other.form_token().await);
    assert_ne!(token, foreign);
    let (origin, host) = (browser.origin.as_str(), bench.server.address.to_string());
    let port = bench.server.address.port();
    let alias = format!("http://localhost:{port}");
    let next_port = format!("http://127.0.0.1:{}", port.wrapping_add(1));
    let user = format!("http://{host}@evil.example");
    let own = &[("form_token", token.as_str())][..];
    let session = browser.cookie.split_once('=').unwrap().1;
    let cases = [
        ("no token", None, vec![("origin", origin)]),
        ("empty token", Some(""), vec![("origin", origin)]),
        ("token of another session", Some(foreign.as_str()), vec![("origin", origin)]),
        ("the session's cookie as token", Some(session), vec![("origin", origin)]),
        ("no origin", Some(&*token), vec![]),
        ("another site", Some(&*token), vec![("origin", "https://evil.example")]),
        ("a hidden origin", Some(&*token), vec![("origin", "null")]),
        ("another port", Some(&*token), vec![("origin", &next_port)]),
        ("another name of this machine", Some(&*token), vec![("origin", &alias)]),
        ("a user name", Some(&*token), vec![("origin", &user)]),
        ("same-site", Some(&*token), vec![("origin", origin), ("sec-fetch-site", "same-site")]),
        ("cross-site", Some(&*token), vec![("origin", origin), ("sec-fetch-site", "cross-site")]),
    ];
    for (what, token, headers) in cases {
        let fields: Vec<_> = token.map(|token| ("form_token", token)).into_iter().collect();
        let reply = browser.post_from(&deny, &fields, &headers).await;
        assert_eq!(reply.status, 403, "{what}: {}", reply.text());
    }
    // A page of another site can send these types without asking first.
    for kind in ["text/plain", "multipart/form-data; boundary=x"] {
        let headers = [("origin", origin), ("content-type", kind)];
        assert_eq!(browser.post_from(&deny, own, &headers).await.status, 400, "{kind}");
    }
    // A form without the cookie, or by GET.
    let keyless = browser.without_cookie();
    let reply = keyless.post_from(&deny, own, &[("origin", origin)]).await;
    assert_eq!(
        (reply.status.as_u16(), reply.header("location")),
        (303, Some("/ui/sign-in?next=%2Fui"))
    );
    assert_eq!(browser.get(&format!("{deny}?form_token={token}")).await.status, 405);
    assert_eq!(state_of(&bench, &id).await["state"], "pending");
    let headers = [("origin", origin), ("sec-fetch-site", "same-origin")];
    assert_eq!(browser.post_from(&deny, own, &headers).await.status, 303, "the control");
    assert_eq!(state_of(&bench, &id).await["state"], "denied");
}

/// An origin that may call the REST interface does not act for a signed-in user.
#[tokio::test]
async fn an_allowed_origin_sends_no_forms() {
    let setup = crate::support::ServerSetup {
        offers: crate::support::tools::standard_offers(),
        hosts: server_core::Hosts {
            origins: vec!["https://app.example".to_owned()],
            ..Default::default()
        },
        ..Default::default()
    };
    let server = crate::support::FixtureServer::with_setup(setup).await;
    let owner = server.owner_client().await;
    let browser = Browser::sign_in(&server, &owner).await;
    let token = browser.form_token().await;
    let app = [("origin", "https://app.example")];
    let reply = browser.post_from("/ui/sign-out", &[("form_token", &token)], &app).await;
    assert_eq!(reply.status, 403, "{}", reply.text());
    assert_eq!(
        owner.with_header("origin", "https://app.example").get("/v1/tools").await.status,
        200
    );
    assert_eq!(browser.post("/ui/sign-out", &[]).await.status, 303, "the control");
}

/// Another site cannot sign a browser in with a key of its own.
#[tokio::test]
async fn a_sign_in_form_belongs_to_the_browser_that_loaded_it() {
    let bench = ApprovalServer::new().await;
    let keyless = bench.server.keyless_client();
    let origin = format!("http://{}", bench.server.address);
    let bearer = bench.owner.bearer();
    let key = bearer.strip_prefix("Bearer ").unwrap();
    let load = async || {
        let reply = keyless.get("/ui/sign-in").await;
        let token = Page::parse(reply.text()).hidden_field("form_token").unwrap().to_owned();
        (token, stored_cookies(&reply).remove(0))
    };
    let (token, cookie) = load().await;
    let (_, other_cookie) = load().await;
    let send = async |token: &str, cookie: &str, origin: &str| {
        let client = keyless
            .with_header("origin", origin)
            .with_header("cookie", cookie)
            .with_header("content-type", "application/x-www-form-urlencoded");
        let fields = encode_form(&[("form_token", token), ("key", key)]);
        client.send(hyper::Method::POST, "/ui/sign-in", fields).await.status.as_u16()
    };
    assert_eq!(send(&token, &cookie, "https://evil.example").await, 403);
    assert_eq!(send(&token, &other_cookie, &origin).await, 403);
    assert_eq!(send(&token, "a=b", &origin).await, 403);
    assert_eq!(send("", &cookie, &origin).await, 403);
    assert_eq!(send(&token, &cookie, &origin).await, 303, "the control");
}

#[tokio::test]
async fn a_large_form_is_refused() {
    let bench = ApprovalServer::new().await;
    let browser = Browser::sign_in(&bench.server, &bench.owner).await;
    let id = bench.pending_call(json!({"n": 1})).await;
    let deny = format!("/ui/approvals/{id}/deny");
    let large = "a".repeat(64 << 10);
    assert_eq!(browser.post(&deny, &[("reason", &large)]).await.status, 413);
    assert_eq!(state_of(&bench, &id).await["state"], "pending");
}
