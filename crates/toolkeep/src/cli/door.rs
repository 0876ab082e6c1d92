//! The door through which commands speak to a server: over HTTP, or to one in this process.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use guard::egress::{Class, Egress, EgressError, EgressSettings, HttpLimits, Origin};
use http::{Request, Response, Uri};
use tool::Boxed;

/// The largest answer that is read, in bytes.
const ANSWER: usize = 64 << 20;
/// The longest a call may take: a little more than any tool gets.
const PATIENCE: Duration = Duration::from_mins(11);

/// Carries one request to a server. Its URI is a path; the door knows the rest.
pub trait Door: Send + Sync {
    /// Sends it and reads the whole answer.
    ///
    /// # Errors
    /// Where no answer came. An answer that tells of an error is an answer.
    fn send(&self, request: Request<Bytes>) -> Boxed<'_, Result<Response<Bytes>, DoorError>>;
}

/// No answer came.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DoorError(pub String);

/// The door to a server elsewhere.
#[derive(Debug)]
pub(super) struct HttpDoor {
    egress: Egress,
    origin: Origin,
}

impl HttpDoor {
    /// To the server at `url`: scheme, host and port.
    pub(super) fn new(url: &str) -> Result<Arc<Self>, DoorError> {
        let told = |error: EgressError| DoorError(error.to_string());
        let parsed = url::Url::parse(url).ok();
        if parsed.is_none_or(|url| url.path() != "/" || url.query().is_some()) {
            let message = format!("`{}` is no address of a server", url.escape_debug());
            return Err(DoorError(message));
        }
        let origin = Origin::parse(url).map_err(told)?;
        let egress = Egress::new(EgressSettings::default()).map_err(told)?;
        Ok(Arc::new(Self { egress, origin }))
    }

    async fn exchange(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>, DoorError> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let uri: Result<Uri, _> = format!("{}{path}", self.origin).parse();
        *request.uri_mut() = uri.map_err(|error| DoorError(error.to_string()))?;
        let class = Class::Operator { origin: self.origin.clone() };
        let limits = HttpLimits {
            connect: Duration::from_secs(10),
            headers: PATIENCE,
            idle: Duration::from_mins(1),
            body: ANSWER,
        };
        let told = |error: EgressError| DoorError(error.to_string());
        let answer = self.egress.send(&class, request, limits).await.map_err(told)?;
        let (head, body) = answer.into_parts();
        Ok(Response::from_parts(head, body.bytes().await.map_err(told)?))
    }
}

impl Door for HttpDoor {
    fn send(&self, request: Request<Bytes>) -> Boxed<'_, Result<Response<Bytes>, DoorError>> {
        Box::pin(self.exchange(request))
    }
}
