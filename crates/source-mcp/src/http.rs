//! MCP over streamable HTTP, through `egress`.
//!
//! One origin, the operator's; no redirects; replies bounded and read to their end, so that their
//! connections serve again. A call is one request sent by whoever makes it: no task, no channel.

mod answer;
mod authorized;
mod beside;
mod endpoint;
mod reply;
mod stream;
mod unasked;

use std::sync::Arc;

use egress::{Class, Egress, Origin};
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use tool::{Problem, Secret};

use oauth_client::Account;
use source_layers::redaction::Redaction;
use tool::display_text::shown;

pub(super) use answer::Answer;
pub(super) use beside::Beside;
pub(super) use endpoint::Endpoint;
pub(super) use unasked::listen;

/// Set by the protocol, so not by the operator.
const RESERVED: [&str; 11] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];

/// A streamable HTTP endpoint.
#[derive(Debug, Clone)]
pub struct Http {
    egress: Egress,
    class: Class,
    uri: Uri,
    headers: HeaderMap,
    place: String,
    account: Option<Arc<Account>>,
    per_caller: Option<HeaderName>,
    redaction: Redaction,
}

impl Http {
    /// The endpoint at `url`, asked through `egress` with `headers` on every request.
    ///
    /// # Errors
    /// A [`Problem`] with the place and the fix, for a URL or a header that cannot be sent.
    pub fn new(egress: &Egress, url: &str, headers: &[(String, Secret)]) -> Result<Self, Problem> {
        let bad = |why: String| Problem::new("url", why).fix("write it as `https://host/path`");
        let origin = Origin::parse(url).map_err(|error| bad(error.to_string()))?;
        let place = format!("`{origin}`");
        let class = Class::Operator { origin };
        let uri = egress.check(&class, url).map_err(|error| bad(error.to_string()))?;
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let at = |why: &str| Problem::new(format!("headers.{}", shown(name, 60)), why);
            let lower = name.to_ascii_lowercase();
            if RESERVED.contains(&lower.as_str()) || lower.starts_with(::mcp::header::PARAM) {
                return Err(at("is set by the protocol").fix("take it out"));
            }
            let name = HeaderName::try_from(name).map_err(|_| at("is no name of a header"))?;
            let value = HeaderValue::try_from(value.open());
            let mut value =
                value.map_err(|_| at("has a value that cannot be sent, such as a line end"))?;
            value.set_sensitive(true);
            map.append(name, value);
        }
        // What goes out with one credential shares no connection with another.
        Ok(Self {
            egress: egress.apart(),
            class,
            uri,
            headers: map,
            place,
            account: None,
            per_caller: None,
            redaction: Redaction::default(),
        })
    }

    /// The same, with tokens of `account` where the endpoint wants one. Without effect where the
    /// operator gave an `authorization` of its own.
    #[must_use]
    pub fn with_account(self, account: Arc<Account>) -> Self {
        let own = self.headers.contains_key(header::AUTHORIZATION);
        Self { account: Some(account).filter(|_| !own), ..self }
    }

    /// The same, for calls that carry the caller's own secret, as the credential port gives it, in this
    /// header. Callers share no session and no connection.
    #[must_use]
    pub fn per_caller(self, header: HeaderName) -> Self {
        Self { per_caller: Some(header), ..self }
    }

    /// The same, with these values removed from what is reported of it.
    #[must_use]
    pub fn with_redaction(self, redaction: Redaction) -> Self {
        Self { redaction, ..self }
    }

    /// `text` that came from the endpoint, without what was sent to it.
    pub(super) fn redact(&self, text: String) -> String {
        self.redaction.text(text)
    }

    /// The header of callers' own secrets.
    pub(super) fn own_header(&self) -> Option<&HeaderName> {
        self.per_caller.as_ref()
    }

    /// For one caller; nothing where the secret cannot be sent.
    pub(super) fn with_secret(&self, header: &HeaderName, secret: &Secret) -> Option<Self> {
        let mut value = HeaderValue::try_from(secret.open()).ok()?;
        value.set_sensitive(true);
        let mut own = Self { egress: self.egress.apart(), per_caller: None, ..self.clone() };
        own.headers.insert(header.clone(), value);
        Some(own)
    }

    /// Who asks for tokens.
    pub(super) fn account(&self) -> Option<&Arc<Account>> {
        self.account.as_ref()
    }

    /// For people: scheme, host and port.
    pub(super) fn place(&self) -> &str {
        &self.place
    }
}
