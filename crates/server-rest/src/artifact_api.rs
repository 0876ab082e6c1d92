//! `/v1/artefacts/{id}`: download of a result that was too large to return inline, complete or by
//! range.

use std::ops::Range;

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
use tool::ErrorCode;
use tool::artifact::{ArtifactError, ByteRange};

use server_core::error::ApiError;
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;

/// Bytes read to detect the media type of an artifact.
const SNIFF_BYTES: usize = 16;
/// Bytes that are read per chunk.
const CHUNK_BYTES: usize = 256 << 10;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new(
            "get",
            "/v1/artefacts/{id}",
            "Get an artifact, a result that was too large, or the part in the header `Range`",
            get(read_artifact),
        )
        .with_reply::<serde_json::Value>(),
    ]
}

async fn read_artifact(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let missing = || artifact_error(&ArtifactError::NotFound);
    let artefacts = state.components.gateway.artifact_store().ok_or_else(missing)?.clone();
    let caller = principal.caller().clone();
    let head = artefacts
        .read_chunk(&caller, &id, ByteRange { offset: 0, max_bytes: SNIFF_BYTES })
        .await
        .map_err(|error| artifact_error(&error))?;
    let range_header = headers.get(RANGE).and_then(|range| range.to_str().ok());
    let Some(Range { start: from, end }) = parse_range(range_header, head.total_bytes) else {
        let told = format!("bytes */{}", head.total_bytes);
        let message = format!(
            "the range is outside the {} bytes of the \
            artifact",
            head.total_bytes
        );
        let error =
            ApiError::new(ErrorCode::InvalidRequest, message).with_help("write `bytes=FROM-TO`");
        return Ok(
            (StatusCode::RANGE_NOT_SATISFIABLE, [(CONTENT_RANGE, told)], error).into_response()
        );
    };
    let parts = stream::try_unfold(from, move |at| {
        let (artefacts, caller, id) = (artefacts.clone(), caller.clone(), id.clone());
        async move {
            if at >= end {
                return Ok::<Option<(Bytes, u64)>, ArtifactError>(None);
            }
            let most = usize::try_from(end - at).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
            let range = ByteRange { offset: at, max_bytes: most };
            let part = artefacts.read_chunk(&caller, &id, range).await?;
            let next = at + part.bytes.len() as u64;
            if part.bytes.is_empty() {
                Err(ArtifactError::NotFound)
            } else {
                Ok(Some((part.bytes, next)))
            }
        }
    });
    let mut response = Body::from_stream(parts).into_response();
    let response_headers = response.headers_mut();
    // The content comes from a tool: never treat it as a page of this server; images run no
    // scripts.
    response_headers.insert(CONTENT_TYPE, HeaderValue::from_static(sniff_media_type(&head.bytes)));
    response_headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response_headers
        .insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    response_headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    response_headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if range_header.is_some() {
        let told = format!("bytes {from}-{}/{}", end.saturating_sub(1), head.total_bytes);
        if let Ok(told) = HeaderValue::try_from(told) {
            response_headers.insert(CONTENT_RANGE, told);
        }
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(response)
}

/// Detects the media type from the first bytes: images that the built-in tools draw, or JSON.
fn sniff_media_type(head: &[u8]) -> &'static str {
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
fn parse_range(header: Option<&str>, total: u64) -> Option<Range<u64>> {
    let Some(asked) = header else { return Some(0..total) };
    let (from, to) = asked.trim().strip_prefix("bytes=")?.split_once('-')?;
    let (from, end) = match (from.parse::<u64>().ok(), to.parse::<u64>().ok()) {
        (Some(from), Some(to)) if from <= to => (from, to.saturating_add(1).min(total)),
        (Some(from), None) if to.is_empty() => (from, total),
        (None, Some(last)) if from.is_empty() && last > 0 => (total.saturating_sub(last), total),
        _ => return None,
    };
    (from < end).then_some(from..end)
}

fn artifact_error(error: &ArtifactError) -> ApiError {
    match error {
        ArtifactError::NotFound => ApiError::new(ErrorCode::NotFound, error.to_string())
            .with_help("call the tool again; only its caller can read the result, for one hour"),
        ArtifactError::Unavailable(what) => {
            ApiError::new(ErrorCode::StoreUnavailable, what.clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{parse_range, sniff_media_type};

    #[test]
    fn pictures_are_known_by_how_they_begin() {
        assert_eq!(sniff_media_type(b"\x89PNG\r\n\x1a\n\0"), "image/png");
        assert_eq!(sniff_media_type(b"<svg width=\"1\""), "image/svg+xml");
        for other in [&b""[..], b"{}", b"<html>", b"<svgx>", b"\x89PN"] {
            assert_eq!(sniff_media_type(other), "application/json");
        }
    }

    #[test]
    fn ranges_are_read_as_http_has_them() {
        for (asked, expected) in [
            ("bytes=0-9", Some(0..10)),
            ("bytes=90-", Some(90..100)),
            ("bytes=90-500", Some(90..100)),
            ("bytes=-10", Some(90..100)),
            ("bytes=-500", Some(0..100)),
            ("bytes=100-", None),
            ("bytes=9-0", None),
            ("bytes=-0", None),
            ("bytes=0-1,5-6", None),
            ("lines=0-1", None),
            ("bytes=-", None),
        ] {
            assert_eq!(parse_range(Some(asked), 100), expected, "{asked}");
        }
        assert_eq!(parse_range(None, 100), Some(0..100));
        assert_eq!(parse_range(Some("bytes=0-"), 0), None);
    }
}
