//! A small HTTP server that records its requests.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// A request that the server recorded.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    /// The request method.
    pub method: Method,
    /// The path and query.
    pub uri: Uri,
    /// The request headers.
    pub headers: HeaderMap,
    /// The request body.
    pub body: Bytes,
}

impl RecordedRequest {
    /// The form or query fields.
    pub fn form_fields(&self) -> HashMap<String, String> {
        let text = match self.method {
            Method::GET => self.uri.query().unwrap_or_default().to_owned(),
            _ => String::from_utf8_lossy(&self.body).into_owned(),
        };
        let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
        pairs.map(|(name, value)| (percent_decode(name), percent_decode(value))).collect()
    }

    /// Returns a header as text.
    pub fn header_text(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Percent decoding, with `+` as a space.
pub(super) fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while let Some(&byte) = bytes.get(at) {
        let hex = bytes.get(at + 1..at + 3).and_then(|two| std::str::from_utf8(two).ok());
        match (byte, hex.and_then(|two| u8::from_str_radix(two, 16).ok())) {
            (b'%', Some(value)) => {
                out.push(value);
                at += 2;
            }
            (b'+', _) => out.push(b' '),
            _ => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Produces the responses of a server.
pub(super) trait RequestResponder: Send + Sync + 'static {
    fn answer_request(
        &self,
        seen: RecordedRequest,
    ) -> impl Future<Output = Response<Full<Bytes>>> + Send;
}

/// A running server; it stops when dropped.
#[derive(Debug)]
pub(super) struct RecordingServer {
    log: Arc<Mutex<Vec<RecordedRequest>>>,
    _stop: DropGuard,
}

impl RecordingServer {
    /// Serves requests on the listener.
    pub(super) fn serve_requests(
        listener: std::net::TcpListener,
        responder: Arc<impl RequestResponder>,
    ) -> Self {
        listener.set_nonblocking(true).expect("a socket");
        let stop = CancellationToken::new();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (logged, stopped) = (Arc::clone(&log), stop.clone());
        let listening = async move {
            let listener = TcpListener::from_std(listener).expect("a socket");
            let tasks = TaskTracker::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (responder, log) = (Arc::clone(&responder), Arc::clone(&logged));
                let stopped = stopped.clone();
                let service = service_fn(move |request: Request<Incoming>| {
                    let (responder, log) = (Arc::clone(&responder), Arc::clone(&log));
                    async move {
                        let seen = read_request(request).await;
                        log.lock().unwrap_or_else(PoisonError::into_inner).push(seen.clone());
                        Ok::<_, Infallible>(responder.answer_request(seen).await)
                    }
                });
                tasks.spawn(async move {
                    let connection =
                        http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                    tokio::select! {
                        _ = connection => {}
                        () = stopped.cancelled() => {}
                    }
                });
            }
        };
        let ends = stop.clone();
        TaskTracker::new().spawn(async move {
            tokio::select! {
                () = listening => {}
                () = ends.cancelled() => {}
            }
        });
        Self { log, _stop: stop.drop_guard() }
    }

    /// The requests at paths with this prefix.
    pub(super) fn requests_at(&self, path: &str) -> Vec<RecordedRequest> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.iter().filter(|seen| seen.uri.path().starts_with(path)).cloned().collect()
    }
}

async fn read_request(request: Request<Incoming>) -> RecordedRequest {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    RecordedRequest { method: head.method, uri: head.uri, headers: head.headers, body }
}

/// Binds a free loopback port.
pub(super) fn bind_loopback() -> std::net::TcpListener {
    std::net::TcpListener::bind("127.0.0.1:0").expect("a free port")
}

/// Builds a response with one body.
pub(super) fn build_response(
    status: u16,
    kind: &str,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status.try_into().expect("a status");
    if let Ok(kind) = kind.parse() {
        response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    }
    response
}

/// Builds a JSON response.
pub(super) fn json_response(status: u16, body: &serde_json::Value) -> Response<Full<Bytes>> {
    build_response(status, "application/json", body.to_string())
}
