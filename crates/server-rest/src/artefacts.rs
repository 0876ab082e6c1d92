//! `/v1/artefacts/{id}`: download of a result that was too large to return inline, complete or by
//! range.

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, RANGE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use bytes::Bytes;
use futures_util::stream;
use identity::Principal;
use tool::Code;
use tool::artefact::ArtefactError;

use server_core::error::ApiError;
use server_core::route::Route;
use server_core::state::Doors;

/// Bytes read to detect the media type of an artifact.
const HEAD: usize = 16;
/// Bytes that are read per chunk.
const CHUNK: usize = 256 << 10;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            "get",
            "/v1/artefacts/{id}",
            "An answer that was too large, or by `Range` a part of it",
            get(read),
        )
        .reply::<serde_json::Value>(),
    ]
}

async fn read(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let missing = || told(&ArtefactError::Missing);
    let artefacts = doors.parts.gateway.artefacts().ok_or_else(missing)?.clone();
    let caller = principal.caller().clone();
    let head = artefacts.read(&caller, &id, (0, HEAD)).await.map_err(|error| told(&error))?;
    let asked = headers.get(RANGE).and_then(|range| range.to_str().ok());
    let Some((from, end)) = range(asked, head.total) else {
        let told = format!("bytes */{}", head.total);
        let message = format!("the range lies outside of the {} bytes there are", head.total);
        let error = ApiError::new(Code::InvalidRequest, message).fix("write `bytes=FROM-TO`");
        return Ok(
            (StatusCode::RANGE_NOT_SATISFIABLE, [(CONTENT_RANGE, told)], error).into_response()
        );
    };
    let parts = stream::try_unfold(from, move |at| {
        let (artefacts, caller, id) = (artefacts.clone(), caller.clone(), id.clone());
        async move {
            if at >= end {
                return Ok::<Option<(Bytes, u64)>, ArtefactError>(None);
            }
            let most = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
            let part = artefacts.read(&caller, &id, (at, most)).await?;
            let next = at + part.bytes.len() as u64;
            if part.bytes.is_empty() {
                Err(ArtefactError::Missing)
            } else {
                Ok(Some((part.bytes, next)))
            }
        }
    });
    let mut response = Body::from_stream(parts).into_response();
    let heads = response.headers_mut();
    // The content comes from a tool: never treat it as a page of this server; images run no
    // scripts.
    heads.insert(CONTENT_TYPE, HeaderValue::from_static(kind(&head.bytes)));
    heads.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    heads.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    heads.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    heads.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if asked.is_some() {
        let told = format!("bytes {from}-{}/{}", end.saturating_sub(1), head.total);
        if let Ok(told) = HeaderValue::try_from(told) {
            heads.insert(CONTENT_RANGE, told);
        }
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(response)
}

/// Detects the media type from the first bytes: images that the built-in tools draw, or JSON.
fn kind(head: &[u8]) -> &'static str {
    if head.starts_with(b"\x89PNG\r\n\x1a\n") {
        "image/png"
    } else if head.starts_with(b"<svg ") {
        "image/svg+xml"
    } else {
        "application/json"
    }
}

/// Parses a byte range with an exclusive end; everything without a header. Several ranges are an
/// error.
fn range(asked: Option<&str>, total: u64) -> Option<(u64, u64)> {
    let Some(asked) = asked else { return Some((0, total)) };
    let (from, to) = asked.trim().strip_prefix("bytes=")?.split_once('-')?;
    let (from, end) = match (from.parse::<u64>().ok(), to.parse::<u64>().ok()) {
        (Some(from), Some(to)) if from <= to => (from, to.saturating_add(1).min(total)),
        (Some(from), None) if to.is_empty() => (from, total),
        (None, Some(last)) if from.is_empty() && last > 0 => (total.saturating_sub(last), total),
        _ => return None,
    };
    (from < end).then_some((from, end))
}

fn told(error: &ArtefactError) -> ApiError {
    match error {
        ArtefactError::Missing => ApiError::new(Code::NotFound, error.to_string())
            .fix("call the tool again; what is kept is its caller's alone, for an hour"),
        ArtefactError::Unavailable(what) => ApiError::new(Code::StoreUnavailable, what.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::{kind, range};

    #[test]
    fn pictures_are_known_by_how_they_begin() {
        assert_eq!(kind(b"\x89PNG\r\n\x1a\n\0"), "image/png");
        assert_eq!(kind(b"<svg width=\"1\""), "image/svg+xml");
        for other in [&b""[..], b"{}", b"<html>", b"<svgx>", b"\x89PN"] {
            assert_eq!(kind(other), "application/json");
        }
    }

    #[test]
    fn ranges_are_read_as_http_has_them() {
        for (asked, expected) in [
            ("bytes=0-9", Some((0, 10))),
            ("bytes=90-", Some((90, 100))),
            ("bytes=90-500", Some((90, 100))),
            ("bytes=-10", Some((90, 100))),
            ("bytes=-500", Some((0, 100))),
            ("bytes=100-", None),
            ("bytes=9-0", None),
            ("bytes=-0", None),
            ("bytes=0-1,5-6", None),
            ("lines=0-1", None),
            ("bytes=-", None),
        ] {
            assert_eq!(range(Some(asked), 100), expected, "{asked}");
        }
        assert_eq!(range(None, 100), Some((0, 100)));
        assert_eq!(range(Some("bytes=0-"), 0), None);
    }
}
