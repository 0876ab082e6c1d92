//! A reverse proxy that adds a key, for programs that only accept a URL, and may add the name of a
//! source to the names of tools and prompts, for programs that use fixed names. Everything else is
//! forwarded unchanged, including `Host` and `Origin`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, HeaderMap, HeaderValue};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::http_client;

/// Maximum size of a request in bytes.
const MAX_REQUEST_BYTES: usize = 16 << 20;

/// A running proxy; it stops when dropped.
#[derive(Debug)]
pub struct KeyProxy {
    /// The proxy URL: `http://127.0.0.1:PORT/mcp`, independent of the target's path.
    pub url: String,
    _task: JoinSet<()>,
}

#[derive(Debug)]
struct ProxyTarget {
    authority: String,
    path: Uri,
    bearer: HeaderValue,
    /// The prefix of tools and prompts at the target, such as `source.`; empty for none.
    prefix: String,
}

/// Starts a proxy on a free loopback port for `target`, which requires `key`.
///
/// # Errors
/// Returns an error if no port is available or the key or the target is invalid.
pub async fn start_proxy(target: &str, key: &str) -> io::Result<KeyProxy> {
    start_prefixing_proxy(target, key, "").await
}

/// Starts a proxy as [`start_proxy`] does, whose clients name tools and prompts without `prefix`.
///
/// # Errors
/// As [`start_proxy`].
pub async fn start_prefixing_proxy(target: &str, key: &str, prefix: &str) -> io::Result<KeyProxy> {
    let (authority, path) = http_client::split_url(target);
    let behind = Arc::new(ProxyTarget {
        authority: authority.to_owned(),
        path: path.parse().map_err(io::Error::other)?,
        bearer: HeaderValue::from_str(&format!("Bearer {key}")).map_err(io::Error::other)?,
        prefix: prefix.to_owned(),
    });
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    let mut task = JoinSet::new();
    task.spawn(async move {
        let mut open = JoinSet::new();
        loop {
            while open.try_join_next().is_some() {}
            let Ok((stream, _)) = listener.accept().await else { continue };
            let behind = Arc::clone(&behind);
            open.spawn(async move {
                let answer = service_fn(|request| forward_request(Arc::clone(&behind), request));
                // A disconnected client is expected.
                drop(http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await);
            });
        }
    });
    Ok(KeyProxy { url, _task: task })
}

async fn forward_request(
    behind: Arc<ProxyTarget>,
    request: Request<Incoming>,
) -> io::Result<Response<UnsyncBoxBody<Bytes, hyper::Error>>> {
    let (mut head, body) = request.into_parts();
    let body =
        Limited::new(body, MAX_REQUEST_BYTES).collect().await.map_err(io::Error::other)?.to_bytes();
    let body = if behind.prefix.is_empty() {
        body
    } else {
        add_prefix(&behind.prefix, &mut head.headers, body)
    };
    let is_list = !behind.prefix.is_empty() && is_list_request(&body);
    if is_list {
        // Its text is changed, so it must not be compressed.
        head.headers.remove(ACCEPT_ENCODING);
    }
    head.uri = behind.path.clone();
    head.headers.insert(AUTHORIZATION, behind.bearer.clone());
    match http_client::send_request(&behind.authority, Request::from_parts(head, Full::new(body)))
        .await
    {
        Ok(answer) if is_list => strip_prefix(&behind.prefix, answer).await,
        Ok(answer) => Ok(answer.map(BodyExt::boxed_unsync)),
        Err(error) => {
            let text = Full::new(Bytes::from(error.to_string())).map_err(|never| match never {});
            let mut answer = Response::new(text.boxed_unsync());
            *answer.status_mut() = StatusCode::BAD_GATEWAY;
            Ok(answer)
        }
    }
}

fn is_list_request(body: &[u8]) -> bool {
    let message = serde_json::from_slice::<Value>(body).unwrap_or_default();
    matches!(message["method"].as_str(), Some("tools/list" | "prompts/list"))
}

/// Removes the prefix from the names of a list.
async fn strip_prefix(
    prefix: &str,
    answer: Response<Incoming>,
) -> io::Result<Response<UnsyncBoxBody<Bytes, hyper::Error>>> {
    let (mut head, body) = answer.into_parts();
    let bytes = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let text = String::from_utf8_lossy(&bytes);
    let text = text.replace(&format!(r#""name":"{prefix}"#), r#""name":""#);
    head.headers.remove(CONTENT_LENGTH);
    let body = Full::new(Bytes::from(text)).map_err(|never| match never {});
    Ok(Response::from_parts(head, body.boxed_unsync()))
}

/// Adds the prefix to the tool or prompt that a request names, in its body and its header.
fn add_prefix(prefix: &str, headers: &mut HeaderMap, body: Bytes) -> Bytes {
    let Ok(mut message) = serde_json::from_slice::<Value>(&body) else { return body };
    let pointer = match message["method"].as_str() {
        Some("tools/call" | "prompts/get") => "/params/name",
        Some("completion/complete") => "/params/ref/name",
        _ => return body,
    };
    let Some(Value::String(name)) = message.pointer_mut(pointer) else { return body };
    name.insert_str(0, prefix);
    // A header that does not equal the body stays so: some scenarios send one.
    if let Some(header) = headers.get_mut("mcp-name")
        && let Ok(text) = header.to_str()
        && let Ok(prefixed) = HeaderValue::from_str(&format!("{prefix}{}", text.trim()))
        && !text.is_empty()
        && !text.starts_with("=?")
    {
        *header = prefixed;
    }
    headers.remove(CONTENT_LENGTH);
    message.to_string().into()
}
