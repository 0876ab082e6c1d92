//! OAuth attacks by hostile servers and answers. Each has its control.

use oauth_client::{ClientAuth, ConfiguredClient, OAuthSettings};
use serde_json::{Value, json};
use source_mcp::McpSource;
use testkit::oauth::{AuthorityBehavior, AuthorizationServer};
use tool::source::SourceErrorKind;
use tool::{ErrorCode, Source as _};
use url::Url;

use super::person::{REDIRECT, agreed, consent, get, log_in};
use super::{World, refused};
use crate::mcp::runs::runner;

/// Checks that the source works, with a token of its own authorization server.
async fn works(world: &World, settings: OAuthSettings) {
    let source = world.source(settings);
    runner(&source, "guarded.read").await.call("{}").await.unwrap();
    source.shut_down().await;
}

#[tokio::test]
async fn metadata_that_speak_for_another_issuer_are_not_used() {
    let honest = AuthorizationServer::start_server(AuthorityBehavior::default());
    for issuer in [honest.url().to_owned(), "https://attacker.example".to_owned(), String::new()] {
        let world = World::with(AuthorityBehavior {
            metadata: json!({"issuer": issuer}),
            ..AuthorityBehavior::default()
        });
        let source = world.source(world.alone());
        let error = refused(&source).await;
        assert_eq!(error.kind, SourceErrorKind::Blocked, "{error}");
        assert_eq!(world.tokens(), 0);
        source.shut_down().await;
        world.authority.change_behavior(|habits| habits.metadata = json!({}));
        works(&world, world.alone()).await;
    }
}

#[tokio::test]
async fn a_trailing_slash_is_another_issuer() {
    let world = World::new();
    let slash = format!("{}/", world.authority.url());
    world.authority.change_behavior(|habits| habits.metadata = json!({"issuer": slash}));
    let source = world.source(world.alone());
    assert_eq!(refused(&source).await.kind, SourceErrorKind::Blocked);
    source.shut_down().await;
}

#[tokio::test]
async fn only_the_configured_issuer_is_asked() {
    let world = World::new();
    let settings =
        OAuthSettings { issuer: Some("http://127.0.0.1:9/".to_owned()), ..world.alone() };
    let source = world.source(settings);
    let error = refused(&source).await;
    assert!(error.problem.message.contains("so no request was sent there"), "{error}");
    assert_eq!(world.tokens(), 0);
    source.shut_down().await;
    let issuer = Some(world.authority.url().to_owned());
    works(&world, OAuthSettings { issuer, ..world.alone() }).await;
}

#[tokio::test]
async fn metadata_of_another_resource_bring_no_token() {
    let world = World::new();
    for resource in ["https://evil.example/mcp", "http://127.0.0.1:9/mcp", "x"] {
        world.resource.set_metadata(json!({"resource": resource}));
        let source = world.source(world.alone());
        let error = refused(&source).await;
        assert!(error.problem.message.contains("another resource"), "{error}");
        source.shut_down().await;
    }
    assert_eq!(world.tokens(), 0);
    world.resource.set_metadata(json!({}));
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
        world.resource.set_metadata(json!({"authorization_servers": [named]}));
        let source = world.source(world.alone());
        let error = refused(&source).await;
        assert!(
            matches!(error.kind, SourceErrorKind::Blocked | SourceErrorKind::MalformedReply),
            "{named}: {error}"
        );
        source.shut_down().await;
    }
    assert_eq!(world.tokens(), 0);
    world.resource.set_metadata(json!({}));
    for named in ["https://10.0.0.1/token", "http://169.254.169.254/token"] {
        world
            .authority
            .change_behavior(|habits| habits.metadata = json!({"token_endpoint": named}));
        let source = world.source(world.alone());
        assert_eq!(refused(&source).await.kind, SourceErrorKind::Blocked, "{named}");
        source.shut_down().await;
    }
    world.authority.change_behavior(|habits| habits.metadata = json!({}));
    works(&world, world.alone()).await;
}

#[tokio::test]
async fn no_redirect_is_followed_with_or_without_a_secret() {
    let trap = AuthorizationServer::start_server(AuthorityBehavior::default());
    let world = World::new();
    let to = format!("{}/token", trap.url());
    world.authority.change_behavior(|habits| habits.redirect_token = Some(to.clone()));
    let source = world.source(world.alone());
    let error = refused(&source).await;
    assert!(error.problem.message.contains("which is not followed"), "{error}");
    source.shut_down().await;
    let to = format!("{}/.well-known/oauth-authorization-server", trap.url());
    world.authority.change_behavior(|habits| {
        habits.redirect_token = None;
        habits.redirect_metadata = Some(to.clone());
    });
    let source = world.source(world.alone());
    assert!(refused(&source).await.problem.message.contains("which is not followed"));
    source.shut_down().await;
    assert!(trap.requests_at("/").is_empty());
    // Control: a client that follows the redirect reaches the target.
    assert_eq!(get(&to).await.0, 200);
    assert_eq!(trap.requests_at("/").len(), 1);
}

#[tokio::test]
async fn garbage_is_an_error_and_takes_nothing_down() {
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let long = format!("{{\"issuer\":\"{}\"}}", "x".repeat(300_000));
    let world = World::new();
    for raw in ["", "null", "[]", "{", "\u{0}", "{\"issuer\":1}", "<html>", &deep, &long] {
        world.authority.change_behavior(|habits| habits.raw_metadata = Some(raw.to_owned()));
        let source = world.source(world.alone());
        let error = refused(&source).await;
        assert!(error.problem.message.len() < 1_500, "{error}");
        source.shut_down().await;
    }
    assert_eq!(world.tokens(), 0);
    world.authority.change_behavior(|habits| habits.raw_metadata = None);
    for (member, value) in [
        ("authorization_servers", json!("x")),
        ("authorization_servers", json!(["x"])),
        ("authorization_servers", json!([1])),
        ("resource", json!({})),
        ("scopes_supported", json!("read")),
    ] {
        world
            .resource
            .set_metadata(Value::Object([(member.to_owned(), value)].into_iter().collect()));
        let source = world.source(world.alone());
        refused(&source).await;
        source.shut_down().await;
    }
    world.resource.set_metadata(json!({}));
    works(&world, world.alone()).await;
}

#[tokio::test]
async fn a_source_that_moved_takes_no_tokens_along() {
    let world = World::new();
    let source = world.source(world.settings());
    log_in(&source).await;
    source.shut_down().await;
    let thief = testkit::oauth::ProtectedServer::start_server(&world.authority);
    let source =
        world.source(OAuthSettings { source_url: thief.url().to_owned(), ..world.settings() });
    assert!(refused(&source).await.problem.message.contains("consent"));
    assert!(
        thief.requests_at("/mcp").iter().all(|seen| seen.header_text("authorization").is_none())
    );
    source.shut_down().await;
    works(&world, world.settings()).await;
}

#[tokio::test]
async fn an_address_that_is_not_encrypted_is_no_place_for_tokens() {
    let world = World::new();
    let plain = OAuthSettings { source_url: "http://mcp.example/".to_owned(), ..world.settings() };
    let means = || oauth_client::OAuthDependencies {
        egress: crate::mcp::site::egress(),
        store: None,
        clock: std::sync::Arc::new(testkit::clock::FakeClock::default()),
    };
    let problem = oauth_client::TokenProvider::new(plain.clone(), means()).unwrap_err();
    assert_eq!(problem.location, "url");
    let encrypted = OAuthSettings { source_url: "https://mcp.example/".to_owned(), ..plain };
    assert!(oauth_client::TokenProvider::new(encrypted, means()).is_ok());
}

#[tokio::test]
async fn a_call_without_consent_says_what_to_do() {
    let world = World::new();
    let source = world.source(world.settings());
    log_in(&source).await;
    let tool = runner(&source, "guarded.read").await;
    source.consent_flow().unwrap().revoke_consent().await.unwrap();
    let error = tool.call("{}").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::CredentialMissing);
    assert!(error.message.ends_with("run `toolkeep source login guarded`"), "{error}");
    source.shut_down().await;
}

/// Settings of a person's login, with a registered client and its secret.
fn with_secret(world: &World) -> OAuthSettings {
    let proof = ClientAuth::Secret(tool::Secret::new("s3cret"));
    let client = Some(ConfiguredClient { client_id: "known".to_owned(), auth: proof });
    OAuthSettings { client, ..world.settings() }
}

/// Whether the client's secret was sent to this server in any request.
fn was_shown(authority: &AuthorizationServer) -> bool {
    let basic = |text: Option<&str>| text.is_some_and(|text| text.starts_with("Basic "));
    authority.requests_at("/").iter().any(|seen| {
        basic(seen.header_text("authorization"))
            || format!("{:?}", seen.form_fields()).contains("s3cret")
    })
}

async fn begun(source: &McpSource) -> Result<String, tool::Problem> {
    consent(source).begin_consent(REDIRECT).await
}

/// The client secret belongs to the authorization server of the first login.
#[tokio::test]
async fn a_secret_of_a_person_s_login_goes_to_no_authorization_server_that_came_later() {
    let world = World::new();
    let source = world.source(with_secret(&world));
    log_in(&source).await;
    assert!(was_shown(&world.authority), "the control: it is seen where it goes");
    let other = AuthorizationServer::start_server(AuthorityBehavior::default());
    world.resource.set_authority(&other);
    let refused_now = |problem: tool::Problem| {
        assert!(problem.message.contains("was not sent there"), "{problem:?}");
        assert!(problem.help.unwrap().contains("`issuer`"));
    };
    refused_now(begun(&source).await.unwrap_err());
    // Neither after a logout, nor in the next process.
    assert!(consent(&source).revoke_consent().await.unwrap());
    refused_now(begun(&source).await.unwrap_err());
    source.shut_down().await;
    let source = world.source(with_secret(&world));
    refused(&source).await;
    refused_now(begun(&source).await.unwrap_err());
    source.shut_down().await;
    assert!(!was_shown(&other));
    // Control: the operator configures the issuer.
    let issuer = Some(other.url().to_owned());
    let source = world.source(OAuthSettings { issuer, ..with_secret(&world) });
    log_in(&source).await;
    assert!(was_shown(&other));
    source.shut_down().await;
}

/// The person sees the honest server's page, but the code would go to another server.
#[tokio::test]
async fn a_login_page_of_another_origin_than_the_token_endpoint_is_not_shown() {
    let (honest, world) =
        (AuthorizationServer::start_server(AuthorityBehavior::default()), World::new());
    let page = format!("{}/authorize", honest.url());
    world.authority.change_behavior(|habits| {
        habits.metadata = json!({"authorization_endpoint": page,
            "authorization_response_iss_parameter_supported": null});
    });
    let source = world.source(with_secret(&world));
    refused(&source).await;
    let problem = begun(&source).await.unwrap_err();
    assert!(problem.message.contains("different origins"), "{problem:?}");
    source.shut_down().await;
    assert_eq!(world.tokens(), 0);
    // Control: if the operator configures the server, its page may have another origin.
    let issuer = Some(world.authority.url().to_owned());
    let source = world.source(OAuthSettings { issuer, ..with_secret(&world) });
    refused(&source).await;
    assert!(begun(&source).await.unwrap().starts_with(&page));
    source.shut_down().await;
}

/// A hostile server redirects the browser to an honest one's page, which does not identify the
/// issuer.
#[tokio::test]
async fn each_authorization_server_has_an_address_of_its_own_to_come_back_to() {
    let world = World::new();
    let silent = || AuthorityBehavior {
        metadata: json!({"authorization_response_iss_parameter_supported": null}),
        iss: Some(None),
        ..AuthorityBehavior::default()
    };
    world.authority.change_behavior(|habits| *habits = silent());
    let honest = AuthorizationServer::start_server(silent());
    let back = |url: &str| {
        let url = Url::parse(url).unwrap();
        let found = url.query_pairs().find(|(name, _)| name == "redirect_uri").unwrap().1;
        Url::parse(&found).unwrap()
    };
    let source = world.source(with_secret(&world));
    refused(&source).await;
    // The honest server has the redirect address of a login there.
    world.resource.set_authority(&honest);
    let at_honest = back(&begun(&source).await.unwrap());
    world.resource.set_authority(&world.authority);
    let url = begun(&source).await.unwrap();
    let hostile = back(&url);
    assert_ne!(at_honest.path(), hostile.path());
    assert_eq!(back(&begun(&source).await.unwrap()).path(), hostile.path(), "the same each time");
    // The honest server accepts its own address only, and so returns the code there, with the
    // original `state`.
    let forged = url.replace(world.authority.url(), honest.url()).replace(
        hostile.path().rsplit('/').next().unwrap(),
        at_honest.path().rsplit('/').next().unwrap(),
    );
    let answer = agreed(&forged).await;
    assert!(answer.starts_with(at_honest.path()), "{answer}");
    let problem = consent(&source).finish_consent(&answer).await.unwrap_err();
    assert!(problem.message.contains("ignored the redirect"), "{problem:?}");
    // An answer without an issuer is rejected too.
    let answer = agreed(&begun(&source).await.unwrap()).await;
    let (_, query) = answer.split_once('?').unwrap();
    assert!(consent(&source).finish_consent(query).await.is_err());
    assert_eq!(world.tokens(), 0);
    // Control: the honest answer is accepted.
    let answer = agreed(&begun(&source).await.unwrap()).await;
    consent(&source).finish_consent(&answer).await.unwrap();
    assert_eq!(world.tokens(), 1);
    source.shut_down().await;
}

/// A source on loopback may have no access to other loopback ports, and gets none through Toolkeep.
#[tokio::test]
async fn a_source_on_loopback_opens_no_other_port_of_it() {
    let world = World::new();
    let closed = |settings: OAuthSettings| OAuthSettings { any_loopback_port: false, ..settings };
    let source = world.source(closed(world.alone()));
    let error = refused(&source).await;
    assert_eq!(error.kind, SourceErrorKind::Blocked, "{error}");
    source.shut_down().await;
    let source = world.source(closed(world.settings()));
    refused(&source).await;
    assert!(begun(&source).await.is_err());
    source.shut_down().await;
    assert!(world.authority.requests_at("/").is_empty(), "nothing was asked there");
    // Controls: the operator configures that server, or allows all.
    let issuer = Some(world.authority.url().to_owned());
    works(&world, closed(OAuthSettings { issuer, ..world.alone() })).await;
    works(&world, world.alone()).await;
}
