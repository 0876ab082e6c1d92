//! The outbound HTTP client. Every HTTP request that Toolkeep sends passes its URL and address
//! checks.
//!
//! A URL belongs to a [`UrlTrust`] by its source, never by its content. Checks run in a fixed order:
//! URL syntax, scheme, user info, port, host, DNS lookup, every resolved address. The client then
//! dials a checked address, verifies the peer address and starts TLS. Proxies named in the
//! environment are ignored. Only HTTP/1.1 is spoken; bodies are not decompressed, so limits count
//! transferred bytes.

mod connection_pool;
mod connector;
mod error;
mod http_connection;
mod ip_policy;
mod options;
mod redirect;
mod request_execution;
mod request_template;
mod resolver;
mod response;
mod response_body;
mod service_address;
mod tls;
mod unix_socket;
mod url_policy;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Uri};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;

pub use connection_pool::PoolOptions;
pub use connector::{Dialer, TcpDialer};
pub use error::{EgressError, RedactedUrl, RequestPhase, running_question};
pub use http_connection::HttpStack;
pub use http1::ResponseHead;
pub use options::{EgressOptions, RequestLimits};
pub use redirect::RedirectPolicy;
pub use request_template::RequestTemplate;
pub use resolver::{DnsResolver, MAX_ADDRESSES, SystemResolver};
pub use response::EgressResponse;
pub use response_body::EgressBody;
pub use rustls::pki_types::CertificateDer;
pub use service_address::ServiceAddress;
pub use tls::TrustStore;
pub use unix_socket::connect_unix_socket;
pub use url_policy::{Origin, PlaintextKeyError, UrlPolicy};

use connection_pool::ConnectionPool;
use connector::Connector;
use redirect::RedirectRequest;
use request_execution::Destination;
use url_policy::blocked_error;

/// The source of a URL, which decides which hosts and addresses it may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UrlTrust {
    /// From the operator's configuration: may reach this origin only, in any network.
    Configured {
        /// The configured origin.
        origin: Origin,
    },
    /// From an argument of a call: may reach public addresses only.
    CallArgument,
    /// From a response, such as a redirect or metadata: may reach public addresses only.
    UpstreamResponse,
}

/// The outbound HTTP client. Clones share connections and limits.
#[derive(Clone)]
pub struct EgressClient(Arc<ClientInner>);

struct ClientInner {
    url_policy: Arc<UrlPolicy>,
    connector: Arc<Connector>,
    pool: Arc<ConnectionPool>,
    request_permits: Arc<Semaphore>,
    pool_options: PoolOptions,
    http_stack: HttpStack,
}

impl EgressClient {
    /// Loads the certificate authorities. Opens no connection.
    ///
    /// # Errors
    /// [`EgressError::InvalidOptions`].
    pub fn new(options: EgressOptions) -> Result<Self, EgressError> {
        let EgressOptions {
            url_policy,
            trust_store,
            max_open_requests,
            pool: pool_options,
            resolver,
            dialer,
            http_stack,
        } = options;
        let connector = Arc::new(Connector {
            resolver,
            dialer,
            tls_config: trust_store.build_client_config()?,
            server_name: None,
        });
        let max_open_requests = max_open_requests.min(Semaphore::MAX_PERMITS);
        Ok(Self(Arc::new(ClientInner {
            url_policy: Arc::new(url_policy),
            connector,
            pool: Arc::new(ConnectionPool::new(pool_options)),
            request_permits: Arc::new(Semaphore::new(max_open_requests)),
            pool_options,
            http_stack,
        })))
    }

    /// Returns a client with its own connection pool, so that requests with different credentials
    /// never share a connection. Limits stay shared.
    #[must_use]
    pub fn with_separate_pool(&self) -> Self {
        let ClientInner {
            url_policy, connector, request_permits, pool_options, http_stack, ..
        } = &*self.0;
        Self(Arc::new(ClientInner {
            url_policy: Arc::clone(url_policy),
            connector: Arc::clone(connector),
            pool: Arc::new(ConnectionPool::new(*pool_options)),
            request_permits: Arc::clone(request_permits),
            pool_options: *pool_options,
            http_stack: *http_stack,
        }))
    }

    /// Returns the implementation of HTTP/1.1 that sends the requests.
    pub fn http_stack(&self) -> HttpStack {
        self.0.http_stack
    }

    /// Validates `url` without a DNS lookup, for early feedback, and returns its normalized form.
    /// Sending validates it again.
    ///
    /// # Errors
    /// [`EgressError::Blocked`].
    pub fn validate_url(&self, trust: &UrlTrust, url: &str) -> Result<Uri, EgressError> {
        let origin = self.0.url_policy.validate_url(trust, url)?;
        let invalid_uri =
            || blocked_error(&RedactedUrl::from_text(url), "it cannot be encoded as a request");
        let parsed = url::Url::parse(url).map_err(|_| invalid_uri())?;
        let path_and_query = &parsed[url::Position::BeforePath..url::Position::AfterQuery];
        format!("{origin}{path_and_query}").parse().map_err(|_| invalid_uri())
    }

    /// Sends one request with an absolute URI and returns the response head, with any status.
    /// Redirects are not followed. Retries only if a pooled connection was closed before any byte
    /// was sent.
    ///
    /// # Errors
    /// [`EgressError`]; its `dispatch()` says whether the server may have received the request.
    pub async fn send_request(
        &self,
        trust: &UrlTrust,
        request: Request<Bytes>,
        limits: RequestLimits,
    ) -> Result<EgressResponse, EgressError> {
        let origin = self.check_origin(trust, request.uri())?;
        let url = RedactedUrl::from_uri(request.uri());
        let request = request_template::encode_request(&origin, request, self.0.http_stack);
        let destination = Destination { trust, origin: &origin, url: &url };
        self.execute_request(destination, request, limits).await
    }

    /// Validates and encodes once what repeated requests to one URL have in common.
    ///
    /// # Errors
    /// [`EgressError::Blocked`].
    pub fn prepare_template(
        &self,
        trust: &UrlTrust,
        uri: &Uri,
        headers: HeaderMap,
    ) -> Result<RequestTemplate, EgressError> {
        let origin = self.check_origin(trust, uri)?;
        Ok(RequestTemplate::new(trust, origin, uri, headers))
    }

    /// Like [`send_request`](Self::send_request), for a template and additional headers.
    /// Connection headers are dropped; additional headers replace those of the template.
    ///
    /// # Errors
    /// As [`send_request`](Self::send_request).
    pub fn send_template(
        &self,
        template: &RequestTemplate,
        (method, extra_headers): (Method, impl IntoIterator<Item = (HeaderName, HeaderValue)>),
        body: Bytes,
        limits: RequestLimits,
    ) -> impl Future<Output = Result<EgressResponse, EgressError>> {
        let request = template.encode_request(&method, extra_headers, body, self.0.http_stack);
        let RequestTemplate { trust, origin, url, .. } = template;
        self.execute_request(Destination { trust, origin, url }, request, limits)
    }

    /// Like [`send_request`](Self::send_request), but follows redirects to public addresses
    /// or within the same origin. The time limits apply to each hop.
    ///
    /// # Errors
    /// [`EgressError`]; [`EgressError::Blocked`] also for more than `policy.max_redirects` hops.
    pub async fn send_following_redirects(
        &self,
        trust: &UrlTrust,
        request: Request<Bytes>,
        limits: RequestLimits,
        policy: RedirectPolicy,
    ) -> Result<EgressResponse, EgressError> {
        let (parts, body) = request.into_parts();
        let mut hop = RedirectRequest {
            trust: trust.clone(),
            method: parts.method,
            uri: parts.uri,
            headers: parts.headers,
            body,
        };
        for redirect_count in 0..=policy.max_redirects {
            let mark_after_redirect = |error: EgressError| {
                if redirect_count > 0 { error.mark_maybe_sent() } else { error }
            };
            let origin = self.check_origin(&hop.trust, &hop.uri).map_err(mark_after_redirect)?;
            let url = RedactedUrl::from_uri(&hop.uri);
            let request =
                request_template::encode_request(&origin, hop.to_request(), self.0.http_stack);
            let destination = Destination { trust: &hop.trust, origin: &origin, url: &url };
            let sent = self.execute_request(destination, request, limits).await;
            let response = sent.map_err(mark_after_redirect)?;
            match hop.next_request(&origin, &response)? {
                Some(next) => hop = next,
                None => return Ok(response),
            }
        }
        let why = format!("there are more than {} redirects", policy.max_redirects);
        Err(blocked_error(&RedactedUrl::from_uri(&hop.uri), why).mark_maybe_sent())
    }

    /// Opens a raw connection to a configured origin, for protocols other than HTTP, such as Redis.
    /// All checks apply. The connection is not pooled.
    ///
    /// # Errors
    /// [`EgressError`]: nothing was sent.
    pub async fn connect_stream(
        &self,
        origin: &Origin,
        limit: Duration,
    ) -> Result<impl AsyncRead + AsyncWrite + Unpin + Send + fmt::Debug + use<>, EgressError> {
        let trust = UrlTrust::Configured { origin: origin.clone() };
        self.0.connector.without_alpn().connect_origin(&trust, origin, limit).await
    }

    /// Opens a raw TLS connection with the caller's TLS configuration and server name, such as for
    /// a node with a certificate of a private authority.
    ///
    /// # Errors
    /// [`EgressError`]: nothing was sent. [`EgressError::InvalidOptions`] if the origin is not `https`.
    pub async fn connect_tls_stream(
        &self,
        origin: &Origin,
        (tls, server_name): (Arc<ClientConfig>, ServerName<'static>),
        limit: Duration,
    ) -> Result<impl AsyncRead + AsyncWrite + Unpin + Send + fmt::Debug + use<>, EgressError> {
        if !origin.is_https() {
            let message = format!("`{origin}` requires TLS but does not use `https`");
            return Err(EgressError::InvalidOptions(message));
        }
        let trust = UrlTrust::Configured { origin: origin.clone() };
        self.0
            .connector
            .with_tls(tls, Some(server_name))
            .connect_origin(&trust, origin, limit)
            .await
    }

    /// Closes idle connections after their timeout. Runs until it is cancelled; without this task,
    /// idle connections stay open until the next request, and their number is bounded.
    pub async fn run_idle_eviction(&self) {
        let mut ticks =
            tokio::time::interval(self.0.pool.idle_timeout().max(Duration::from_millis(100)));
        loop {
            ticks.tick().await;
            self.0.pool.evict_expired();
        }
    }

    fn check_origin(&self, trust: &UrlTrust, uri: &Uri) -> Result<Origin, EgressError> {
        if let UrlTrust::Configured { origin } = trust
            && origin.matches_uri(uri)
        {
            return Ok(origin.clone());
        }
        self.0.url_policy.validate_url(trust, &uri.to_string())
    }
}

impl fmt::Debug for EgressClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EgressClient")
            .field("url_policy", &self.0.url_policy)
            .finish_non_exhaustive()
    }
}
