//! Bounded GET requests to a fixed site, such as Wikipedia or a search engine.

use std::time::Duration;

use bytes::Bytes;
use egress::{EgressClient, RedirectPolicy, RequestLimits, ServiceAddress, UrlTrust};
use http::{HeaderValue, Request, StatusCode, header};

/// Largest response body, in bytes.
const MAX_RESPONSE_BYTES: usize = 2 << 20;

/// Limits of a download.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DownloadLimits {
    /// Time until the file is complete.
    pub(crate) timeout: Duration,
    pub(crate) max_bytes: usize,
}

/// A site with its egress class, which determines the addresses it may use.
#[derive(Debug, Clone)]
pub struct WebEndpoint {
    base_url: String,
    class: UrlTrust,
}

impl WebEndpoint {
    /// Creates an endpoint that must be at a public address.
    pub(crate) fn public_site(base: &str) -> Self {
        Self { base_url: base.to_owned(), class: UrlTrust::CallArgument }
    }

    /// Creates an endpoint with a known egress class.
    pub(crate) fn with_class(base: &str, class: UrlTrust) -> Self {
        Self { base_url: base.to_owned(), class }
    }

    /// Creates an endpoint configured by the operator, in any network.
    ///
    /// # Errors
    /// A message that says what is wrong with the URL.
    pub fn operator_site(base: &str) -> Result<Self, String> {
        let ServiceAddress { base_url: base, origin } = ServiceAddress::parse(base)?;
        Ok(Self { base_url: base, class: UrlTrust::Configured { origin } })
    }

    /// Downloads a file within a time and byte limit; follows redirects.
    ///
    /// # Errors
    /// A message with the URL.
    pub(crate) async fn download_file(
        &self,
        egress: &EgressClient,
        url: &str,
        accept: &'static str,
        DownloadLimits { timeout, max_bytes }: DownloadLimits,
    ) -> Result<Bytes, String> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() =
            egress.validate_url(&self.class, url).map_err(|error| error.to_string())?;
        let agent = concat!("Toolkeep/", env!("CARGO_PKG_VERSION"));
        request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static(agent));
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(accept));
        let limits = RequestLimits {
            header_timeout: timeout,
            max_body_bytes: max_bytes,
            ..RequestLimits::default()
        };
        let asked = async {
            let sent = egress.send_following_redirects(
                &self.class,
                request,
                limits,
                RedirectPolicy::default(),
            );
            let (head, body) = sent.await.map_err(|error| error.to_string())?.into_parts();
            if !head.status.is_success() {
                return Err(format!("{url} returned status {}", head.status.as_u16()));
            }
            body.collect_bytes().await.map_err(|error| error.to_string())
        };
        let late =
            |_| Err(format!("{url} sent no complete response within {}s", timeout.as_secs()));
        tokio::time::timeout(timeout, asked).await.unwrap_or_else(late)
    }

    /// Requests `path`, which begins with a slash and includes the query.
    pub(super) async fn get_path(
        &self,
        egress: &EgressClient,
        path: &str,
        limit: Duration,
    ) -> Result<(StatusCode, Bytes), EndpointError> {
        let url = format!("{}{path}", self.base_url);
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() =
            egress.validate_url(&self.class, &url).map_err(EndpointError::network_error)?;
        let headers = request.headers_mut();
        // Wikimedia requires a user agent, DuckDuckGo the accept header of a browser.
        let agent = concat!("Toolkeep/", env!("CARGO_PKG_VERSION"), " (built-in tools)");
        headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
        let accept = "text/html,application/json;q=0.9,*/*;q=0.8";
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        let limits = RequestLimits {
            header_timeout: limit,
            body_idle_timeout: limit,
            max_body_bytes: MAX_RESPONSE_BYTES,
            ..RequestLimits::default()
        };
        let asked = async {
            let sent = egress.send_following_redirects(
                &self.class,
                request,
                limits,
                RedirectPolicy::default(),
            );
            let (head, body) = sent.await.map_err(EndpointError::network_error)?.into_parts();
            Ok((head.status, body.collect_bytes().await.map_err(EndpointError::network_error)?))
        };
        tokio::time::timeout(limit, asked).await.unwrap_or_else(|_| {
            Err(EndpointError {
                kind: "timeout",
                message: format!("no response within {}s", limit.as_secs()),
            })
        })
    }
}

/// Failure of a request, with the kind in the research registry's terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EndpointError {
    /// `timeout`, `rate_limit`, `network` or `parse_error`.
    pub(super) kind: &'static str,
    pub(super) message: String,
}

impl EndpointError {
    fn network_error(error: impl std::fmt::Display) -> Self {
        Self { kind: "network", message: error.to_string() }
    }

    pub(super) fn rate_limited(service: &str) -> Self {
        let what = format!("{service} wants a person to answer a challenge first; try later");
        Self { kind: "rate_limit", message: what }
    }

    pub(super) fn from_status(service: &str, status: StatusCode) -> Self {
        let kind = if status == StatusCode::TOO_MANY_REQUESTS { "rate_limit" } else { "network" };
        Self { kind, message: format!("{service} answered with status {}", status.as_u16()) }
    }

    pub(super) fn unexpected_body(service: &str, problem: impl std::fmt::Display) -> Self {
        Self { kind: "parse_error", message: format!("invalid response of {service}: {problem}") }
    }

    pub(super) fn to_text(&self) -> String {
        format!("{} [{}]", self.message, self.kind)
    }
}

/// Percent-encodes a part of a path or a query.
pub(super) fn percent_encode(text: &str) -> String {
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
