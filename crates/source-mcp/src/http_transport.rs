//! MCP over streamable HTTP, sent through `egress`.
//!
//! Requests go to the operator's origin only and follow no redirects. Replies are bounded and read
//! to their end, so that connections can be reused. The caller's task sends the request itself: no
//! other task, no channel.

mod post_response;
mod response_body;
mod response_stream;
mod server_stream;
mod session;
mod session_events;
mod sse_state;
mod token_retry;

use std::sync::Arc;

use egress::{EgressClient, Origin, UrlTrust};
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use tool::{Problem, Secret};

use oauth_client::TokenProvider;
use source_layers::redaction::Redaction;
use tool::display_text::escape_and_truncate;

pub(super) use post_response::PostResponse;
pub(super) use server_stream::run_server_stream;
pub(super) use session::StreamableHttpTransport;
pub(super) use session_events::SessionEvents;

/// Headers that the protocol sets, so the operator cannot.
const RESERVED_HEADERS: [&str; 11] = [
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

/// Streamable HTTP endpoint of an MCP server.
#[derive(Debug, Clone)]
pub struct HttpEndpoint {
    egress: EgressClient,
    class: UrlTrust,
    uri: Uri,
    headers: HeaderMap,
    display_address: String,
    token_provider: Option<Arc<TokenProvider>>,
    caller_header: Option<HeaderName>,
    redaction: Redaction,
}

impl HttpEndpoint {
    /// Creates the endpoint at `url`, reached through `egress`, with `headers` on every request.
    ///
    /// # Errors
    /// Returns a [`Problem`] with location and fix if the URL or a header cannot be sent.
    pub fn new(
        egress: &EgressClient,
        url: &str,
        headers: &[(String, Secret)],
    ) -> Result<Self, Problem> {
        let url_problem =
            |why: String| Problem::new("url", why).with_help("write it as `https://host/path`");
        let origin = Origin::parse(url).map_err(|error| url_problem(error.to_string()))?;
        let display_address = format!("`{origin}`");
        let class = UrlTrust::Configured { origin };
        let uri =
            egress.validate_url(&class, url).map_err(|error| url_problem(error.to_string()))?;
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let header_problem =
                |why: &str| Problem::new(format!("headers.{}", escape_and_truncate(name, 60)), why);
            let lower = name.to_ascii_lowercase();
            if RESERVED_HEADERS.contains(&lower.as_str())
                || lower.starts_with(::mcp::headers::PARAM_PREFIX)
            {
                return Err(header_problem("is set by the protocol").with_help("remove it"));
            }
            let name = HeaderName::try_from(name).map_err(|_| {
                header_problem(
                    "is not a valid header \
                    name",
                )
            })?;
            let value = HeaderValue::try_from(value.expose());
            let mut value = value.map_err(|_| {
                header_problem("has an invalid value, such as one with a line break")
            })?;
            value.set_sensitive(true);
            map.append(name, value);
        }
        // Requests with one credential share no connection with requests with another.
        Ok(Self {
            egress: egress.with_separate_pool(),
            class,
            uri,
            headers: map,
            display_address,
            token_provider: None,
            caller_header: None,
            redaction: Redaction::default(),
        })
    }

    /// Adds OAuth tokens of `token_provider` to requests if the endpoint requires one. Has no
    /// effect if the operator configured an `authorization` header.
    #[must_use]
    pub fn with_token_provider(self, token_provider: Arc<TokenProvider>) -> Self {
        let own = self.headers.contains_key(header::AUTHORIZATION);
        Self { token_provider: Some(token_provider).filter(|_| !own), ..self }
    }

    /// Sends the caller's own secret, from the credential port, in this header. Callers share no
    /// session and no connection.
    #[must_use]
    pub fn with_caller_header(self, header: HeaderName) -> Self {
        Self { caller_header: Some(header), ..self }
    }

    /// Removes these values from everything that is reported about the endpoint.
    #[must_use]
    pub fn with_redaction(self, redaction: Redaction) -> Self {
        Self { redaction, ..self }
    }

    /// Redacts from `text`, received from the endpoint, the values that were sent to it.
    pub(super) fn redact_text(&self, text: String) -> String {
        self.redaction.redact_diagnostic(text)
    }

    /// Returns the header that carries callers' own secrets.
    pub(super) fn caller_header(&self) -> Option<&HeaderName> {
        self.caller_header.as_ref()
    }

    /// Returns the endpoint for one caller; `None` if the secret is not valid in a header.
    pub(super) fn for_caller_secret(&self, header: &HeaderName, secret: &Secret) -> Option<Self> {
        let mut value = HeaderValue::try_from(secret.expose()).ok()?;
        value.set_sensitive(true);
        let mut own =
            Self { egress: self.egress.with_separate_pool(), caller_header: None, ..self.clone() };
        own.headers.insert(header.clone(), value);
        Some(own)
    }

    /// Returns the OAuth token provider, if one is configured.
    pub(super) fn token_provider(&self) -> Option<&Arc<TokenProvider>> {
        self.token_provider.as_ref()
    }

    /// Returns scheme, host and port, for display.
    pub(super) fn display_address(&self) -> &str {
        &self.display_address
    }
}
