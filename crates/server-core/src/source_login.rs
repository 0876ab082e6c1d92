//! Signing in to the upstream of a source in a person's browser, with the right that it needs. Tokens
//! are never returned.

use std::sync::Arc;

use identity::{Principal, Right};
use schemars::JsonSchema;
use serde::Serialize;
use tool::source::ConsentFlow;
use tool::{ErrorCode, Problem, Source, SourceName};

use crate::authorization_checks::require_right;
use crate::error::ApiError;
use crate::server_state::ServerState;
use crate::source_list::{no_such_source, parse_visible_source};

/// A login that has begun.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StartLoginReply {
    /// Name of the source.
    pub source: String,
    /// URL to open in a browser.
    pub url: String,
}

/// The state of a login.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LoginReply {
    /// Name of the source.
    pub source: String,
    /// Whether a consent is or was stored.
    #[serde(rename = "given")]
    pub has_credentials: bool,
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

/// Begins the login to a source. The browser comes back to `redirect_uri`, or to a path below it.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right, and for agents; [`ErrorCode::NotFound`];
/// [`ErrorCode::InvalidRequest`] for a source without a login; [`ErrorCode::UpstreamFailed`].
pub async fn start_login(
    state: &ServerState,
    principal: &Principal,
    (source, redirect_uri): (&str, &str),
) -> Result<StartLoginReply, ApiError> {
    let target = LoginTarget::resolve(state, principal, source)?;
    check_redirect(state, redirect_uri)?;
    let begun = target.consent_flow()?.begin_consent(redirect_uri).await;
    let url = begun.map_err(|problem| target.login_error(problem))?;
    Ok(StartLoginReply { source: target.name.to_string(), url })
}

/// Checks that the browser comes back to this machine, or to the console of this server: whoever
/// receives the code of a login could be the one who is logged in.
fn check_redirect(state: &ServerState, redirect_uri: &str) -> Result<(), ApiError> {
    let url = redirect_uri.parse::<http::Uri>().ok();
    let host = url.as_ref().and_then(http::Uri::host).unwrap_or_default();
    let is_http = url.as_ref().and_then(http::Uri::scheme_str) == Some("http");
    let is_loopback = is_http && matches!(host, "127.0.0.1" | "[::1]" | "localhost");
    let console = state.components.issuers.public_url().map(|url| format!("{url}/ui/sources/"));
    if is_loopback || console.is_some_and(|console| redirect_uri.starts_with(&console)) {
        return Ok(());
    }
    let message = "the redirect URI is neither on this machine nor of the console of this server";
    Err(ApiError::new(ErrorCode::InvalidRequest, message).with_help(
        "use `http://127.0.0.1:PORT/…`, or set `tokens.resource` to the address of this server",
    ))
}

/// Ends the login with the answer of the browser, as `PATH?QUERY` or as the query alone, and lists
/// the source again.
///
/// # Errors
/// As [`start_login`]; an error for an answer that belongs to no login.
pub async fn finish_login(
    state: &ServerState,
    principal: &Principal,
    (source, answer): (&str, &str),
) -> Result<LoginReply, ApiError> {
    let target = LoginTarget::resolve(state, principal, source)?;
    let ended = target.consent_flow()?.finish_consent(answer).await;
    ended.map_err(|problem| target.login_error(problem))?;
    refresh_source(state, target, true).await
}

/// Forgets the credentials of a source, and revokes them where that is possible.
///
/// # Errors
/// As [`start_login`].
pub async fn log_out(
    state: &ServerState,
    principal: &Principal,
    source: &str,
) -> Result<LoginReply, ApiError> {
    let target = LoginTarget::resolve(state, principal, source)?;
    let forgotten = target.consent_flow()?.revoke_consent().await;
    let given = forgotten.map_err(|problem| target.login_error(problem))?;
    refresh_source(state, target, given).await
}

/// Refreshes the source after its login changed.
async fn refresh_source(
    state: &ServerState,
    target: LoginTarget,
    given: bool,
) -> Result<LoginReply, ApiError> {
    let LoginTarget { name, .. } = target;
    // A source that was removed meanwhile has nothing to list.
    drop(state.components.intake.refresh_sources(Some(&name)).await);
    Ok(LoginReply { source: name.to_string(), has_credentials: given })
}
