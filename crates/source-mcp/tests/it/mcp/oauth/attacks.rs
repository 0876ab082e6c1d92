//! Servers and answers that want what is not theirs. Each attack has its control.

use oauth_client::{Proof, Registered, Settings};
use serde_json::{Value, json};
use source_mcp::McpSource;
use testkit::oauth::{Authority, Habits};
use tool::source::SourceFault;
use tool::{Code, Source as _};
use url::Url;

use super::person::{REDIRECT, agreed, consent, get, log_in};
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
    assert_eq!(get(&to).await.0, 200);
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
    log_in(&source).await;
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
    let means = || oauth_client::Means {
        egress: crate::mcp::site::egress(),
        store: None,
        clock: std::sync::Arc::new(testkit::clock::FakeClock::default()),
    };
    let problem = oauth_client::Account::new(plain.clone(), means()).unwrap_err();
    assert_eq!(problem.place, "url");
    let encrypted = Settings { url: "https://mcp.example/".to_owned(), ..plain };
    assert!(oauth_client::Account::new(encrypted, means()).is_ok());
}

#[tokio::test]
async fn a_call_without_consent_says_what_to_do() {
    let world = World::new();
    let source = world.source(world.settings());
    log_in(&source).await;
    let tool = runner(&source, "guarded.read").await;
    source.consent().unwrap().forget().await.unwrap();
    let error = tool.call("{}").await.unwrap_err();
    assert_eq!(error.code, Code::CredentialMissing);
    assert!(error.message.ends_with("run `toolkeep source login guarded`"), "{error}");
    source.close().await;
}

/// A person logs in, with a client that the operator registered by hand and its secret.
fn with_secret(world: &World) -> Settings {
    let proof = Proof::Secret(tool::Secret::new("s3cret"));
    let client = Some(Registered { id: "known".to_owned(), proof });
    Settings { client, ..world.settings() }
}

/// Whether the secret of the client stands in anything that a server was sent.
fn was_shown(authority: &Authority) -> bool {
    let basic = |text: Option<&str>| text.is_some_and(|text| text.starts_with("Basic "));
    authority.seen("/").iter().any(|seen| {
        basic(seen.header("authorization")) || format!("{:?}", seen.fields()).contains("s3cret")
    })
}

async fn begun(source: &McpSource) -> Result<String, tool::Problem> {
    consent(source).begin(REDIRECT).await
}

/// The operator's secret is of the authorization server that the first login was at.
#[tokio::test]
async fn a_secret_of_a_person_s_login_goes_to_no_authorization_server_that_came_later() {
    let world = World::new();
    let source = world.source(with_secret(&world));
    log_in(&source).await;
    assert!(was_shown(&world.authority), "the control: it is seen where it goes");
    let other = Authority::start(Habits::default());
    world.resource.move_to(&other);
    let refused_now = |problem: tool::Problem| {
        assert!(problem.message.contains("is not sent there"), "{problem:?}");
        assert!(problem.fix.unwrap().contains("`issuer`"));
    };
    refused_now(begun(&source).await.unwrap_err());
    // Nor after a logout, nor in the next process.
    assert!(consent(&source).forget().await.unwrap());
    refused_now(begun(&source).await.unwrap_err());
    source.close().await;
    let source = world.source(with_secret(&world));
    refused(&source).await;
    refused_now(begun(&source).await.unwrap_err());
    source.close().await;
    assert!(!was_shown(&other));
    // The control: the operator writes it down.
    let issuer = Some(other.url().to_owned());
    let source = world.source(Settings { issuer, ..with_secret(&world) });
    log_in(&source).await;
    assert!(was_shown(&other));
    source.close().await;
}

/// The person sees the honest server's page, and the code would go to another.
#[tokio::test]
async fn a_login_page_of_another_origin_than_the_token_endpoint_is_not_shown() {
    let (honest, world) = (Authority::start(Habits::default()), World::new());
    let page = format!("{}/authorize", honest.url());
    world.authority.change(|habits| {
        habits.metadata = json!({"authorization_endpoint": page,
            "authorization_response_iss_parameter_supported": null});
    });
    let source = world.source(with_secret(&world));
    refused(&source).await;
    let problem = begun(&source).await.unwrap_err();
    assert!(problem.message.contains("different origins"), "{problem:?}");
    source.close().await;
    assert_eq!(world.tokens(), 0);
    // The control: where the operator names the server, it may have its page elsewhere.
    let issuer = Some(world.authority.url().to_owned());
    let source = world.source(Settings { issuer, ..with_secret(&world) });
    refused(&source).await;
    assert!(begun(&source).await.unwrap().starts_with(&page));
    source.close().await;
}

/// A hostile server sends the browser on to an honest one's page, which does not say whose its answer is.
#[tokio::test]
async fn each_authorization_server_has_an_address_of_its_own_to_come_back_to() {
    let world = World::new();
    let silent = || Habits {
        metadata: json!({"authorization_response_iss_parameter_supported": null}),
        iss: Some(None),
        ..Habits::default()
    };
    world.authority.change(|habits| *habits = silent());
    let honest = Authority::start(silent());
    let back = |url: &str| {
        let url = Url::parse(url).unwrap();
        let found = url.query_pairs().find(|(name, _)| name == "redirect_uri").unwrap().1;
        Url::parse(&found).unwrap()
    };
    let source = world.source(with_secret(&world));
    refused(&source).await;
    // What the honest one has: the address that a login there comes back to.
    world.resource.move_to(&honest);
    let at_honest = back(&begun(&source).await.unwrap());
    world.resource.move_to(&world.authority);
    let url = begun(&source).await.unwrap();
    let hostile = back(&url);
    assert_ne!(at_honest.path(), hostile.path());
    assert_eq!(back(&begun(&source).await.unwrap()).path(), hostile.path(), "the same each time");
    // The honest one takes only its own address, and so brings the code there; with our own `state`.
    let forged = url.replace(world.authority.url(), honest.url()).replace(
        hostile.path().rsplit('/').next().unwrap(),
        at_honest.path().rsplit('/').next().unwrap(),
    );
    let answer = agreed(&forged).await;
    assert!(answer.starts_with(at_honest.path()), "{answer}");
    let problem = consent(&source).finish(&answer).await.unwrap_err();
    assert!(problem.message.contains("it is not used"), "{problem:?}");
    // Nor is one taken that does not say where it came.
    let answer = agreed(&begun(&source).await.unwrap()).await;
    let (_, query) = answer.split_once('?').unwrap();
    assert!(consent(&source).finish(query).await.is_err());
    assert_eq!(world.tokens(), 0);
    // The control.
    let answer = agreed(&begun(&source).await.unwrap()).await;
    consent(&source).finish(&answer).await.unwrap();
    assert_eq!(world.tokens(), 1);
    source.close().await;
}

/// Who serves a source on loopback may have no way to its other ports, and none by us.
#[tokio::test]
async fn a_source_on_loopback_opens_no_other_port_of_it() {
    let world = World::new();
    let closed = |settings: Settings| Settings { any_loopback_port: false, ..settings };
    let source = world.source(closed(world.alone()));
    let error = refused(&source).await;
    assert_eq!(error.kind, SourceFault::Blocked, "{error}");
    source.close().await;
    let source = world.source(closed(world.settings()));
    refused(&source).await;
    assert!(begun(&source).await.is_err());
    source.close().await;
    assert!(world.authority.seen("/").is_empty(), "nothing was asked there");
    // The controls: the operator names it, or all of them.
    let issuer = Some(world.authority.url().to_owned());
    works(&world, closed(Settings { issuer, ..world.alone() })).await;
    works(&world, world.alone()).await;
}
