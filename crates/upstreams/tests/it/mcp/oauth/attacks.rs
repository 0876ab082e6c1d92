//! Servers and answers that want what is not theirs. Each attack has its control.

use serde_json::{Value, json};
use testkit::oauth::{Authority, Habits};
use tool::source::SourceFault;
use tool::{Code, Source as _};
use upstreams::mcp::oauth::Settings;

use super::{World, refused};
use crate::mcp::runs::runner;

/// The source can be used, and its token came from its own authority.
async fn works(world: &World, settings: Settings) {
    let source = world.source(settings);
    runner(&source, "guarded.read").await.call("{}").await.unwrap();
    source.close().await;
}

#[tokio::test]
async fn metadata_that_speak_for_another_issuer_are_not_used() {
    let honest = Authority::start(Habits::default());
    for issuer in [honest.url().to_owned(), "https://attacker.example".to_owned(), String::new()] {
        let world =
            World::with(Habits { metadata: json!({"issuer": issuer}), ..Habits::default() });
        let source = world.source(world.alone());
        let error = refused(&source).await;
        assert_eq!(error.kind, SourceFault::Blocked, "{error}");
        assert_eq!(world.tokens(), 0);
        source.close().await;
        world.authority.change(|habits| habits.metadata = json!({}));
        works(&world, world.alone()).await;
    }
}

#[tokio::test]
async fn a_trailing_slash_is_another_issuer() {
    let world = World::new();
    let slash = format!("{}/", world.authority.url());
    world.authority.change(|habits| habits.metadata = json!({"issuer": slash}));
    let source = world.source(world.alone());
    assert_eq!(refused(&source).await.kind, SourceFault::Blocked);
    source.close().await;
}

#[tokio::test]
async fn only_the_configured_issuer_is_asked() {
    let world = World::new();
    let settings = Settings { issuer: Some("http://127.0.0.1:9/".to_owned()), ..world.alone() };
    let source = world.source(settings);
    let error = refused(&source).await;
    assert!(error.problem.message.contains("nothing is sent there"), "{error}");
    assert_eq!(world.tokens(), 0);
    source.close().await;
    let issuer = Some(world.authority.url().to_owned());
    works(&world, Settings { issuer, ..world.alone() }).await;
}

#[tokio::test]
async fn metadata_of_another_resource_bring_no_token() {
    let world = World::new();
    for resource in ["https://evil.example/mcp", "http://127.0.0.1:9/mcp", "x"] {
        world.resource.says(json!({"resource": resource}));
        let source = world.source(world.alone());
        let error = refused(&source).await;
        assert!(error.problem.message.contains("another resource"), "{error}");
        source.close().await;
    }
    assert_eq!(world.tokens(), 0);
    world.resource.says(json!({}));
    works(&world, world.alone()).await;
}

#[tokio::test]
async fn private_addresses_that_a_server_names_are_not_dialled() {
    let world = World::new();
    for named in [
        "https://10.0.0.1/",
        "https://169.254.169.254/latest",
        "https://[fd00::1]/",
        "https://192.168.1.1:8443",
        "http://public.example/",
        "file:///etc/passwd",
    ] {
        world.resource.says(json!({"authorization_servers": [named]}));
        let source = world.source(world.alone());
        let error = refused(&source).await;
        assert!(
            matches!(error.kind, SourceFault::Blocked | SourceFault::Malformed),
            "{named}: {error}"
        );
        source.close().await;
    }
    assert_eq!(world.tokens(), 0);
    world.resource.says(json!({}));
    for named in ["https://10.0.0.1/token", "http://169.254.169.254/token"] {
        world.authority.change(|habits| habits.metadata = json!({"token_endpoint": named}));
        let source = world.source(world.alone());
        assert_eq!(refused(&source).await.kind, SourceFault::Blocked, "{named}");
        source.close().await;
    }
    world.authority.change(|habits| habits.metadata = json!({}));
    works(&world, world.alone()).await;
}

#[tokio::test]
async fn no_redirect_is_followed_with_or_without_a_secret() {
    let trap = Authority::start(Habits::default());
    let world = World::new();
    let to = format!("{}/token", trap.url());
    world.authority.change(|habits| habits.redirect_token = Some(to.clone()));
    let source = world.source(world.alone());
    let error = refused(&source).await;
    assert!(error.problem.message.contains("which is not followed"), "{error}");
    source.close().await;
    let to = format!("{}/.well-known/oauth-authorization-server", trap.url());
    world.authority.change(|habits| {
        habits.redirect_token = None;
        habits.redirect_metadata = Some(to.clone());
    });
    let source = world.source(world.alone());
    assert!(refused(&source).await.problem.message.contains("which is not followed"));
    source.close().await;
    assert!(trap.seen("/").is_empty());
    // The control: whoever follows gets there.
    assert_eq!(super::person::get(&to).await.0, 200);
    assert_eq!(trap.seen("/").len(), 1);
}

#[tokio::test]
async fn garbage_is_an_error_and_takes_nothing_down() {
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let long = format!("{{\"issuer\":\"{}\"}}", "x".repeat(300_000));
    let world = World::new();
    for raw in ["", "null", "[]", "{", "\u{0}", "{\"issuer\":1}", "<html>", &deep, &long] {
        world.authority.change(|habits| habits.raw_metadata = Some(raw.to_owned()));
        let source = world.source(world.alone());
        let error = refused(&source).await;
        assert!(error.problem.message.len() < 1_500, "{error}");
        source.close().await;
    }
    assert_eq!(world.tokens(), 0);
    world.authority.change(|habits| habits.raw_metadata = None);
    for (member, value) in [
        ("authorization_servers", json!("x")),
        ("authorization_servers", json!(["x"])),
        ("authorization_servers", json!([1])),
        ("resource", json!({})),
        ("scopes_supported", json!("read")),
    ] {
        world.resource.says(Value::Object([(member.to_owned(), value)].into_iter().collect()));
        let source = world.source(world.alone());
        refused(&source).await;
        source.close().await;
    }
    world.resource.says(json!({}));
    works(&world, world.alone()).await;
}

#[tokio::test]
async fn a_source_that_moved_takes_no_tokens_along() {
    let world = World::new();
    let source = world.source(world.settings());
    super::person::log_in(&source).await;
    source.close().await;
    let thief = testkit::oauth::Resource::start(&world.authority);
    let source = world.source(Settings { url: thief.url().to_owned(), ..world.settings() });
    assert!(refused(&source).await.problem.message.contains("consent"));
    assert!(thief.seen("/mcp").iter().all(|seen| seen.header("authorization").is_none()));
    source.close().await;
    works(&world, world.settings()).await;
}

#[tokio::test]
async fn an_address_that_is_not_encrypted_is_no_place_for_tokens() {
    let world = World::new();
    let plain = Settings { url: "http://mcp.example/".to_owned(), ..world.settings() };
    let means = || upstreams::mcp::oauth::Means {
        egress: crate::mcp::site::egress(),
        store: None,
        clock: std::sync::Arc::new(testkit::clock::FakeClock::default()),
    };
    let problem = upstreams::mcp::oauth::Account::new(plain.clone(), means()).unwrap_err();
    assert_eq!(problem.place, "url");
    let encrypted = Settings { url: "https://mcp.example/".to_owned(), ..plain };
    assert!(upstreams::mcp::oauth::Account::new(encrypted, means()).is_ok());
}

#[tokio::test]
async fn a_call_without_consent_says_what_to_do() {
    let world = World::new();
    let source = world.source(world.settings());
    super::person::log_in(&source).await;
    let tool = runner(&source, "guarded.read").await;
    source.consent().unwrap().forget().await.unwrap();
    let error = tool.call("{}").await.unwrap_err();
    assert_eq!(error.code, Code::CredentialMissing);
    assert!(error.message.ends_with("run `toolkeep source login guarded`"), "{error}");
    source.close().await;
}
