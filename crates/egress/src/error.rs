//! Why nothing, or not all, came back.

use std::fmt;
use std::time::Duration;

use tool::executor::Sent;
use tool::{Code, ExecuteError};

/// Longest URL in a message, in characters.
const MOST_SHOWN: usize = 200;

/// A URL as it may be shown: without user, password, query and fragment, escaped and cut.
#[derive(Clone, PartialEq, Eq)]
pub struct Shown(Place);

/// Every request carries the place along, and few show it: so a URI is made fit to be shown only then.
#[derive(Clone, PartialEq, Eq)]
enum Place {
    Text(String),
    Uri(http::Uri),
}

impl Shown {
    /// Of any text that was meant as a URL.
    pub(super) fn of(url: &str) -> Self {
        Self(Place::Text(fit(url)))
    }

    /// Of a URI.
    pub(super) fn uri(uri: &http::Uri) -> Self {
        Self(Place::Uri(uri.clone()))
    }
}

fn fit(url: &str) -> String {
    let rest = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, after) = rest.split_once("://").unwrap_or(("", rest));
    // Everything before the last at-sign in front of the path is the user.
    let end = after.find(['/', '\\']).unwrap_or(after.len());
    let (authority, path) = after.split_at_checked(end).unwrap_or((after, ""));
    let host = authority.rsplit('@').next().unwrap_or_default();
    let slashes = if rest.contains("://") { "://" } else { "" };
    let text: String =
        scheme.chars().chain(slashes.chars()).chain(host.chars()).chain(path.chars()).collect();
    let mut shown: String = text.chars().take(MOST_SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(MOST_SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Text(text) => f.write_str(text),
            Place::Uri(uri) => f.write_str(&fit(&uri.to_string())),
        }
    }
}

/// No more than may be shown.
impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

/// What a request waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// A free place among the open requests.
    Queue,
    /// The addresses of the name.
    Resolve,
    /// A connection.
    Connect,
    /// The TLS handshake.
    Tls,
    /// The head of the response.
    Headers,
    /// More of its body.
    Body,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queue => "a free connection",
            Self::Resolve => "the address of its host",
            Self::Connect => "a connection",
            Self::Tls => "the TLS handshake",
            Self::Headers => "the response",
            Self::Body => "more of the response",
        })
    }
}

/// Why a request did not bring its whole response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    /// The URL may not be called.
    #[error("`{url}` is blocked: {why}")]
    Blocked {
        /// Where to.
        url: Shown,
        /// The rule, and what to do where it should be allowed.
        why: String,
        /// Whether an earlier hop had been asked already.
        sent: Sent,
    },
    /// Nobody answers there.
    #[error("`{url}` cannot be reached: {what}")]
    Unreachable {
        /// Where to.
        url: Shown,
        /// What the system said.
        what: String,
        /// Whether anything had been sent.
        sent: Sent,
    },
    /// It answers, but cannot be trusted.
    #[error("`{url}`: no secure connection: {what}")]
    Tls {
        /// Where to.
        url: Shown,
        /// What is wrong with it.
        what: String,
        /// Whether an earlier hop had been asked already.
        sent: Sent,
    },
    /// It took too long.
    #[error("`{url}`: waited {}.{:03} s for {phase}", after.as_secs(), after.subsec_millis())]
    TimedOut {
        /// Where to.
        url: Shown,
        /// For what.
        phase: Phase,
        /// How long.
        after: Duration,
        /// Whether anything had been sent.
        sent: Sent,
    },
    /// The response is larger than asked for.
    #[error(
        "`{url}`: the response is over {limit} bytes; ask for less, or raise the limit of its source"
    )]
    TooLarge {
        /// Where to.
        url: Shown,
        /// In bytes.
        limit: usize,
    },
    /// What came is not HTTP, or ended early.
    #[error("`{url}`: {what}")]
    Protocol {
        /// Where to.
        url: Shown,
        /// What came.
        what: String,
        /// Whether anything had been sent.
        sent: Sent,
    },
    /// The settings cannot be used.
    #[error("egress settings: {0}")]
    Settings(String),
}

impl EgressError {
    /// Whether the other side may have seen the request. `No` is safe to try again.
    pub fn sent(&self) -> Sent {
        match self {
            Self::Blocked { sent, .. }
            | Self::Unreachable { sent, .. }
            | Self::Tls { sent, .. }
            | Self::TimedOut { sent, .. }
            | Self::Protocol { sent, .. } => *sent,
            Self::TooLarge { .. } => Sent::Maybe,
            Self::Settings(_) => Sent::No,
        }
    }

    /// The same, after an earlier hop had been asked.
    pub(super) fn after_a_hop(mut self) -> Self {
        match &mut self {
            Self::Blocked { sent, .. }
            | Self::Unreachable { sent, .. }
            | Self::Tls { sent, .. }
            | Self::TimedOut { sent, .. }
            | Self::Protocol { sent, .. } => *sent = Sent::Maybe,
            Self::TooLarge { .. } | Self::Settings(_) => {}
        }
        self
    }

    /// The code that goes with it.
    pub fn code(&self) -> Code {
        match self {
            Self::Blocked { .. } => Code::Blocked,
            Self::Unreachable { .. } => Code::UpstreamLost,
            Self::Tls { .. } | Self::Protocol { .. } => Code::UpstreamFailed,
            Self::TimedOut { phase: Phase::Queue, .. } => Code::Busy,
            Self::TimedOut { .. } => Code::Timeout,
            Self::TooLarge { .. } => Code::TooLarge,
            Self::Settings(_) => Code::InvalidConfig,
        }
    }
}

impl From<EgressError> for ExecuteError {
    fn from(error: EgressError) -> Self {
        Self { code: error.code(), sent: error.sent(), message: error.to_string(), rpc: None }
    }
}

#[cfg(test)]
mod tests {
    use super::Shown;

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
            assert_eq!(Shown::of(url).to_string(), shown);
        }
        assert_eq!(Shown::of(&"x".repeat(300)).to_string().chars().count(), 201);
    }
}
