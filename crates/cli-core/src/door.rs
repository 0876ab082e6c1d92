//! The transport that carries a command's requests to a server: over HTTP, or to a server in this
//! process.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use egress::{Body, Class, Egress, EgressError, EgressSettings, HttpLimits, Origin};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http::{Request, Response, Uri};
use tool::Boxed;

/// Maximum size of a response, in bytes.
pub(crate) const ANSWER: usize = 64 << 20;
/// Timeout for a response: slightly longer than any tool may run.
const PATIENCE: Duration = Duration::from_mins(11);

/// Carries requests to a server. The URI of a request is a path; the transport knows the rest.
pub trait Door: Send + Sync {
    /// Sends a request and reads the complete response.
    ///
    /// # Errors
    /// Returns an error if no response arrived. An error response is a response.
    fn send(&self, request: Request<Bytes>) -> Boxed<'_, Result<Response<Bytes>, DoorError>>;

    /// Sends a request and streams the response. Dropping the future cancels the request.
    ///
    /// # Errors
    /// The same errors as [`Door::send`].
    fn open(&self, request: Request<Bytes>) -> Boxed<'_, Result<Response<Parts>, DoorError>> {
        Box::pin(async {
            let whole = |body| futures_util::stream::once(std::future::ready(Ok(body))).boxed();
            Ok(self.send(request).await?.map(whole))
        })
    }

    /// Waits for the sources of a freshly started server, up to `limit` or else as long as
    /// [`SourceNeed`] specifies.
    fn sources<'a>(&'a self, _need: SourceNeed<'a>, _limit: Option<Duration>) -> Boxed<'a, ()> {
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
pub type Parts = BoxStream<'static, Result<Bytes, DoorError>>;

/// The error if no response arrived.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DoorError(pub String);

/// The transport to a server over HTTP.
#[derive(Debug)]
pub(crate) struct HttpDoor {
    egress: Egress,
    origin: Origin,
}

impl HttpDoor {
    /// Creates a transport to the server at `url`: scheme, host and port.
    pub(crate) fn new(url: &str) -> Result<Arc<Self>, DoorError> {
        let parsed = url::Url::parse(url).ok();
        if parsed.is_none_or(|url| url.path() != "/" || url.query().is_some()) {
            let message = format!("`{}` is no address of a server", url.escape_debug());
            return Err(DoorError(message));
        }
        let origin = Origin::parse(url).map_err(told)?;
        let egress = Egress::new(EgressSettings::default()).map_err(told)?;
        Ok(Arc::new(Self { egress, origin }))
    }

    /// The origin of the server.
    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    async fn exchange(
        &self,
        mut request: Request<Bytes>,
        limits: HttpLimits,
    ) -> Result<Response<Body>, EgressError> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        // Both parts come from valid URIs.
        *request.uri_mut() = format!("{}{path}", self.origin).parse::<Uri>().unwrap_or_default();
        let class = Class::Operator { origin: self.origin.clone() };
        self.egress.send(&class, request, limits).await.map(Into::into)
    }

    async fn whole(&self, request: Request<Bytes>) -> Result<Response<Bytes>, DoorError> {
        let (head, body) = self.exchange(request, LIMITS).await.map_err(told)?.into_parts();
        Ok(Response::from_parts(head, body.bytes().await.map_err(told)?))
    }

    /// Opens a response stream without limits on size and idle time.
    ///
    /// # Errors
    /// Returns an error if no response arrived, with whether the request may have been sent.
    pub(crate) async fn stream(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<Parts>, EgressError> {
        let limits =
            HttpLimits { headers: Duration::MAX, idle: Duration::MAX, body: usize::MAX, ..LIMITS };
        let next = |mut body: Body| async move {
            let part = body.chunk().await.map_err(told).transpose()?;
            Some((part, body))
        };
        let answer = self.exchange(request, limits).await?;
        Ok(answer.map(|body| futures_util::stream::unfold(body, next).boxed()))
    }

    async fn parts(&self, request: Request<Bytes>) -> Result<Response<Parts>, DoorError> {
        self.stream(request).await.map_err(told)
    }
}

const LIMITS: HttpLimits = HttpLimits {
    connect: Duration::from_secs(10),
    headers: PATIENCE,
    idle: Duration::from_mins(1),
    body: ANSWER,
};

#[expect(clippy::needless_pass_by_value, reason = "maps an error into another")]
fn told(error: EgressError) -> DoorError {
    DoorError(error.to_string())
}

impl Door for HttpDoor {
    fn send(&self, request: Request<Bytes>) -> Boxed<'_, Result<Response<Bytes>, DoorError>> {
        Box::pin(self.whole(request))
    }

    fn open(&self, request: Request<Bytes>) -> Boxed<'_, Result<Response<Parts>, DoorError>> {
        Box::pin(self.parts(request))
    }
}
