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

use super::door::{Door, DoorError, Parts, SourceNeed};
use super::failure::{Exit, Failure};
use super::ui::clean;

/// Maximum characters of a non-JSON response that an error shows.
const SHOWN: usize = 200;

/// A client of one server.
#[expect(missing_debug_implementations, reason = "a door has none")]
#[derive(Clone)]
pub struct Client {
    door: Arc<dyn Door>,
    key: Option<Secret>,
}

impl Client {
    /// Creates a client that sends requests over `door` with `key`.
    pub fn new(door: Arc<dyn Door>, key: Option<Secret>) -> Self {
        Self { door, key }
    }

    /// Returns a client of the same server with another key.
    #[must_use]
    pub fn with_key(&self, key: Secret) -> Self {
        Self { door: Arc::clone(&self.door), key: Some(key) }
    }

    /// Opens a streamed response for a request whose headers the caller has built.
    ///
    /// # Errors
    /// Returns an error if there is no response, or if the response is an error.
    pub async fn open(&self, mut request: Request<Bytes>) -> Result<Response<Parts>, Failure> {
        let headers = request.headers_mut();
        headers.insert(header::HOST, HeaderValue::from_static("localhost"));
        if let Some(key) = &self.key {
            let bearer = HeaderValue::try_from(format!("Bearer {}", key.open()));
            let mut bearer = bearer.map_err(|_| unfit())?;
            bearer.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, bearer);
        }
        self.door.open(request).await.map_err(|error| no_answer(&error))
    }

    /// Waits for sources of a server that has just started, see [`Door::sources`].
    pub async fn sources(&self, need: SourceNeed<'_>, limit: Option<Duration>) {
        self.door.sources(need, limit).await;
    }

    /// Sends a GET request for `path`.
    ///
    /// # Errors
    /// Returns an error if there is no response, or if the response is an error.
    pub async fn get(&self, path: &Path) -> Result<Value, Failure> {
        self.send(Method::GET, path, None).await
    }

    /// Sends `body` with a POST request. The response may be read as raw text, so that no digit is
    /// lost.
    ///
    /// # Errors
    /// Returns an error if there is no response, or if the response is an error.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &Path,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        let body = serde_json::to_vec(body)
            .map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
        self.send(Method::POST, path, Some(body)).await
    }

    /// Sends `body` with a PUT request.
    ///
    /// # Errors
    /// Returns an error if there is no response, or if the response is an error.
    pub async fn put<T: DeserializeOwned>(
        &self,
        path: &Path,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        let body = serde_json::to_vec(body)
            .map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
        self.send(Method::PUT, path, Some(body)).await
    }

    /// Sends a DELETE request for `path`.
    ///
    /// # Errors
    /// Returns an error if there is no response, or if the response is an error.
    pub async fn delete(&self, path: &Path) -> Result<Value, Failure> {
        self.send(Method::DELETE, path, None).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &Path,
        body: Option<Vec<u8>>,
    ) -> Result<T, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(path.to_string())
            .header(header::HOST, "localhost")
            .header(header::ACCEPT, "application/json");
        if let Some(key) = &self.key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", key.open()));
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request.body(Bytes::from(body.unwrap_or_default())).map_err(|_| unfit())?;
        let answer = self.door.send(request).await.map_err(|error| no_answer(&error))?;
        read(&answer)
    }
}

fn unfit() -> Failure {
    Failure::new(Exit::Usage, "the key or the path cannot be written as a request")
        .fix("look at `--key`, TOOLKEEP_KEY and what you typed")
}

fn no_answer(error: &DoorError) -> Failure {
    let message = format!("no answer from the server: {}", clean(&error.0));
    Failure::new(Exit::NoServer, message).fix("start one with `toolkeep serve`, or look at `--url`")
}

/// Parses the response's JSON, or returns its error.
fn read<T: DeserializeOwned>(answer: &Response<Bytes>) -> Result<T, Failure> {
    if answer.status().is_success()
        && let Ok(value) = serde_json::from_slice(answer.body())
    {
        return Ok(value);
    }
    let value = serde_json::from_slice::<Value>(answer.body()).ok();
    let error = value.as_ref().and_then(|value| value.get("error"));
    let text = |key: &str| error.and_then(|error| error.get(key)).and_then(Value::as_str);
    if let (Some(code), Some(message)) = (text("code"), text("message")) {
        let failure = Failure::of_code(code, clean(message)).call(text("call_id"));
        return Err(match text("fix") {
            Some(fix) => failure.fix(clean(fix)),
            None => failure,
        });
    }
    let shown: String = String::from_utf8_lossy(answer.body()).chars().take(SHOWN).collect();
    let message = format!("{} is no answer of toolkeep: {}", kind(answer.status()), clean(&shown));
    Err(Failure::new(Exit::NoServer, message).fix("look at `--url`"))
}

fn kind(status: StatusCode) -> String {
    format!("what came with status {}", status.as_u16())
}

/// A request path with its query, in which user input is escaped into single segments.
#[derive(Debug, Clone)]
pub struct Path(url::Url);

impl Path {
    /// Builds a path from a fixed prefix and user-supplied segments.
    pub fn new(fixed: &str, typed: &[&str]) -> Self {
        // Only path and query are used; a URL needs the rest.
        let mut url = base();
        url.set_path(fixed);
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.extend(typed);
        }
        Self(url)
    }

    /// Adds a query parameter if it has a value.
    #[must_use]
    pub fn with(mut self, name: &str, value: Option<impl ToString>) -> Self {
        if let Some(value) = value {
            self.0.query_pairs_mut().append_pair(name, &value.to_string());
        }
        self
    }
}

#[expect(clippy::expect_used, reason = "a constant text that is a URL")]
fn base() -> url::Url {
    url::Url::parse("http://localhost").expect("a URL")
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tail = self.0.as_str().strip_prefix("http://localhost").unwrap_or("/");
        f.write_str(tail)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Response;

    use super::{Path, read};
    use crate::failure::Exit;

    #[test]
    fn what_is_typed_stays_one_part() {
        let path = |typed: &str| Path::new("/v1/tools", &[typed]).to_string();
        assert_eq!(path("a.b"), "/v1/tools/a.b");
        assert_eq!(path("a/../b?c#d e"), "/v1/tools/a%2F..%2Fb%3Fc%23d%20e");
        let path = Path::new("/v1/records", &[]).with("tool", Some("a&b=c")).with("limit", Some(5));
        assert_eq!(
            path.with("none", None::<&str>).to_string(),
            "/v1/records?tool=a%26b%3Dc&limit=5"
        );
    }

    #[test]
    fn answers_that_are_none_of_ours_are_told_and_made_harmless() {
        let read = |status: u16, body: &'static str| {
            let answer = Response::builder().status(status).body(Bytes::from(body)).unwrap();
            read::<serde_json::Value>(&answer)
        };
        assert_eq!(read(200, "{\"a\":1}").unwrap()["a"], 1);
        let failure = read(502, "<html>\u{1b}[31m").unwrap_err();
        assert_eq!(failure.exit(), Exit::NoServer);
        assert_eq!(
            failure.to_string(),
            "what came with status 502 is no answer of toolkeep: <html>\u{fffd}[31m"
        );
        assert!(read(200, "<html>").is_err());
        let refused = r#"{"error":{"code":"denied","message":"no","fix":"ask","call_id":"c"}}"#;
        assert_eq!(read(403, refused).unwrap_err().exit(), Exit::Refused);
        let newer = r#"{"error":{"code":"newer_code","message":"no"}}"#;
        assert_eq!(read(400, newer).unwrap_err().exit(), Exit::Failed);
    }
}
