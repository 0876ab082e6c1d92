//! `/v1/sources/login`: the OAuth login to a source in a person's browser. Tokens are never
//! returned by these routes.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::post;
use axum::{Extension, Json as Reply};
use identity::{Principal, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::source::Consent;
use tool::{Code, Problem, Source, SourceName};

use super::{Route, missing, visible};
use server_core::body::Body;
use server_core::error::ApiError;
use server_core::state::Doors;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new("post", "/v1/sources/login", "Begin a person's consent", post(begin))
            .body::<BeginBody>()
            .reply::<BeginReply>(),
        Route::new("post", "/v1/sources/login/finish", "End it with its answer", post(finish))
            .body::<FinishBody>()
            .reply::<LoginReply>(),
        Route::new("post", "/v1/sources/logout", "Forget what was given", post(forget))
            .body::<LogoutBody>()
            .reply::<LoginReply>(),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BeginBody {
    /// The source.
    source: String,
    /// Where the browser will be sent back to, or below it: `http://127.0.0.1:PORT/…`.
    redirect_uri: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct BeginReply {
    source: String,
    /// What the person opens.
    url: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FinishBody {
    /// The source.
    source: String,
    /// The path that the browser came back to, such as `/callback/4rX…`: each authorization server has its own.
    path: Option<String>,
    /// The query that the browser brought.
    query: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LogoutBody {
    /// The source.
    source: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct LoginReply {
    source: String,
    /// Whether there is, or was, anything to forget.
    given: bool,
}

/// A source that supports login, for a caller who may log in.
struct Wanted {
    name: SourceName,
    source: Arc<dyn Source>,
}

impl Wanted {
    /// Resolves the requested source and checks the caller's rights.
    fn find(doors: &Doors, principal: &Principal, name: &str) -> Result<Self, ApiError> {
        if !principal.may(Right::SourcesRefresh) {
            return Err(ApiError::lacks(Right::SourcesRefresh));
        }
        if principal.agent() {
            let message = "an agent's key cannot give a person's consent";
            return Err(ApiError::new(Code::Forbidden, message).fix("use a person's key"));
        }
        let name = visible(principal, name)?;
        let source = doors.parts.intake.source(&name).ok_or_else(|| missing(name.as_str()))?;
        Ok(Self { name, source })
    }

    fn consent(&self) -> Result<&dyn Consent, ApiError> {
        self.source.consent().ok_or_else(|| {
            let message = format!("nobody logs in to the source `{}`", self.name);
            ApiError::new(Code::InvalidRequest, message)
        })
    }

    fn told(&self, problem: Problem) -> ApiError {
        let Problem { message, fix, .. } = problem;
        let error =
            ApiError::new(Code::UpstreamFailed, format!("the source `{}` {message}", self.name));
        match fix {
            Some(fix) => error.fix(fix),
            None => error,
        }
    }
}

async fn begin(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Body(body): Body<BeginBody>,
) -> Result<Reply<BeginReply>, ApiError> {
    let wanted = Wanted::find(&doors, &principal, &body.source)?;
    let begun = wanted.consent()?.begin(&body.redirect_uri).await;
    let url = begun.map_err(|problem| wanted.told(problem))?;
    Ok(Reply(BeginReply { source: wanted.name.to_string(), url }))
}

async fn finish(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Body(body): Body<FinishBody>,
) -> Result<Reply<LoginReply>, ApiError> {
    let wanted = Wanted::find(&doors, &principal, &body.source)?;
    let path = body.path.filter(|path| path.starts_with('/'));
    let answer = path.map(|path| format!("{path}?{}", body.query));
    let answer = answer.unwrap_or(body.query);
    let ended = wanted.consent()?.finish(&answer).await;
    ended.map_err(|problem| wanted.told(problem))?;
    anew(&doors, wanted, true).await
}

async fn forget(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Body(body): Body<LogoutBody>,
) -> Result<Reply<LoginReply>, ApiError> {
    let wanted = Wanted::find(&doors, &principal, &body.source)?;
    let forgotten = wanted.consent()?.forget().await;
    let given = forgotten.map_err(|problem| wanted.told(problem))?;
    anew(&doors, wanted, given).await
}

/// Refreshes the source after its login changed.
async fn anew(doors: &Doors, wanted: Wanted, given: bool) -> Result<Reply<LoginReply>, ApiError> {
    let Wanted { name, .. } = wanted;
    // A source that was removed meanwhile has nothing to list.
    drop(doors.parts.intake.refresh(Some(&name)).await);
    Ok(Reply(LoginReply { source: name.to_string(), given }))
}
