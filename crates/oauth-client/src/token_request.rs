//! Access tokens, and the requests to the token endpoint.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::HeaderValue;
use serde::{Deserialize, Deserializer};
use tokio::time::Instant;
use tool::clock::duration_millis;
use tool::{Secret, WallTime};

use super::TokenError;
use super::client_auth::OAuthClient;
use super::http_client::{OAuthHttpClient, RequestTarget, describe_target};
use super::metadata::AuthorizationServerMetadata;
use tool::display_text::escape_and_truncate;

/// Maximum bytes of a token.
const MAX_TOKEN_BYTES: usize = 16 << 10;
/// Time before expiry at which a token is renewed; at most a tenth of its lifetime.
const RENEWAL_MARGIN: Duration = Duration::from_secs(30);
/// Maximum lifetime that is accepted.
const MAX_LIFETIME: Duration = Duration::from_hours(24 * 30);

/// Bearer token with its lifetime.
pub struct AccessToken {
    header: HeaderValue,
    pub(super) generation: u64,
    /// `None` if the server named no lifetime.
    lifetime: Option<TokenLifetime>,
    /// Whether the server has accepted the token once.
    pub(super) was_accepted: AtomicBool,
}

/// Times at which a token is renewed and expires.
struct TokenLifetime {
    renew_at: Instant,
    expires_at: Instant,
}

impl AccessToken {
    /// Creates a token, or returns `None` if it cannot be sent in a header (RFC 6750 2.1).
    pub(super) fn new(text: &str, generation: u64, lifetime: Option<Duration>) -> Option<Self> {
        let fits = |text: &str| {
            (1..=MAX_TOKEN_BYTES).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let mut header =
            HeaderValue::try_from(format!("Bearer {}", Some(text).filter(|it| fits(it))?)).ok()?;
        header.set_sensitive(true);
        let now = Instant::now();
        let lifetime = lifetime.map(|lifetime| {
            let lifetime = lifetime.min(MAX_LIFETIME);
            let margin = RENEWAL_MARGIN.min(lifetime / 10);
            TokenLifetime {
                renew_at: now + lifetime.saturating_sub(margin),
                expires_at: now + lifetime,
            }
        });
        Some(Self { header, generation, lifetime, was_accepted: AtomicBool::new(false) })
    }

    /// Returns the `Authorization` header.
    pub fn authorization_header(&self) -> HeaderValue {
        self.header.clone()
    }

    /// Returns whether the token need not be renewed yet.
    pub(super) fn is_fresh(&self) -> bool {
        self.lifetime.as_ref().is_none_or(|it| Instant::now() < it.renew_at)
    }

    /// Returns whether the token has not expired.
    pub(super) fn is_usable(&self) -> bool {
        self.lifetime.as_ref().is_none_or(|it| Instant::now() < it.expires_at)
    }

    /// Marks the token as accepted by its server.
    pub fn mark_accepted(&self) {
        self.was_accepted.store(true, Ordering::Relaxed);
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("number", &self.generation).finish_non_exhaustive()
    }
}

/// Tokens that a token endpoint issued.
#[derive(Debug)]
pub(super) struct IssuedTokens {
    pub(super) access_token: Secret,
    pub(super) refresh_token: Option<Secret>,
    pub(super) lifetime: Option<Duration>,
    pub(super) scope: Option<String>,
    /// ID token of OpenID Connect, if the scope `openid` was requested.
    pub(super) id_token: Option<Secret>,
}

impl IssuedTokens {
    /// Returns the expiry as wall-clock time.
    pub(super) fn expires_at(&self, now: WallTime) -> Option<WallTime> {
        let life = self.lifetime.map(|life| life.min(MAX_LIFETIME))?;
        Some(WallTime(now.0.saturating_add(duration_millis(life))))
    }
}

/// Error of a token request.
#[derive(Debug)]
pub(super) enum TokenRequestError {
    /// The grant is no longer valid (`invalid_grant`).
    InvalidGrant(TokenError),
    /// The request failed for another reason.
    Other(TokenError),
}

impl From<TokenRequestError> for TokenError {
    fn from(denied: TokenRequestError) -> Self {
        match denied {
            TokenRequestError::InvalidGrant(fault) | TokenRequestError::Other(fault) => fault,
        }
    }
}

impl From<TokenError> for TokenRequestError {
    fn from(fault: TokenError) -> Self {
        Self::Other(fault)
    }
}

#[derive(Deserialize)]
struct TokenResponseBody {
    access_token: Option<String>,
    token_type: Option<String>,
    #[serde(default, deserialize_with = "deserialize_seconds")]
    expires_in: Option<u64>,
    refresh_token: Option<String>,
    scope: Option<String>,
    id_token: Option<String>,
}

#[derive(Deserialize)]
struct TokenErrorBody {
    error: String,
    error_description: Option<String>,
}

/// Deserialises a number of seconds; some servers send it as text.
fn deserialize_seconds<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    let whole = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count of seconds"
    )]
    Ok(whole.or_else(|| value.as_f64().map(|seconds| seconds as u64)))
}

/// Requests a token with these form fields of the grant.
pub(super) async fn request_token(
    http: &OAuthHttpClient,
    server: &AuthorizationServerMetadata,
    (client, now): (&OAuthClient, WallTime),
    grant: Vec<(&'static str, String)>,
) -> Result<IssuedTokens, TokenRequestError> {
    let Some(url) = server.token_endpoint.as_deref() else {
        return Err(
            TokenError::malformed("has an authorization server without a token endpoint").into()
        );
    };
    let at =
        RequestTarget { url, role: "the token endpoint", named_by: "the authorization server" };
    let mut signed = client.authenticate_request(server, now)?;
    signed.fields.extend(grant);
    let answer = http.post_form(at, signed.headers, &signed.fields).await?;
    if !answer.status.is_success() {
        let Ok(error) = serde_json::from_slice::<TokenErrorBody>(&answer.body) else {
            let message = format!("{} returned HTTP {}", describe_target(at), answer.status);
            return Err(TokenError::request_refused(message).into());
        };
        return Err(to_request_error(at, &error));
    }
    // The response may contain a token, so error messages never quote it.
    let unfit =
        |why: &str| TokenError::malformed(format!("{} returned {why}", describe_target(at)));
    let response: TokenResponseBody =
        serde_json::from_slice(&answer.body).map_err(|_| unfit("an invalid OAuth response"))?;
    if !response.token_type.is_some_and(|kind| kind.eq_ignore_ascii_case("bearer")) {
        return Err(unfit("a token whose type is not `Bearer`").into());
    }
    let access = response.access_token.filter(|token| AccessToken::new(token, 0, None).is_some());
    let access = access.ok_or_else(|| unfit("a token that is not a valid header value"))?;
    let refresh =
        response.refresh_token.filter(|token| (1..=MAX_TOKEN_BYTES).contains(&token.len()));
    let life = response.expires_in.map(Duration::from_secs);
    let (access, refresh) = (Secret::new(access), refresh.map(Secret::new));
    Ok(IssuedTokens {
        access_token: access,
        refresh_token: refresh,
        lifetime: life,
        scope: response.scope,
        id_token: response.id_token.map(Secret::new),
    })
}

fn to_request_error(at: RequestTarget<'_>, body: &TokenErrorBody) -> TokenRequestError {
    let error_code = escape_and_truncate(&body.error, 60);
    let why = body
        .error_description
        .as_deref()
        .map(|why| escape_and_truncate(why, 200))
        .unwrap_or_default();
    let why = if why.is_empty() { why } else { format!(": {why}") };
    let fault = TokenError::request_refused(format!(
        "{} rejected the request: `{error_code}`{why}",
        describe_target(at)
    ));
    match body.error.as_str() {
        "invalid_grant" => TokenRequestError::InvalidGrant(fault),
        "invalid_client" | "unauthorized_client" => {
            TokenRequestError::Other(fault.with_help("check the client's ID and its secret or key"))
        }
        "invalid_scope" => TokenRequestError::Other(fault.with_help("check `scopes`")),
        _ => TokenRequestError::Other(fault),
    }
}
