//! Requests made fit to be sent: without what belongs to a connection, with the host that was judged.

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{Request, Uri, Version};
use http_body_util::Full;

use super::error::Shown;
use super::{Class, Origin};

/// What many requests to one place have in common.
#[derive(Debug, Clone)]
pub struct Prepared {
    pub(super) class: Class,
    pub(super) origin: Origin,
    pub(super) url: Shown,
    pub(super) parts: http::request::Parts,
}

/// Headers that belong to one connection, and those that only this crate may set (RFC 9110 7.6.1).
const OURS: [header::HeaderName; 9] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::CONNECTION,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
];

pub(super) fn is_ours(name: &HeaderName) -> bool {
    OURS.contains(name) || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

pub(super) fn ready_to_send(origin: &Origin, request: Request<Bytes>) -> Request<Full<Bytes>> {
    let (mut parts, body) = request.into_parts();
    parts.uri = Uri::from(path_of(&parts.uri));
    parts.version = Version::HTTP_11;
    let ours: Vec<_> = parts.headers.keys().filter(|name| is_ours(name)).cloned().collect();
    for name in ours {
        parts.headers.remove(name);
    }
    if let Ok(host) = HeaderValue::from_str(origin.authority()) {
        parts.headers.insert(header::HOST, host);
    }
    Request::from_parts(parts, Full::new(body))
}

/// What follows the authority. A bare query gets the slash that the text did not need.
fn path_of(uri: &Uri) -> PathAndQuery {
    let root = PathAndQuery::from_static("/");
    match uri.path_and_query() {
        Some(path) if path.as_str().starts_with('/') => path.clone(),
        Some(path) => path.to_string().parse().unwrap_or(root),
        None => root,
    }
}
