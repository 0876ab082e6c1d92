//! `/v1/sources/login`: the OAuth login to a source in a person's browser. Tokens are never
//! returned by these routes.

use axum::extract::State;
use axum::routing::post;
use axum::{Extension, Json as Reply};
use identity::Principal;
use schemars::JsonSchema;
use serde::Deserialize;

use server_core::body::DecodedBody;
use server_core::error::ApiError;
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;
use server_core::source_login::{self, LoginReply, StartLoginReply};

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

async fn start_login(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(body): DecodedBody<StartLoginBody>,
) -> Result<Reply<StartLoginReply>, ApiError> {
    let login = (body.source.as_str(), body.redirect_uri.as_str());
    source_login::start_login(&state, &principal, login).await.map(Reply)
}

async fn finish_login(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(body): DecodedBody<FinishLoginBody>,
) -> Result<Reply<LoginReply>, ApiError> {
    let path = body.path.filter(|path| path.starts_with('/'));
    let answer = path.map(|path| format!("{path}?{}", body.query));
    let answer = answer.unwrap_or(body.query);
    let login = (body.source.as_str(), answer.as_str());
    source_login::finish_login(&state, &principal, login).await.map(Reply)
}

async fn logout_source(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(body): DecodedBody<LogoutBody>,
) -> Result<Reply<LoginReply>, ApiError> {
    source_login::log_out(&state, &principal, &body.source).await.map(Reply)
}
