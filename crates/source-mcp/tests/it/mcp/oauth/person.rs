//! Tests of OAuth with a person's consent.

use egress::{Origin, RequestLimits, UrlTrust};
use http::{Request, header};
use oauth_client::{ClientAuth, ConfiguredClient, OAuthSettings};
use serde_json::json;
use source_mcp::McpSource;
use testkit::oauth::{AuthorityBehavior, AuthorizationServer};
use tool::source::ConsentFlow;
use tool::{ErrorCode, Problem, Source as _};
use url::Url;

use super::{World, refused};
use crate::mcp::runs::runner;
use crate::mcp::site::egress;

pub(super) const REDIRECT: &str = "http://127.0.0.1:7777/callback";

/// Requests a page like a browser; returns the status and the redirect target.
pub(super) async fn get(url: &str) -> (u16, Option<String>) {
    let class = UrlTrust::Configured { origin: Origin::parse(url).unwrap() };
    let mut request = Request::new(bytes::Bytes::new());
    *request.uri_mut() = url.parse().unwrap();
    let response = egress().send_request(&class, request, RequestLimits::default()).await.unwrap();
    let to = response.headers().get(header::LOCATION);
    (response.status().as_u16(), to.map(|to| to.to_str().unwrap().to_owned()))
}

/// Consents as the person; returns the path and query of the redirect.
pub(super) async fn agreed(url: &str) -> String {
    let (status, to) = get(url).await;
    assert_eq!(status, 302, "{url}");
    let to = to.unwrap();
    assert!(to.starts_with(REDIRECT), "{to}");
    Url::parse(&to).unwrap()[url::Position::BeforePath..].to_owned()
}

pub(super) fn consent(source: &McpSource) -> &dyn ConsentFlow {
    source.consent_flow().unwrap()
}

pub(super) async fn log_in(source: &McpSource) {
    refused(source).await;
    let url = consent(source).begin_consent(REDIRECT).await.unwrap();
    consent(source).finish_consent(&agreed(&url).await).await.unwrap();
    source.reset_backoff();
    source.list_offers().await.unwrap();
}

fn place(source: &McpSource) -> Problem {
    Problem::new(source.name().as_str(), "")
}

#[tokio::test]
async fn a_source_without_consent_says_the_command_and_works_after_it() {
    let world = World::new();
    let source = world.source(world.settings());
    let error = refused(&source).await;
    assert_eq!(error.problem.message, "needs the consent of a person");
    assert_eq!(error.problem.help.as_deref(), Some("run `toolkeep source login guarded`"));
    assert!(
        world.authority.requests_at("/").is_empty(),
        "nobody is asked before the operator says so"
    );
    log_in(&source).await;
    runner(&source, "guarded.read").await.call("{}").await.unwrap();
    let authorize = world.authority.requests_at("/authorize");
    let asked = authorize[0].form_fields();
    assert_eq!(asked["code_challenge_method"], "S256");
    assert_eq!(asked["resource"], world.resource.url());
    assert_eq!(asked["scope"], "read");
    let token = world.authority.requests_at("/token")[0].form_fields();
    assert_eq!(token["resource"], world.resource.url());
    assert!(token["redirect_uri"].starts_with(REDIRECT), "{}", token["redirect_uri"]);
    source.shut_down().await;
}

#[tokio::test]
async fn the_next_process_has_what_was_given() {
    let world = World::new();
    let source = world.source(world.settings());
    log_in(&source).await;
    source.shut_down().await;
    let source = world.source(world.settings());
    runner(&source, "guarded.read").await.call("{}").await.unwrap();
    assert_eq!((world.tokens(), world.authority.requests_at("/register").len()), (1, 1));
    source.shut_down().await;
}

#[tokio::test]
async fn refresh_tokens_are_used_once_and_the_new_one_is_kept() {
    let world = World::new();
    let source = world.source(world.settings());
    log_in(&source).await;
    let tool = runner(&source, "guarded.read").await;
    for _ in 0..3 {
        world.authority.revoke_access();
        tool.call("{}").await.unwrap();
    }
    source.shut_down().await;
    world.authority.revoke_access();
    let source = world.source(world.settings());
    runner(&source, "guarded.read").await.call("{}").await.unwrap();
    let refreshed = world.authority.requests_at("/token").into_iter().map(|it| it.form_fields());
    let shown: Vec<_> = refreshed.filter_map(|it| it.get("refresh_token").cloned()).collect();
    assert_eq!(shown.len(), 4);
    assert!(shown.windows(2).all(|two| two[0] != two[1]), "each good for once");
    source.shut_down().await;
}

#[tokio::test]
async fn an_authorization_server_that_is_down_locks_nobody_out() {
    let world = World::new();
    let source = world.source(world.settings());
    log_in(&source).await;
    let tool = runner(&source, "guarded.read").await;
    world.authority.revoke_access();
    world.authority.change_behavior(|habits| habits.failing_status = Some(503));
    let error = tool.call("{}").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::UpstreamFailed, "no consent is asked for");
    world.authority.change_behavior(|habits| habits.failing_status = None);
    source.reset_backoff();
    tool.call("{}").await.unwrap();
    source.shut_down().await;
}

#[tokio::test]
async fn what_was_taken_back_needs_a_person_again() {
    let world = World::new();
    let source = world.source(world.settings());
    log_in(&source).await;
    let tool = runner(&source, "guarded.read").await;
    world.authority.revoke_access();
    world.authority.revoke_refresh();
    for _ in 0..3 {
        let error = tool.call("{}").await.unwrap_err();
        assert_eq!(error.code, ErrorCode::CredentialMissing, "{error}");
    }
    assert_eq!(world.tokens(), 2, "a dead refresh token is shown once");
    source.shut_down().await;
}

#[tokio::test]
async fn two_processes_share_one_refresh_token() {
    let world = World::new();
    let one = world.source(world.settings());
    log_in(&one).await;
    let two = world.source(world.settings());
    let (first, second) = (runner(&one, "guarded.read").await, runner(&two, "guarded.read").await);
    world.authority.revoke_access();
    first.call("{}").await.unwrap();
    world.authority.revoke_access();
    // The other process used its refresh token and stored a newer one.
    second.call("{}").await.unwrap();
    one.shut_down().await;
    two.shut_down().await;
}

#[tokio::test]
async fn a_further_scope_is_a_problem_until_the_person_agrees() {
    let world = World::new();
    let source = world.source(world.settings());
    log_in(&source).await;
    let tool = runner(&source, "guarded.write").await;
    let error = tool.call("{}").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::CredentialMissing);
    assert!(error.message.contains("`write`; run `toolkeep source login guarded`"), "{error}");
    let listing = source.list_offers().await.unwrap();
    let problem = listing.problems.iter().find(|it| it.message.contains("`write`"));
    assert_eq!(problem.unwrap().help.as_deref(), Some("run `toolkeep source login guarded`"));
    let url = consent(&source).begin_consent(REDIRECT).await.unwrap();
    consent(&source).finish_consent(&agreed(&url).await).await.unwrap();
    tool.call("{}").await.unwrap();
    assert_eq!(
        world.authority.requests_at("/authorize").last().unwrap().form_fields()["scope"],
        "read write"
    );
    assert!(source.list_offers().await.unwrap().problems.is_empty());
    source.shut_down().await;
}

#[tokio::test]
async fn logging_out_forgets_here_and_there() {
    let world = World::new();
    let source = world.source(world.settings());
    log_in(&source).await;
    assert!(consent(&source).revoke_consent().await.unwrap());
    assert_eq!(world.authority.requests_at("/revoke").len(), 1);
    assert!(!consent(&source).revoke_consent().await.unwrap(), "there is nothing left");
    source.shut_down().await;
    let source = world.source(world.settings());
    assert!(refused(&source).await.problem.message.contains("consent"));
    source.shut_down().await;
}

#[tokio::test]
async fn tokens_and_clients_stay_with_the_authorization_server_that_gave_them() {
    let world = World::new();
    let source = world.source(world.settings());
    log_in(&source).await;
    let tool = runner(&source, "guarded.read").await;
    let other = AuthorizationServer::start_server(AuthorityBehavior::default());
    world.resource.set_authority(&other);
    assert_eq!(tool.call("{}").await.unwrap_err().code, ErrorCode::CredentialMissing);
    assert!(other.requests_at("/token").is_empty(), "the refresh token is none of its business");
    let url = consent(&source).begin_consent(REDIRECT).await.unwrap();
    consent(&source).finish_consent(&agreed(&url).await).await.unwrap();
    tool.call("{}").await.unwrap();
    assert_eq!(other.requests_at("/register").len(), 1);
    for seen in other.requests_at("/") {
        assert!(!format!("{:?}", seen.form_fields()).contains("refresh-"), "{seen:?}");
    }
    source.shut_down().await;
}

#[tokio::test]
async fn an_answer_that_is_not_the_servers_own_is_not_used() {
    let world = World::new();
    let source = world.source(world.settings());
    refused(&source).await;
    let begin = async || consent(&source).begin_consent(REDIRECT).await.unwrap();
    for iss in
        [Some("https://evil.example".to_owned()), Some(format!("{}/", world.authority.url())), None]
    {
        world.authority.change_behavior(|habits| habits.iss = Some(iss.clone()));
        let answer = agreed(&begin().await).await;
        let problem = consent(&source).finish_consent(&answer).await.unwrap_err();
        assert!(problem.message.contains("ignored the redirect"), "{iss:?}: {problem:?}");
        let again = consent(&source).finish_consent(&answer).await.unwrap_err();
        assert!(again.message.contains("has no login that matches this redirect"), "{again:?}");
    }
    // A server that does not declare `iss` may omit it, but may not send a wrong one.
    world.authority.change_behavior(|habits| {
        habits.metadata = json!({"authorization_response_iss_parameter_supported": null});
        habits.iss = Some(Some("https://evil.example".to_owned()));
    });
    assert!(consent(&source).finish_consent(&agreed(&begin().await).await).await.is_err());
    assert_eq!(world.tokens(), 0);
    world.authority.change_behavior(|habits| habits.iss = Some(None));
    consent(&source).finish_consent(&agreed(&begin().await).await).await.unwrap();
    assert_eq!(world.tokens(), 1);
    source.shut_down().await;
}

#[tokio::test]
async fn answers_are_taken_once_and_only_where_they_were_asked_for() {
    let world = World::new();
    let source = world.source(world.settings());
    refused(&source).await;
    let answer = agreed(&consent(&source).begin_consent(REDIRECT).await.unwrap()).await;
    for other in [
        String::new(),
        "code=x".to_owned(),
        "code=x&state=".to_owned(),
        "code=x&state=guess".to_owned(),
        format!("{answer}&state=twice"),
        "x".repeat(100_000),
    ] {
        let problem = consent(&source).finish_consent(&other).await.unwrap_err();
        assert!(problem.message.contains("has no login that matches this redirect"), "{problem:?}");
    }
    consent(&source).finish_consent(&answer).await.unwrap();
    assert!(consent(&source).finish_consent(&answer).await.is_err());
    assert_eq!(world.tokens(), 1);
    source.shut_down().await;
}

#[tokio::test]
async fn a_person_who_says_no_is_told_apart() {
    let world = World::new();
    let source = world.source(world.settings());
    refused(&source).await;
    let url = consent(&source).begin_consent(REDIRECT).await.unwrap();
    let url = Url::parse(&url).unwrap();
    let state = url.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
    let back = url.query_pairs().find(|(name, _)| name == "redirect_uri").unwrap().1.into_owned();
    let path = Url::parse(&back).unwrap().path().to_owned();
    let answer = format!("{path}?error=access_denied&state={state}&iss={}", world.authority.url());
    let problem = consent(&source).finish_consent(&answer).await.unwrap_err();
    assert_eq!(problem.message, "was denied access by the authorization server: access_denied");
    assert_eq!(problem.location, format!("`{}`", place(&source).location));
    source.shut_down().await;
}

#[tokio::test]
async fn nobody_is_sent_to_a_server_without_pkce_or_back_to_another_machine() {
    let world = World::new();
    let source = world.source(world.settings());
    refused(&source).await;
    for methods in [json!(null), json!([]), json!(["plain"])] {
        world.authority.change_behavior(|habits| {
            habits.metadata = json!({"code_challenge_methods_supported": methods});
        });
        let problem = consent(&source).begin_consent(REDIRECT).await.unwrap_err();
        assert!(problem.message.contains("without PKCE"), "{problem:?}");
    }
    world.authority.change_behavior(|habits| habits.metadata = json!({}));
    for redirect in ["http://evil.example/", "http://10.0.0.1/", "x", "ftp://127.0.0.1/"] {
        assert!(consent(&source).begin_consent(redirect).await.is_err(), "{redirect}");
    }
    let page = json!({"authorization_endpoint": "javascript:alert(1)"});
    world.authority.change_behavior(|habits| habits.metadata = page);
    assert!(consent(&source).begin_consent(REDIRECT).await.is_err());
    world.authority.change_behavior(|habits| habits.metadata = json!({}));
    assert!(consent(&source).begin_consent(REDIRECT).await.is_ok());
    source.shut_down().await;
}

#[tokio::test]
async fn clients_are_found_in_the_order_of_the_specification() {
    let document = "https://toolkeep.example/client.json";
    let world = World::new();
    let id = |url: String| {
        let url = Url::parse(&url).unwrap();
        url.query_pairs().find(|(name, _)| name == "client_id").unwrap().1.into_owned()
    };
    let source = |known: bool| {
        let client = ConfiguredClient { client_id: "known".to_owned(), auth: ClientAuth::Public };
        world.source(OAuthSettings {
            client: Some(client).filter(|_| known),
            client_metadata_url: Some(document.to_owned()),
            ..world.settings()
        })
    };
    let begin = async |known| {
        let source = source(known);
        refused(&source).await;
        let begun = consent(&source).begin_consent(REDIRECT).await;
        source.shut_down().await;
        begun
    };
    assert_eq!(id(begin(true).await.unwrap()), "known");
    assert_eq!(id(begin(false).await.unwrap()), "client-1", "it reads no documents");
    let reads = json!({"client_id_metadata_document_supported": true});
    world.authority.change_behavior(|habits| habits.metadata = reads);
    assert_eq!(id(begin(true).await.unwrap()), "known");
    assert_eq!(id(begin(false).await.unwrap()), document);
    let closed = json!({"registration_endpoint": null});
    world.authority.change_behavior(|habits| habits.metadata = closed);
    let problem = begin(false).await.unwrap_err();
    assert!(problem.help.unwrap().contains("`client_id`"));
    let registered = world.authority.requests_at("/register")[0].body.clone();
    let registered: serde_json::Value = serde_json::from_slice(&registered).unwrap();
    assert_eq!(registered["application_type"], "native");
    assert_eq!(registered["grant_types"], json!(["authorization_code", "refresh_token"]));
}
