//! The errors of the egress client, and URLs redacted for display.

use std::fmt;
use std::time::Duration;

use tool::display_text::truncate_and_escape_debug;
use tool::executor::DispatchState;
use tool::{ErrorCode, ExecuteError};

/// Maximum length of a URL in a message, in characters.
const MAX_DISPLAY_CHARS: usize = 200;

/// A URL for messages and logs: without user, password, query and fragment, escaped and truncated.
#[derive(Clone, PartialEq, Eq)]
pub struct RedactedUrl(RedactedUrlRepr);

/// Redacted text, or a URI that is redacted only when it is displayed, which few requests need.
#[derive(Clone, PartialEq, Eq)]
enum RedactedUrlRepr {
    Redacted(String),
    Uri(http::Uri),
}

impl RedactedUrl {
    /// Redacts any text that was meant as a URL.
    pub(super) fn from_text(url: &str) -> Self {
        Self(RedactedUrlRepr::Redacted(redact_url(url)))
    }

    /// Stores a URI, which is redacted when it is displayed.
    pub(super) fn from_uri(uri: &http::Uri) -> Self {
        Self(RedactedUrlRepr::Uri(uri.clone()))
    }
}

fn redact_url(url: &str) -> String {
    let rest = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, after_scheme) = rest.split_once("://").unwrap_or(("", rest));
    // Everything before the last at-sign in front of the path is the user.
    let end = after_scheme.find(['/', '\\']).unwrap_or(after_scheme.len());
    let (authority, path) = after_scheme.split_at_checked(end).unwrap_or((after_scheme, ""));
    let host = authority.rsplit('@').next().unwrap_or_default();
    let slashes = if rest.contains("://") { "://" } else { "" };
    let text: String =
        scheme.chars().chain(slashes.chars()).chain(host.chars()).chain(path.chars()).collect();
    let mut redacted = truncate_and_escape_debug(&text, MAX_DISPLAY_CHARS);
    if text.chars().nth(MAX_DISPLAY_CHARS).is_some() {
        redacted.push('…');
    }
    redacted
}

impl fmt::Display for RedactedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            RedactedUrlRepr::Redacted(text) => f.write_str(text),
            RedactedUrlRepr::Uri(uri) => f.write_str(&redact_url(&uri.to_string())),
        }
    }
}

/// Prints the redacted URL.
impl fmt::Debug for RedactedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

/// The phase in which a request timed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestPhase {
    /// Waiting for a request permit.
    RequestPermit,
    /// Resolving the host name.
    DnsLookup,
    /// Opening the TCP connection.
    Connect,
    /// Performing the TLS handshake.
    TlsHandshake,
    /// Waiting for the response head.
    ResponseHead,
    /// Waiting for more of the response body.
    ResponseBody,
}

impl fmt::Display for RequestPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RequestPermit => "a free connection",
            Self::DnsLookup => "the address of its host",
            Self::Connect => "a connection",
            Self::TlsHandshake => "the TLS handshake",
            Self::ResponseHead => "the response",
            Self::ResponseBody => "more of the response",
        })
    }
}

/// The reason why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    /// The URL policy rejected the URL.
    #[error("`{url}` is blocked: {reason}")]
    Blocked {
        /// The redacted URL.
        url: RedactedUrl,
        /// The violated rule, and how to allow the URL.
        reason: String,
        /// Whether an earlier redirect hop was sent.
        dispatch: DispatchState,
    },
    /// No connection could be opened.
    #[error("`{url}` cannot be reached: {reason}{}", running_question(*is_refused))]
    Unreachable {
        /// The redacted URL.
        url: RedactedUrl,
        /// The error of the operating system.
        reason: String,
        /// Whether no address accepted a connection: the server may not run.
        is_refused: bool,
        /// Whether the request may have been sent.
        dispatch: DispatchState,
    },
    /// The TLS handshake failed.
    #[error("`{url}`: TLS failed: {reason}")]
    Tls {
        /// The redacted URL.
        url: RedactedUrl,
        /// The reason, such as an untrusted certificate.
        reason: String,
        /// Whether an earlier redirect hop was sent.
        dispatch: DispatchState,
    },
    /// A phase of the request exceeded its time limit.
    #[error("`{url}`: timed out after {}.{:03} s waiting for \
        {phase}", timeout.as_secs(), timeout.subsec_millis())]
    TimedOut {
        /// The redacted URL.
        url: RedactedUrl,
        /// The phase that timed out.
        phase: RequestPhase,
        /// The time limit.
        timeout: Duration,
        /// Whether the request may have been sent.
        dispatch: DispatchState,
    },
    /// The response exceeds the size limit.
    #[error(
        "`{url}`: the response is larger than {limit} bytes; request less, or raise the limit of \
         its source"
    )]
    TooLarge {
        /// The redacted URL.
        url: RedactedUrl,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The response is malformed or ended early.
    #[error("`{url}`: {reason}")]
    Protocol {
        /// The redacted URL.
        url: RedactedUrl,
        /// The protocol violation.
        reason: String,
        /// Whether the request may have been sent.
        dispatch: DispatchState,
    },
    /// The options of the client are invalid.
    #[error("egress settings: {0}")]
    InvalidOptions(String),
}

/// Returns the question that an unreachable server raises, as the end of the error's sentence.
#[must_use]
pub fn running_question(is_refused: bool) -> &'static str {
    if is_refused { "; is it running there?" } else { "" }
}

impl EgressError {
    /// Whether the server may have received the request. A request that was not sent is safe to
    /// retry.
    pub fn dispatch(&self) -> DispatchState {
        match self {
            Self::Blocked { dispatch: sent, .. }
            | Self::Unreachable { dispatch: sent, .. }
            | Self::Tls { dispatch: sent, .. }
            | Self::TimedOut { dispatch: sent, .. }
            | Self::Protocol { dispatch: sent, .. } => *sent,
            Self::TooLarge { .. } => DispatchState::MaybeSent,
            Self::InvalidOptions(_) => DispatchState::NotSent,
        }
    }

    /// Marks the request as possibly sent, because an earlier redirect hop was sent.
    pub(super) fn mark_maybe_sent(mut self) -> Self {
        match &mut self {
            Self::Blocked { dispatch: sent, .. }
            | Self::Unreachable { dispatch: sent, .. }
            | Self::Tls { dispatch: sent, .. }
            | Self::TimedOut { dispatch: sent, .. }
            | Self::Protocol { dispatch: sent, .. } => *sent = DispatchState::MaybeSent,
            Self::TooLarge { .. } | Self::InvalidOptions(_) => {}
        }
        self
    }

    /// Returns the error code.
    pub fn error_code(&self) -> ErrorCode {
        match self {
            Self::Blocked { .. } => ErrorCode::Blocked,
            Self::Unreachable { .. } => ErrorCode::UpstreamLost,
            Self::Tls { .. } | Self::Protocol { .. } => ErrorCode::UpstreamFailed,
            Self::TimedOut { phase: RequestPhase::RequestPermit, .. } => ErrorCode::Busy,
            Self::TimedOut { .. } => ErrorCode::Timeout,
            Self::TooLarge { .. } => ErrorCode::TooLarge,
            Self::InvalidOptions(_) => ErrorCode::InvalidConfig,
        }
    }
}

impl From<EgressError> for ExecuteError {
    fn from(error: EgressError) -> Self {
        Self {
            code: error.error_code(),
            dispatch: error.dispatch(),
            message: error.to_string(),
            rpc_error: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RedactedUrl;

    #[test]
    fn a_shown_url_has_no_secrets() {
        for (url, shown) in [
            ("https://user:pw@host/a?token=1#x", "https://host/a"),
            ("https://host?q=@x", "https://host"),
            ("http://a@b@c/d@e", "http://c/d@e"),
            ("http://a\\@b", "http://a\\\\@b"),
            ("mailto:me", "mailto:me"),
            ("http://h/\n\u{202e}", "http://h/\\n\\u{202e}"),
            ("", ""),
        ] {
            assert_eq!(RedactedUrl::from_text(url).to_string(), shown);
        }
        assert_eq!(RedactedUrl::from_text(&"x".repeat(300)).to_string().chars().count(), 201);
    }
}
