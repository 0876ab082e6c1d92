//! The door through which commands speak to a server: over HTTP, or to one in this process.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use egress::{Body, Class, Egress, EgressError, EgressSettings, HttpLimits, Origin};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http::{Request, Response, Uri};
use tool::Boxed;

/// The largest answer that is read, in bytes.
pub(crate) const ANSWER: usize = 64 << 20;
/// The longest a call may take: a little more than any tool gets.
const PATIENCE: Duration = Duration::from_mins(11);

/// Carries one request to a server. Its URI is a path; the door knows the rest.
pub trait Door: Send + Sync {
    /// Sends it and reads the whole answer.
    ///
    /// # Errors
    /// Where no answer came. An answer that tells of an error is an answer.
    fn send(&self, request: Request<Bytes>) -> Boxed<'_, Result<Response<Bytes>, DoorError>>;

    /// Sends it and gives the answer as it comes. Dropped, the request is given up.
    ///
    /// # Errors
    /// As [`Door::send`].
    fn open(&self, request: Request<Bytes>) -> Boxed<'_, Result<Response<Parts>, DoorError>> {
        Box::pin(async {
            let whole = |body| futures_util::stream::once(std::future::ready(Ok(body))).boxed();
            Ok(self.send(request).await?.map(whole))
        })
    }

    /// Waits for sources of a server that has just started: for those that are needed up to `limit`, where there is
    /// one, else for as long as [`SourceNeed`] says.
    fn sources<'a>(&'a self, _need: SourceNeed<'a>, _limit: Option<Duration>) -> Boxed<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// The sources that a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceNeed<'a> {
    /// What a server shows of all of them: until none came for a second, 5 s at most.
    Overview,
    /// What a command lists of all of them: half a second at most.
    List,
    /// The one with this tool, 35 s at most.
    Tool(&'a str),
    /// This one, 35 s at most.
    Source(&'a str),
    /// Those with the tools that this script, or this list of steps, calls, 35 s at most.
    Script(&'a str),
    /// Those with the tools of this stored program, 35 s at most.
    Program(&'a str),
    /// The one with the tool of this pending call, and those of the program that waits for it, 35 s at most.
    Approval(&'a str),
    /// All of them, 35 s at most.
    All,
}

/// The parts of an answer, as they come.
pub type Parts = BoxStream<'static, Result<Bytes, DoorError>>;

/// No answer came.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DoorError(pub String);

/// The door to a server elsewhere.
#[derive(Debug)]
pub(crate) struct HttpDoor {
    egress: Egress,
    origin: Origin,
}

impl HttpDoor {
    /// To the server at `url`: scheme, host and port.
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

    /// The server that it leads to.
    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    async fn exchange(
        &self,
        mut request: Request<Bytes>,
        limits: HttpLimits,
    ) -> Result<Response<Body>, EgressError> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        // Both parts are of a URI already.
        *request.uri_mut() = format!("{}{path}", self.origin).parse::<Uri>().unwrap_or_default();
        let class = Class::Operator { origin: self.origin.clone() };
        self.egress.send(&class, request, limits).await.map(Into::into)
    }

    async fn whole(&self, request: Request<Bytes>) -> Result<Response<Bytes>, DoorError> {
        let (head, body) = self.exchange(request, LIMITS).await.map_err(told)?.into_parts();
        Ok(Response::from_parts(head, body.bytes().await.map_err(told)?))
    }

    /// A stream may be silent for as long as its server has nothing to say, and say any amount.
    ///
    /// # Errors
    /// Where no answer came, with whether the request may have been sent.
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
