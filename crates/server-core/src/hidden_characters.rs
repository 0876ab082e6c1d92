//! Escaping of hidden characters in JSON responses, because a person may read them in a terminal.
//!
//! Records, approvals and errors contain names and texts from callers. Hidden characters in them
//! are written as JSON escapes, which does not change the value.

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, header};
use http_body::Body as _;
use http_body_util::BodyExt as _;

/// Escapes hidden characters in a JSON response whose body is complete. Streams pass as they are.
pub async fn escape_hidden(response: Response) -> Response {
    let media = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let is_json = media.is_some_and(|media| media.starts_with(b"application/json"));
    if !is_json || response.body().size_hint().exact().is_none() {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // The body is in memory: this does not wait.
    let Ok(body) = body.collect().await else { return Response::from_parts(parts, Body::empty()) };
    let bytes = body.to_bytes();
    let escaped = std::str::from_utf8(&bytes).ok().and_then(json::escape_invisible_as_json);
    let Some(escaped) = escaped else { return Response::from_parts(parts, Body::from(bytes)) };
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(escaped))
}

#[cfg(test)]
mod tests {
    use axum::Json as Reply;
    use axum::response::IntoResponse as _;
    use http::header;
    use http_body_util::BodyExt as _;
    use serde_json::{Value, json};

    #[tokio::test]
    async fn a_response_escapes_what_a_terminal_would_obey() {
        let value = json!({ "tool": "a\u{9b}31m\u{202e}b", "plain": "世界 \u{1b}" });
        let bytes = serde_json::to_vec(&value).unwrap();
        assert!(bytes.windows(2).any(|part| part == [0xc2, 0x9b]), "the control");
        let response = super::escape_hidden(Reply(value.clone()).into_response()).await;
        assert_eq!(response.headers().get(header::CONTENT_TYPE).unwrap(), "application/json");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let text = std::str::from_utf8(&body).unwrap();
        assert!(text.contains(r"a\u009b31m\u202eb"), "{text}");
        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), value);
        // What is no JSON, or a stream, passes as it is.
        let page = super::escape_hidden("\u{202e}".into_response()).await;
        assert_eq!(page.into_body().collect().await.unwrap().to_bytes(), "\u{202e}");
    }
}
