//! Tests of OAuth with the installation's own client credentials.

use std::time::Duration;

use oauth_client::{ClientAuth, ConfiguredClient, OAuthSettings};
use serde_json::json;
use source_mcp::{McpOptions, ServerLimits};
use testkit::oauth::{AuthorityBehavior, AuthorizationServer};
use tokio::task::JoinSet;
use tool::executor::DispatchState;
use tool::source::SourceErrorKind;
use tool::{ErrorCode, Source as _};

use super::{World, refused};
use crate::mcp::runs::{Runner, Watch, runner, said};

async fn reads(world: &World) -> (source_mcp::McpSource, Runner) {
    let source = world.source(world.alone());
    let tool = runner(&source, "guarded.read").await;
    (source, tool)
}

#[tokio::test]
async fn one_token_is_found_out_about_asked_for_and_used() {
    let world = World::new();
    let (source, tool) = reads(&world).await;
    assert_eq!(said(&tool.call("{}").await.unwrap()), "done");
    let asked = world.authority.requests_at("/token");
    assert_eq!(asked.len(), 1);
    let fields = asked[0].form_fields();
    assert_eq!(fields["grant_type"], "client_credentials");
    assert_eq!(fields["resource"], world.resource.url());
    assert_eq!(fields["scope"], "read", "what the challenge wants, no more");
    assert!(!fields.contains_key("client_secret"), "it goes over as Basic, as the metadata say");
    assert!(world.resource.requests_at("/.well-known/oauth-protected-resource/mcp").len() == 1);
    source.shut_down().await;
}

#[tokio::test]
async fn a_thousand_calls_at_once_ask_for_one_token() {
    let world = World::new();
    let bounds = ServerLimits { max_in_flight_calls: 1_000, ..ServerLimits::default() };
    let options = McpOptions { limits: bounds, ..McpOptions::default() };
    let source = world.source_with(world.alone(), options);
    let tool = runner(&source, "guarded.read").await;
    assert_eq!(world.tokens(), 1);
    world.authority.revoke_access();
    world.authority.change_behavior(|habits| habits.token_delay = Duration::from_millis(100));
    let mut calls = JoinSet::new();
    for _ in 0..1_000 {
        calls.spawn(tool.clone().owned("{}".to_owned()));
    }
    while let Some(call) = calls.join_next().await {
        call.unwrap().unwrap();
    }
    assert_eq!((world.tokens(), world.resource.tool_calls().len()), (2, 1_000));
    source.shut_down().await;
}

#[tokio::test]
async fn the_operators_scopes_are_all_that_is_asked_for() {
    let world = World::new();
    let scopes = vec!["read".to_owned()];
    let source = world.source(OAuthSettings { scopes, ..world.alone() });
    let error = runner(&source, "guarded.write").await.call("{}").await.unwrap_err();
    assert!(error.message.contains("not in `scopes`"), "{error}");
    assert_eq!(world.tokens(), 1);
    source.shut_down().await;
    // Control: if the client may have them, they are requested at once.
    let scopes = vec!["read".to_owned(), "write".to_owned()];
    let source = world.source(OAuthSettings { scopes, ..world.alone() });
    runner(&source, "guarded.write").await.call("{}").await.unwrap();
    source.shut_down().await;
}

#[tokio::test]
async fn a_failed_request_for_a_token_is_one_for_all_who_wait() {
    let world = World::new();
    let (source, tool) = reads(&world).await;
    world.authority.revoke_access();
    world.authority.change_behavior(|habits| habits.failing_status = Some(503));
    let mut calls = JoinSet::new();
    for _ in 0..100 {
        calls.spawn(tool.clone().owned("{}".to_owned()));
    }
    while let Some(call) = calls.join_next().await {
        let error = call.unwrap().unwrap_err();
        assert_eq!(
            (error.code, error.dispatch),
            (ErrorCode::UpstreamFailed, DispatchState::NotSent)
        );
        assert!(error.message.contains("HTTP 503"), "{error}");
    }
    assert_eq!(world.tokens(), 2);
    // A restart by the operator skips the delay.
    world.authority.change_behavior(|habits| habits.failing_status = None);
    source.reset_backoff();
    tool.call("{}").await.unwrap();
    source.shut_down().await;
}

#[tokio::test]
async fn an_expired_token_is_not_sent() {
    let world =
        World::with(AuthorityBehavior { expires_in: Some(0), ..AuthorityBehavior::default() });
    let (source, tool) = reads(&world).await;
    let before = world.tokens();
    for _ in 0..3 {
        tool.call("{}").await.unwrap();
    }
    assert_eq!(world.tokens(), before + 3);
    let used: Vec<_> =
        world.resource.tool_calls().iter().map(|it| it.headers["authorization"].clone()).collect();
    assert_eq!(used.len(), 3);
    assert!(used[0] != used[1] && used[1] != used[2]);
    source.shut_down().await;
}

#[tokio::test]
async fn a_revoked_token_costs_one_repeat_and_no_call_runs_twice() {
    let world = World::new();
    let (source, tool) = reads(&world).await;
    tool.call("{}").await.unwrap();
    let before = world.resource.requests_at("/mcp").len();
    world.authority.revoke_access();
    tool.call("{}").await.unwrap();
    assert_eq!(world.tokens(), 2);
    assert_eq!(
        world.resource.requests_at("/mcp").len(),
        before + 2,
        "refused once, sent again once"
    );
    source.shut_down().await;
}

#[tokio::test]
async fn a_token_for_somebody_else_is_tried_once() {
    let world = World::with(AuthorityBehavior {
        audience: Some("http://other/".to_owned()),
        ..AuthorityBehavior::default()
    });
    let source = world.source(world.alone());
    let error = refused(&source).await;
    assert!(error.problem.message.contains("rejected a new token from"), "{error}");
    let asked = world.tokens();
    assert!(asked <= 2, "{asked} requests: one of each era at most");
    source.shut_down().await;
}

#[tokio::test]
async fn further_scopes_are_asked_for_beside_the_first() {
    let world = World::new();
    let (source, _) = reads(&world).await;
    let tool = runner(&source, "guarded.write").await;
    tool.call("{}").await.unwrap();
    let scopes: Vec<_> = world
        .authority
        .requests_at("/token")
        .iter()
        .map(|it| it.form_fields()["scope"].clone())
        .collect();
    assert_eq!(scopes, ["read", "read write"]);
    source.shut_down().await;
}

#[tokio::test]
async fn scopes_that_are_never_granted_are_not_asked_for_for_ever() {
    let grants = Some(["read".to_owned()].into());
    let world =
        World::with(AuthorityBehavior { granted_scopes: grants, ..AuthorityBehavior::default() });
    let (source, read) = reads(&world).await;
    let tool = runner(&source, "guarded.write").await;
    for _ in 0..3 {
        let error = tool.call("{}").await.unwrap_err();
        assert!(
            error.message.contains(
                "requires the scope `write`, which was \
            requested"
            ),
            "{error}"
        );
    }
    assert_eq!(world.tokens(), 2);
    read.call("{}").await.unwrap();
    source.shut_down().await;
}

#[tokio::test]
async fn who_gives_up_waiting_does_not_stop_the_others() {
    let world = World::new();
    let (source, tool) = reads(&world).await;
    world.authority.revoke_access();
    world.authority.change_behavior(|habits| habits.token_delay = Duration::from_millis(200));
    let (watch, impatient) = (Watch::default(), tool.clone());
    let given_up = async {
        while world.tokens() < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        watch.cancel.cancel();
    };
    let (call, ()) = tokio::join!(impatient.watched("{}", &watch), given_up);
    assert_eq!(call.unwrap_err().code, ErrorCode::Cancelled);
    tool.call("{}").await.unwrap();
    assert_eq!(world.tokens(), 2, "what was asked for is used");
    source.shut_down().await;
}

#[tokio::test]
async fn a_named_token_endpoint_needs_no_metadata() {
    let world = World::new();
    let endpoint = format!("{}/token", world.authority.url());
    let source = world.source(OAuthSettings { token_endpoint: Some(endpoint), ..world.alone() });
    runner(&source, "guarded.read").await.call("{}").await.unwrap();
    assert!(world.authority.requests_at("/.well-known").is_empty());
    assert!(world.resource.requests_at("/.well-known").is_empty());
    source.shut_down().await;
}

#[tokio::test]
async fn a_server_that_says_nothing_is_looked_for_at_the_well_known_places() {
    let world = World::new();
    world.resource.omit_metadata_url();
    let (source, tool) = reads(&world).await;
    tool.call("{}").await.unwrap();
    source.shut_down().await;
}

#[tokio::test]
async fn a_wrong_secret_is_an_error_that_does_not_show_it() {
    let world = World::new();
    let proof = ClientAuth::Secret(tool::Secret::new("wr0ng"));
    let client = Some(ConfiguredClient { client_id: "known".to_owned(), auth: proof });
    let settings = OAuthSettings { client, ..world.alone() };
    assert!(!format!("{settings:?}").contains("wr0ng"));
    let source = world.source(settings);
    let error = refused(&source).await;
    assert!(error.problem.message.contains("`invalid_client`"), "{error}");
    assert!(error.problem.help.as_deref().unwrap().contains("its secret"), "{error:?}");
    assert!(!format!("{error:?}").contains("wr0ng"));
    source.shut_down().await;
}

#[tokio::test]
async fn a_secret_is_not_shown_to_an_authorization_server_that_came_later() {
    let world = World::new();
    let (source, tool) = reads(&world).await;
    let other = AuthorizationServer::start_server(AuthorityBehavior::default());
    world.resource.set_authority(&other);
    let error = tool.call("{}").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Blocked);
    assert!(error.message.contains("was not sent there"), "{error}");
    assert!(other.requests_at("/token").is_empty());
    source.shut_down().await;
    // A new process of the same installation remembers the issuer.
    let source = world.source(world.alone());
    assert_eq!(refused(&source).await.kind, SourceErrorKind::Blocked);
    assert!(other.requests_at("/token").is_empty());
    source.shut_down().await;
    // Control: the operator configures the new issuer.
    let issuer = Some(other.url().to_owned());
    let source = world.source(OAuthSettings { issuer, ..world.alone() });
    runner(&source, "guarded.read").await.call("{}").await.unwrap();
    assert!(!other.requests_at("/token").is_empty());
    source.shut_down().await;
}

#[tokio::test]
async fn metadata_without_what_is_needed_say_so() {
    for (members, words) in [
        (json!({"token_endpoint": null}), "without a token endpoint"),
        (
            json!({"token_endpoint_auth_methods_supported": ["private_key_jwt"]}),
            "does not support client secrets",
        ),
    ] {
        let world =
            World::with(AuthorityBehavior { metadata: members, ..AuthorityBehavior::default() });
        let source = world.source(world.alone());
        let error = refused(&source).await;
        assert!(error.problem.message.contains(words), "{error}");
        source.shut_down().await;
    }
}
