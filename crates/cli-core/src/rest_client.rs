//! The client of the server's REST API: request paths, authentication, and errors as command
//! errors.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tool::Secret;

use super::command_error::{CommandError, ExitStatus};
use super::printer::sanitize_text;
use super::server_transport::{BodyStream, ServerTransport, SourceNeed, TransportError};

/// Maximum characters of a non-JSON response that an error shows.
const MAX_EXCERPT_CHARS: usize = 200;

/// A client of one server.
#[expect(missing_debug_implementations, reason = "a door has none")]
#[derive(Clone)]
pub struct RestClient {
    transport: Arc<dyn ServerTransport>,
    key: Option<Secret>,
}

impl RestClient {
    /// Creates a client that sends requests over `transport` with `key`.
    pub fn new(transport: Arc<dyn ServerTransport>, key: Option<Secret>) -> Self {
        Self { transport, key }
    }

    /// Returns a client of the same server with another key.
    #[must_use]
    pub fn with_key(&self, key: Secret) -> Self {
        Self { transport: Arc::clone(&self.transport), key: Some(key) }
    }

    /// Opens a streamed response for a request whose headers the caller has built.
    ///
    /// # Errors
    /// Returns an error if there is no response, or if the response is an error.
    pub async fn open_stream(
        &self,
        mut request: Request<Bytes>,
    ) -> Result<Response<BodyStream>, CommandError> {
        let headers = request.headers_mut();
        headers.insert(header::HOST, HeaderValue::from_static("localhost"));
        if let Some(key) = &self.key {
            let bearer = HeaderValue::try_from(format!("Bearer {}", key.expose()));
            let mut bearer = bearer.map_err(|_| invalid_request_error())?;
            bearer.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, bearer);
        }
        self.transport.send_streaming(request).await.map_err(|error| no_response_error(&error))
    }

    /// Waits for sources of a server that has just started, see [`ServerTransport::wait_for_sources`].
    pub async fn wait_for_sources(&self, need: SourceNeed<'_>, limit: Option<Duration>) {
        self.transport.wait_for_sources(need, limit).await;
    }

    /// Sends a GET request for `path`.
    ///
    /// # Errors
    /// Returns an error if there is no response, or if the response is an error.
    pub async fn get_json(&self, path: &RequestPath) -> Result<Value, CommandError> {
        self.send_request(Method::GET, path, None).await
    }

    /// Sends `body` with a POST request. The response may be read as raw text, so that no digit is
    /// lost.
    ///
    /// # Errors
    /// Returns an error if there is no response, or if the response is an error.
    pub async fn post_json<T: DeserializeOwned>(
        &self,
        path: &RequestPath,
        body: &impl Serialize,
    ) -> Result<T, CommandError> {
        let body = serde_json::to_vec(body)
            .map_err(|error| CommandError::new(ExitStatus::UsageError, error.to_string()))?;
        self.send_request(Method::POST, path, Some(body)).await
    }

    /// Sends `body` with a PUT request.
    ///
    /// # Errors
    /// Returns an error if there is no response, or if the response is an error.
    pub async fn put_json<T: DeserializeOwned>(
        &self,
        path: &RequestPath,
        body: &impl Serialize,
    ) -> Result<T, CommandError> {
        let body = serde_json::to_vec(body)
            .map_err(|error| CommandError::new(ExitStatus::UsageError, error.to_string()))?;
        self.send_request(Method::PUT, path, Some(body)).await
    }

    /// Sends a DELETE request for `path`.
    ///
    /// # Errors
    /// Returns an error if there is no response, or if the response is an error.
    pub async fn delete_json(&self, path: &RequestPath) -> Result<Value, CommandError> {
        self.send_request(Method::DELETE, path, None).await
    }

    async fn send_request<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &RequestPath,
        body: Option<Vec<u8>>,
    ) -> Result<T, CommandError> {
        let mut request = Request::builder()
            .method(method)
            .uri(path.to_string())
            .header(header::HOST, "localhost")
            .header(header::ACCEPT, "application/json");
        if let Some(key) = &self.key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", key.expose()));
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request
            .body(Bytes::from(body.unwrap_or_default()))
            .map_err(|_| invalid_request_error())?;
        let answer = self
            .transport
            .send_request(request)
            .await
            .map_err(|error| no_response_error(&error))?;
        parse_response(&answer)
    }
}

fn invalid_request_error() -> CommandError {
    CommandError::new(
        ExitStatus::UsageError,
        "the request is invalid: the key or an argument contains characters \
                               that cannot be sent",
    )
    .with_help("check `--key`, TOOLKEEP_KEY and the arguments")
}

fn no_response_error(error: &TransportError) -> CommandError {
    let message = format!("cannot connect to the server: {}", sanitize_text(&error.0));
    CommandError::new(ExitStatus::ServerUnavailable, message).with_help(
        "start a server with `toolkeep serve`, or check \
                                               `--url`",
    )
}

/// Parses the response's JSON, or returns its error.
fn parse_response<T: DeserializeOwned>(answer: &Response<Bytes>) -> Result<T, CommandError> {
    if answer.status().is_success()
        && let Ok(value) = serde_json::from_slice(answer.body())
    {
        return Ok(value);
    }
    let value = serde_json::from_slice::<Value>(answer.body()).ok();
    let error = value.as_ref().and_then(|value| value.get("error"));
    let text = |key: &str| error.and_then(|error| error.get(key)).and_then(Value::as_str);
    if let (Some(code), Some(message)) = (text("code"), text("message")) {
        let failure = CommandError::from_error_code(code, sanitize_text(message))
            .with_call_id(text("call_id"));
        return Err(match text("fix") {
            Some(fix) => failure.with_help(sanitize_text(fix)),
            None => failure,
        });
    }
    let shown: String =
        String::from_utf8_lossy(answer.body()).chars().take(MAX_EXCERPT_CHARS).collect();
    let message = format!(
        "{} does not come from Toolkeep: {}",
        describe_status(answer.status()),
        sanitize_text(&shown)
    );
    Err(CommandError::new(ExitStatus::ServerUnavailable, message).with_help("check `--url`"))
}

fn describe_status(status: StatusCode) -> String {
    format!("the response with status {}", status.as_u16())
}

/// A request path with its query, in which user input is escaped into single segments.
#[derive(Debug, Clone)]
pub struct RequestPath(url::Url);

impl RequestPath {
    /// Builds a path from a fixed prefix and user-supplied segments.
    pub fn from_segments(prefix: &str, segments: &[&str]) -> Self {
        // Only path and query are used; a URL needs the rest.
        let mut url = base_url();
        url.set_path(prefix);
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.extend(segments);
        }
        Self(url)
    }

    /// Adds a query parameter if it has a value.
    #[must_use]
    pub fn with_query(mut self, name: &str, value: Option<impl ToString>) -> Self {
        if let Some(value) = value {
            self.0.query_pairs_mut().append_pair(name, &value.to_string());
        }
        self
    }
}

#[expect(clippy::expect_used, reason = "a constant text that is a URL")]
fn base_url() -> url::Url {
    url::Url::parse("http://localhost").expect("a URL")
}

impl std::fmt::Display for RequestPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tail = self.0.as_str().strip_prefix("http://localhost").unwrap_or("/");
        f.write_str(tail)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Response;

    use super::{RequestPath, parse_response};
    use crate::command_error::ExitStatus;

    #[test]
    fn what_is_typed_stays_one_part() {
        let path = |typed: &str| RequestPath::from_segments("/v1/tools", &[typed]).to_string();
        assert_eq!(path("a.b"), "/v1/tools/a.b");
        assert_eq!(path("a/../b?c#d e"), "/v1/tools/a%2F..%2Fb%3Fc%23d%20e");
        let path = RequestPath::from_segments("/v1/records", &[])
            .with_query("tool", Some("a&b=c"))
            .with_query("limit", Some(5));
        assert_eq!(
            path.with_query("none", None::<&str>).to_string(),
            "/v1/records?tool=a%26b%3Dc&limit=5"
        );
    }

    #[test]
    fn answers_that_are_none_of_ours_are_told_and_made_harmless() {
        let read = |status: u16, body: &'static str| {
            let answer = Response::builder().status(status).body(Bytes::from(body)).unwrap();
            parse_response::<serde_json::Value>(&answer)
        };
        assert_eq!(read(200, "{\"a\":1}").unwrap()["a"], 1);
        let failure = read(502, "<html>\u{1b}[31m").unwrap_err();
        assert_eq!(failure.exit_status(), ExitStatus::ServerUnavailable);
        assert_eq!(
            failure.to_string(),
            "the response with status 502 does not come from Toolkeep: <html>\u{fffd}[31m"
        );
        assert!(read(200, "<html>").is_err());
        let refused = r#"{"error":{"code":"denied","message":"no","fix":"ask","call_id":"c"}}"#;
        assert_eq!(read(403, refused).unwrap_err().exit_status(), ExitStatus::Refused);
        let newer = r#"{"error":{"code":"newer_code","message":"no"}}"#;
        assert_eq!(read(400, newer).unwrap_err().exit_status(), ExitStatus::Failed);
    }
}
