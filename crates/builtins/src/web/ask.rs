//! Bounded GET requests to a fixed site, such as Wikipedia or a search engine.

use std::time::Duration;

use bytes::Bytes;
use egress::{Class, Egress, Follow, HttpLimits, ServiceAddress};
use http::{HeaderValue, Request, StatusCode, header};

/// Largest response body, in bytes.
const MOST: usize = 2 << 20;

/// A site with its egress class, which determines the addresses it may use.
#[derive(Debug, Clone)]
pub struct Endpoint {
    base: String,
    class: Class,
}

impl Endpoint {
    /// Creates an endpoint that must be at a public address.
    pub(crate) fn public(base: &str) -> Self {
        Self { base: base.to_owned(), class: Class::Caller }
    }

    /// Creates an endpoint with a known egress class.
    pub(crate) fn of(base: &str, class: Class) -> Self {
        Self { base: base.to_owned(), class }
    }

    /// Creates an endpoint configured by the operator, in any network.
    ///
    /// # Errors
    /// A message that says what is wrong with the URL.
    pub fn operators(base: &str) -> Result<Self, String> {
        let ServiceAddress { base, origin } = ServiceAddress::parse(base)?;
        Ok(Self { base, class: Class::Operator { origin } })
    }

    /// Downloads a file within a time and byte limit; follows redirects.
    ///
    /// # Errors
    /// A message with the URL.
    pub(crate) async fn fetched(
        &self,
        egress: &Egress,
        url: &str,
        accept: &'static str,
        (limit, most): (Duration, usize),
    ) -> Result<Bytes, String> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = egress.check(&self.class, url).map_err(|error| error.to_string())?;
        let agent = concat!("Toolkeep/", env!("CARGO_PKG_VERSION"));
        request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static(agent));
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(accept));
        let limits = HttpLimits { headers: limit, body: most, ..HttpLimits::default() };
        let asked = async {
            let sent = egress.send_following(&self.class, request, limits, Follow::default());
            let (head, body) = sent.await.map_err(|error| error.to_string())?.into_parts();
            if !head.status.is_success() {
                return Err(format!("{url} answered with status {}", head.status.as_u16()));
            }
            body.bytes().await.map_err(|error| error.to_string())
        };
        let late = |_| Err(format!("{url} has not given all within {}s", limit.as_secs()));
        tokio::time::timeout(limit, asked).await.unwrap_or_else(late)
    }

    /// Requests `path`, which begins with a slash and includes the query.
    pub(super) async fn get(
        &self,
        egress: &Egress,
        path: &str,
        limit: Duration,
    ) -> Result<(StatusCode, Bytes), Failed> {
        let url = format!("{}{path}", self.base);
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = egress.check(&self.class, &url).map_err(Failed::net)?;
        let headers = request.headers_mut();
        // Wikimedia requires a user agent, DuckDuckGo the accept header of a browser.
        let agent = concat!("Toolkeep/", env!("CARGO_PKG_VERSION"), " (built-in tools)");
        headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
        let accept = "text/html,application/json;q=0.9,*/*;q=0.8";
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        let limits =
            HttpLimits { headers: limit, idle: limit, body: MOST, ..HttpLimits::default() };
        let asked = async {
            let sent = egress.send_following(&self.class, request, limits, Follow::default());
            let (head, body) = sent.await.map_err(Failed::net)?.into_parts();
            Ok((head.status, body.bytes().await.map_err(Failed::net)?))
        };
        tokio::time::timeout(limit, asked).await.unwrap_or_else(|_| {
            Err(Failed { kind: "timeout", what: format!("no answer within {}s", limit.as_secs()) })
        })
    }
}

/// Failure of a request, with the kind in spec 3's terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failed {
    /// `timeout`, `rate_limit`, `network` or `parse_error`.
    pub(super) kind: &'static str,
    pub(super) what: String,
}

impl Failed {
    fn net(error: impl std::fmt::Display) -> Self {
        Self { kind: "network", what: error.to_string() }
    }

    pub(super) fn limited(who: &str) -> Self {
        let what = format!("{who} wants a person to answer a challenge first; try later");
        Self { kind: "rate_limit", what }
    }

    pub(super) fn status(who: &str, status: StatusCode) -> Self {
        let kind = if status == StatusCode::TOO_MANY_REQUESTS { "rate_limit" } else { "network" };
        Self { kind, what: format!("{who} answered with status {}", status.as_u16()) }
    }

    pub(super) fn unread(who: &str, what: impl std::fmt::Display) -> Self {
        Self {
            kind: "parse_error",
            what: format!("the answer of {who} is not as expected: {what}"),
        }
    }

    pub(super) fn told(&self) -> String {
        format!("{} [{}]", self.what, self.kind)
    }
}

/// Percent-encodes a part of a path or a query.
pub(super) fn encoded(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _written = write!(out, "%{byte:02X}");
        }
    }
    out
}
