//! Redirects: each hop is judged anew, as an address that a stranger gave.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName};
use http::{Method, Request, StatusCode, Uri};
use tool::executor::Sent;
use url::Url;

use super::error::{EgressError, Shown};
use super::received::Received;
use super::target::Origin;
use super::{Class, blocked};

/// How far to follow redirects.
#[derive(Debug, Clone, Copy)]
pub struct Follow {
    /// Most hops.
    pub max: u8,
}

impl Default for Follow {
    fn default() -> Self {
        Self { max: 5 }
    }
}

/// What may go along to another origin: nothing that could be a secret.
const KEPT: [HeaderName; 4] =
    [header::ACCEPT, header::ACCEPT_LANGUAGE, header::USER_AGENT, header::RANGE];

/// A request that can be asked again elsewhere.
#[derive(Debug, Clone)]
pub(super) struct Hop {
    pub(super) class: Class,
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Hop {
    pub(super) fn request(&self) -> Request<Bytes> {
        let mut request = Request::new(self.body.clone());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }

    /// The next hop where `response`, which came from `from`, is a redirect; `None` where it is not.
    pub(super) fn next(
        &self,
        from: &Origin,
        response: &Received,
    ) -> Result<Option<Self>, EgressError> {
        let status = response.status();
        // As browsers do (Fetch, 4.4): a POST becomes a GET at 301 and 302, anything at 303.
        let becomes_get = match status {
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => self.method == Method::POST,
            StatusCode::SEE_OTHER => self.method != Method::HEAD,
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => false,
            _ => return Ok(None),
        };
        let Some(location) = response.headers().get(header::LOCATION) else { return Ok(None) };
        let unfit = |why: &str| EgressError::Blocked {
            url: Shown::uri(&self.uri),
            why: why.to_owned(),
            sent: Sent::Maybe,
        };
        let location = location.to_str().map_err(|_| unfit("it redirects to what is not a URL"))?;
        let base = Url::parse(&self.uri.to_string())
            .map_err(|_| unfit("it redirects from what is not a URL"))?;
        let mut to = base.join(location).map_err(|_| unfit("it redirects to what is not a URL"))?;
        to.set_fragment(None);
        let shown = Shown::of(to.as_str());
        let origin = Origin::parse(to.as_str()).map_err(EgressError::after_a_hop)?;
        if from.is_https() && !origin.is_https() {
            return Err(blocked(
                &shown,
                "a redirect leads there from https, and it is not encrypted",
            )
            .after_a_hop());
        }
        let uri = to.as_str().parse().map_err(|_| unfit("it redirects to what cannot be asked"))?;
        let mut next = Self { uri, ..self.clone() };
        if becomes_get {
            next.method = Method::GET;
            next.body = Bytes::new();
            next.headers.remove(header::CONTENT_TYPE);
        }
        if origin != *from {
            if !matches!(next.method, Method::GET | Method::HEAD) || !next.body.is_empty() {
                let why = "a redirect would send the request's body there, to another origin";
                return Err(blocked(&shown, why).after_a_hop());
            }
            next.class = Class::Upstream;
            next.headers = self
                .headers
                .iter()
                .filter(|(name, _)| KEPT.contains(name))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
        }
        Ok(Some(next))
    }
}
