//! Access tokens, and the requests to the token endpoint.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::HeaderValue;
use serde::{Deserialize, Deserializer};
use tokio::time::Instant;
use tool::{Secret, Wall};

use super::Fault;
use super::client::Client;
use super::metadata::Known;
use super::web::{At, Web, named};
use tool::display_text::shown;

/// Maximum bytes of a token.
const MOST: usize = 16 << 10;
/// Time before expiry at which a token is renewed; at most a tenth of its lifetime.
const EARLY: Duration = Duration::from_secs(30);
/// Maximum lifetime that is accepted.
const LIFE: Duration = Duration::from_hours(24 * 30);

/// Bearer token with its lifetime.
pub struct Token {
    header: HeaderValue,
    pub(super) number: u64,
    /// Renewal time and expiry time; `None` if the server named no lifetime.
    ends: Option<(Instant, Instant)>,
    /// Whether the server has accepted the token once.
    pub(super) proved: AtomicBool,
}

impl Token {
    /// Creates a token, or returns `None` if it cannot be sent in a header (RFC 6750 2.1).
    pub(super) fn new(text: &str, number: u64, life: Option<Duration>) -> Option<Self> {
        let fits = |text: &str| {
            (1..=MOST).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let mut header =
            HeaderValue::try_from(format!("Bearer {}", Some(text).filter(|it| fits(it))?)).ok()?;
        header.set_sensitive(true);
        let now = Instant::now();
        let ends = life.map(|life| {
            let life = life.min(LIFE);
            (now + life.saturating_sub(EARLY.min(life / 10)), now + life)
        });
        Some(Self { header, number, ends, proved: AtomicBool::new(false) })
    }

    /// Returns the `Authorization` header.
    pub fn header(&self) -> HeaderValue {
        self.header.clone()
    }

    /// Returns whether the token need not be renewed yet.
    pub(super) fn is_fresh(&self) -> bool {
        self.ends.is_none_or(|(soon, _)| Instant::now() < soon)
    }

    /// Returns whether the token has not expired.
    pub(super) fn is_alive(&self) -> bool {
        self.ends.is_none_or(|(_, end)| Instant::now() < end)
    }

    /// Marks the token as accepted by its server.
    pub fn prove(&self) {
        self.proved.store(true, Ordering::Relaxed);
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("number", &self.number).finish_non_exhaustive()
    }
}

/// Tokens that a token endpoint issued.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) access: Secret,
    pub(super) refresh: Option<Secret>,
    pub(super) life: Option<Duration>,
    pub(super) scope: Option<String>,
}

impl Given {
    /// Returns the expiry as wall-clock time.
    pub(super) fn expires(&self, now: Wall) -> Option<Wall> {
        let life = self.life.map(|life| life.min(LIFE))?;
        Some(Wall(now.0.saturating_add(u64::try_from(life.as_millis()).unwrap_or(u64::MAX))))
    }
}

/// Error of a token request.
#[derive(Debug)]
pub(super) enum Denied {
    /// The grant is no longer valid (`invalid_grant`).
    Grant(Fault),
    /// The request failed for another reason.
    Other(Fault),
}

impl From<Denied> for Fault {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Grant(fault) | Denied::Other(fault) => fault,
        }
    }
}

impl From<Fault> for Denied {
    fn from(fault: Fault) -> Self {
        Self::Other(fault)
    }
}

#[derive(Deserialize)]
struct Said {
    access_token: Option<String>,
    token_type: Option<String>,
    #[serde(default, deserialize_with = "seconds")]
    expires_in: Option<u64>,
    refresh_token: Option<String>,
    scope: Option<String>,
}

#[derive(Deserialize)]
struct Error {
    error: String,
    error_description: Option<String>,
}

/// Deserialises a number of seconds; some servers send it as text.
fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let said = serde_json::Value::deserialize(deserializer)?;
    let whole = said.as_u64().or_else(|| said.as_str()?.parse().ok());
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count of seconds"
    )]
    Ok(whole.or_else(|| said.as_f64().map(|seconds| seconds as u64)))
}

/// Requests a token with these form fields of the grant.
pub(super) async fn ask(
    web: &Web,
    known: &Known,
    (client, now): (&Client, Wall),
    grant: Vec<(&'static str, String)>,
) -> Result<Given, Denied> {
    let Some(url) = known.server.token_endpoint.as_deref() else {
        return Err(Fault::malformed("has an authorization server without a token endpoint").into());
    };
    let at = At { url, what: "the token endpoint", whose: "the authorization server" };
    let mut signed = client.sign(&known.server, now)?;
    signed.fields.extend(grant);
    signed.fields.push(("resource", known.resource.clone()));
    let answer = web.form(at, signed.headers, &signed.fields).await?;
    if !answer.status.is_success() {
        let Ok(error) = serde_json::from_slice::<Error>(&answer.body) else {
            let message = format!("{} answers with HTTP {}", named(at), answer.status);
            return Err(Fault::refused(message).into());
        };
        return Err(denied(at, &error));
    }
    // The response may contain a token, so error messages never quote it.
    let unfit = |why: &str| Fault::malformed(format!("{} answers with {why}", named(at)));
    let said: Said =
        serde_json::from_slice(&answer.body).map_err(|_| unfit("what is no answer of OAuth"))?;
    if !said.token_type.is_some_and(|kind| kind.eq_ignore_ascii_case("bearer")) {
        return Err(unfit("a token of another type than `Bearer`").into());
    }
    let access = said.access_token.filter(|token| Token::new(token, 0, None).is_some());
    let access = access.ok_or_else(|| unfit("a token that cannot be sent"))?;
    let refresh = said.refresh_token.filter(|token| (1..=MOST).contains(&token.len()));
    let life = said.expires_in.map(Duration::from_secs);
    let (access, refresh) = (Secret::new(access), refresh.map(Secret::new));
    Ok(Given { access, refresh, life, scope: said.scope })
}

fn denied(at: At<'_>, said: &Error) -> Denied {
    let word = shown(&said.error, 60);
    let why = said.error_description.as_deref().map(|why| shown(why, 200)).unwrap_or_default();
    let why = if why.is_empty() { why } else { format!(": {why}") };
    let fault = Fault::refused(format!("{} refuses: `{word}`{why}", named(at)));
    match said.error.as_str() {
        "invalid_grant" => Denied::Grant(fault),
        "invalid_client" | "unauthorized_client" => {
            Denied::Other(fault.fix("look at the client's id and its secret or key"))
        }
        "invalid_scope" => Denied::Other(fault.fix("look at `scopes`")),
        _ => Denied::Other(fault),
    }
}
