//! The transport that carries a command's requests to a server: over HTTP, or to a server in this
//! process.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use egress::{
    EgressBody, EgressClient, EgressError, EgressOptions, Origin, RequestLimits, TrustStore,
    UrlTrust,
};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http::{Request, Response, Uri};
use tool::BoxFuture;

/// Maximum size of a response, in bytes.
pub(crate) const MAX_RESPONSE_BYTES: usize = 64 << 20;
/// Timeout for a response: slightly longer than any tool may run.
const RESPONSE_TIMEOUT: Duration = Duration::from_mins(11);

/// Carries requests to a server. The URI of a request is a path; the transport knows the rest.
pub trait ServerTransport: Send + Sync {
    /// Sends a request and reads the complete response.
    ///
    /// # Errors
    /// Returns an error if no response arrived. An error response is a response.
    fn send_request(
        &self,
        request: Request<Bytes>,
    ) -> BoxFuture<'_, Result<Response<Bytes>, TransportError>>;

    /// Sends a request and streams the response. Dropping the future cancels the request.
    ///
    /// # Errors
    /// The same errors as [`ServerTransport::send_request`].
    fn send_streaming(
        &self,
        request: Request<Bytes>,
    ) -> BoxFuture<'_, Result<Response<BodyStream>, TransportError>> {
        Box::pin(async {
            let whole = |body| futures_util::stream::once(std::future::ready(Ok(body))).boxed();
            Ok(self.send_request(request).await?.map(whole))
        })
    }

    /// Waits for the sources of a freshly started server, up to `limit` or else as long as
    /// [`SourceNeed`] specifies.
    fn wait_for_sources<'a>(
        &'a self,
        _need: SourceNeed<'a>,
        _limit: Option<Duration>,
    ) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// The sources that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceNeed<'a> {
    /// All sources for an overview: until none was listed for a second, at most 5 s.
    Overview,
    /// All sources for a list: at most half a second.
    List,
    /// The source with this tool, at most 35 s.
    Tool(&'a str),
    /// The named source, at most 35 s.
    Source(&'a str),
    /// The sources with the tools that this script or list of steps calls, at most 35 s.
    Script(&'a str),
    /// The sources with the tools of this stored program, at most 35 s.
    Program(&'a str),
    /// The source with the tool of this pending call, and those of the program that waits for it,
    /// at most 35 s.
    Approval(&'a str),
    /// All sources, at most 35 s.
    All,
}

/// The chunks of a response as they arrive.
pub type BodyStream = BoxStream<'static, Result<Bytes, TransportError>>;

/// The error if no response arrived.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TransportError(pub String);

/// The transport to a server over HTTP.
#[derive(Debug)]
pub(crate) struct HttpTransport {
    egress: EgressClient,
    origin: Origin,
}

impl HttpTransport {
    /// Creates a transport to the server at `url`: scheme, host and port.
    pub(crate) fn new(url: &str) -> Result<Arc<Self>, TransportError> {
        let parsed = url::Url::parse(url).ok();
        if parsed.is_none_or(|url| url.path() != "/" || url.query().is_some()) {
            let message = format!("invalid server URL `{}`", url.escape_debug());
            return Err(TransportError(message));
        }
        let origin = Origin::parse(url).map_err(transport_error)?;
        // Certificate authorities take longer to read than most commands take in all.
        let is_https = origin.is_https();
        let trust_store = TrustStore {
            uses_system_roots: is_https,
            falls_back_to_bundled: is_https,
            extra_roots: Vec::new(),
        };
        let options = EgressOptions { trust_store, ..EgressOptions::default() };
        let egress = EgressClient::new(options).map_err(transport_error)?;
        Ok(Arc::new(Self { egress, origin }))
    }

    /// The origin of the server.
    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    async fn send_to_origin(
        &self,
        mut request: Request<Bytes>,
        limits: RequestLimits,
    ) -> Result<Response<EgressBody>, EgressError> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        // Both parts come from valid URIs.
        *request.uri_mut() = format!("{}{path}", self.origin).parse::<Uri>().unwrap_or_default();
        let class = UrlTrust::Configured { origin: self.origin.clone() };
        self.egress.send_request(&class, request, limits).await.map(Into::into)
    }

    async fn send_and_collect(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, TransportError> {
        let (head, body) =
            self.send_to_origin(request, HTTP_LIMITS).await.map_err(transport_error)?.into_parts();
        Ok(Response::from_parts(head, body.collect_bytes().await.map_err(transport_error)?))
    }

    /// Opens a response stream without limits on size and idle time.
    ///
    /// # Errors
    /// Returns an error if no response arrived, with whether the request may have been sent.
    pub(crate) async fn open_stream(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<BodyStream>, EgressError> {
        let limits = RequestLimits {
            header_timeout: Duration::MAX,
            body_idle_timeout: Duration::MAX,
            max_body_bytes: usize::MAX,
            ..HTTP_LIMITS
        };
        let next = |mut body: EgressBody| async move {
            let part = body.next_chunk().await.map_err(transport_error).transpose()?;
            Some((part, body))
        };
        let answer = self.send_to_origin(request, limits).await?;
        Ok(answer.map(|body| futures_util::stream::unfold(body, next).boxed()))
    }

    async fn stream_body(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<BodyStream>, TransportError> {
        self.open_stream(request).await.map_err(transport_error)
    }
}

const HTTP_LIMITS: RequestLimits = RequestLimits {
    connect_timeout: Duration::from_secs(10),
    header_timeout: RESPONSE_TIMEOUT,
    body_idle_timeout: Duration::from_mins(1),
    max_body_bytes: MAX_RESPONSE_BYTES,
};

#[expect(clippy::needless_pass_by_value, reason = "maps an error into another")]
fn transport_error(error: EgressError) -> TransportError {
    TransportError(error.to_string())
}

impl ServerTransport for HttpTransport {
    fn send_request(
        &self,
        request: Request<Bytes>,
    ) -> BoxFuture<'_, Result<Response<Bytes>, TransportError>> {
        Box::pin(self.send_and_collect(request))
    }

    fn send_streaming(
        &self,
        request: Request<Bytes>,
    ) -> BoxFuture<'_, Result<Response<BodyStream>, TransportError>> {
        Box::pin(self.stream_body(request))
    }
}
