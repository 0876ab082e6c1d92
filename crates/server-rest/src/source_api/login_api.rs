//! `/v1/sources/login`: the OAuth login to a source in a person's browser. Tokens are never
//! returned by these routes.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::post;
use axum::{Extension, Json as Reply};
use identity::{Principal, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::source::ConsentFlow;
use tool::{ErrorCode, Problem, Source, SourceName};

use server_core::authorization_checks::require_right;
use server_core::body::DecodedBody;
use server_core::error::ApiError;
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;
use server_core::source_list::{no_such_source, parse_visible_source};

pub(super) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new(
            "post",
            "/v1/sources/login",
            "Start the OAuth login to a source",
            post(start_login),
        )
        .with_body::<StartLoginBody>()
        .with_reply::<StartLoginReply>(),
        ApiRoute::new(
            "post",
            "/v1/sources/login/finish",
            "Finish the OAuth login with the redirect",
            post(finish_login),
        )
        .with_body::<FinishLoginBody>()
        .with_reply::<LoginReply>(),
        ApiRoute::new("post", "/v1/sources/logout", "Log out of a source", post(logout_source))
            .with_body::<LogoutBody>()
            .with_reply::<LoginReply>(),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StartLoginBody {
    /// Name of the source.
    source: String,
    /// Redirect URI, which may be extended by a path: `http://127.0.0.1:PORT/…`.
    redirect_uri: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct StartLoginReply {
    source: String,
    /// URL to open in a browser.
    url: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FinishLoginBody {
    /// Name of the source.
    source: String,
    /// Path of the redirect, such as `/callback/4rX…`; each authorization server has its own.
    path: Option<String>,
    /// Query of the redirect.
    query: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LogoutBody {
    /// Name of the source.
    source: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct LoginReply {
    source: String,
    /// Whether a consent is or was stored.
    #[serde(rename = "given")]
    has_credentials: bool,
}

/// A source that supports login, for a caller who may log in.
struct LoginTarget {
    name: SourceName,
    source: Arc<dyn Source>,
}

impl LoginTarget {
    /// Resolves the requested source and checks the caller's rights.
    fn resolve(state: &ServerState, principal: &Principal, name: &str) -> Result<Self, ApiError> {
        require_right(principal, Right::SourcesRefresh)?;
        if principal.is_agent() {
            let message = "an agent's key cannot give consent";
            return Err(
                ApiError::new(ErrorCode::Forbidden, message).with_help("use a person's key")
            );
        }
        let name = parse_visible_source(principal, name)?;
        let source = state
            .components
            .intake
            .find_source(&name)
            .ok_or_else(|| no_such_source(name.as_str()))?;
        Ok(Self { name, source })
    }

    fn consent_flow(&self) -> Result<&dyn ConsentFlow, ApiError> {
        self.source.consent_flow().ok_or_else(|| {
            let message = format!("the source `{}` does not use a login", self.name);
            ApiError::new(ErrorCode::InvalidRequest, message)
        })
    }

    fn login_error(&self, problem: Problem) -> ApiError {
        let Problem { message, help: fix, .. } = problem;
        let error = ApiError::new(
            ErrorCode::UpstreamFailed,
            format!("the source `{}` {message}", self.name),
        );
        match fix {
            Some(fix) => error.with_help(fix),
            None => error,
        }
    }
}

async fn start_login(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(body): DecodedBody<StartLoginBody>,
) -> Result<Reply<StartLoginReply>, ApiError> {
    let target = LoginTarget::resolve(&state, &principal, &body.source)?;
    let begun = target.consent_flow()?.begin_consent(&body.redirect_uri).await;
    let url = begun.map_err(|problem| target.login_error(problem))?;
    Ok(Reply(StartLoginReply { source: target.name.to_string(), url }))
}

async fn finish_login(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(body): DecodedBody<FinishLoginBody>,
) -> Result<Reply<LoginReply>, ApiError> {
    let target = LoginTarget::resolve(&state, &principal, &body.source)?;
    let path = body.path.filter(|path| path.starts_with('/'));
    let answer = path.map(|path| format!("{path}?{}", body.query));
    let answer = answer.unwrap_or(body.query);
    let ended = target.consent_flow()?.finish_consent(&answer).await;
    ended.map_err(|problem| target.login_error(problem))?;
    refresh_source(&state, target, true).await
}

async fn logout_source(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(body): DecodedBody<LogoutBody>,
) -> Result<Reply<LoginReply>, ApiError> {
    let target = LoginTarget::resolve(&state, &principal, &body.source)?;
    let forgotten = target.consent_flow()?.revoke_consent().await;
    let given = forgotten.map_err(|problem| target.login_error(problem))?;
    refresh_source(&state, target, given).await
}

/// Refreshes the source after its login changed.
async fn refresh_source(
    state: &ServerState,
    target: LoginTarget,
    given: bool,
) -> Result<Reply<LoginReply>, ApiError> {
    let LoginTarget { name, .. } = target;
    // A source that was removed meanwhile has nothing to list.
    drop(state.components.intake.refresh_sources(Some(&name)).await);
    Ok(Reply(LoginReply { source: name.to_string(), has_credentials: given }))
}
