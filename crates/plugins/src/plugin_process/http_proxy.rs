//! HTTP requests that Toolkeep sends for a plugin, to granted hosts only.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use egress::{EgressBody, EgressClient, RequestLimits};
use http::{HeaderName, HeaderValue, Method, Request, header};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::task::TaskTracker;

use crate::access::EffectiveAccess;
use crate::manifest::escape_for_message;

/// Requests of one process at once.
const MAX_REQUESTS: usize = 8;
/// Bytes of a body that is brought back.
const MAX_BODY_BYTES: usize = 4 << 20;
/// Maximum duration of one request.
const MAX_REQUEST_TIME: Duration = Duration::from_mins(2);
/// Headers of the connection.
const RESERVED_HEADERS: [&str; 8] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Request as the plugin writes it.
#[derive(Debug, Deserialize)]
pub(super) struct ProxyRequest {
    method: String,
    url: String,
    #[serde(default)]
    headers: Map<String, Value>,
    /// In base64.
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    timeout_ms: Option<u64>,
}

/// HTTP proxy of one process.
#[derive(Debug, Clone)]
pub(crate) struct HttpProxy {
    egress: Option<EgressClient>,
    access: Arc<EffectiveAccess>,
    line_sender: mpsc::Sender<Bytes>,
    permits: Arc<Semaphore>,
    tasks: TaskTracker,
}

impl HttpProxy {
    pub(crate) fn new(
        egress: Option<EgressClient>,
        access: Arc<EffectiveAccess>,
        responses: mpsc::Sender<Bytes>,
        tasks: TaskTracker,
    ) -> Self {
        Self {
            egress,
            access,
            line_sender: responses,
            permits: Arc::new(Semaphore::new(MAX_REQUESTS)),
            tasks,
        }
    }

    /// Sends the request, and its response to the process.
    pub(super) fn handle_request(&self, number: u64, request: ProxyRequest) {
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            let message = format!("more than {MAX_REQUESTS} concurrent requests");
            let _full = self.line_sender.try_send(encode_response(number, Err(message)));
            return;
        };
        let net = self.clone();
        drop(self.tasks.spawn(async move {
            let answer = net.send_request(request).await;
            // The channel is closed if the process ended. A process that does not read is killed by
            // its calls.
            let _gone = net.line_sender.send(encode_response(number, answer)).await;
            drop(permit);
        }));
    }

    async fn send_request(&self, asked: ProxyRequest) -> Result<Value, String> {
        let class = self.access.egress_class_for(&asked.url).ok_or_else(|| {
            format!(
                "the host of `{}` is not granted to this plugin",
                escape_for_message(&asked.url)
            )
        })?;
        let egress = self.egress.as_ref().ok_or("this server has no network access")?;
        let limit =
            asked.timeout_ms.map_or(MAX_REQUEST_TIME, Duration::from_millis).min(MAX_REQUEST_TIME);
        let uri = egress.validate_url(&class, &asked.url).map_err(|error| error.to_string())?;
        let mut request = build_request(&asked)?;
        *request.uri_mut() = uri;
        let limits = RequestLimits {
            header_timeout: limit,
            body_idle_timeout: limit,
            max_body_bytes: usize::MAX,
            ..RequestLimits::default()
        };
        let whole = async {
            let sent = egress.send_request(&class, request, limits).await;
            let (head, body) = sent.map_err(|error| error.to_string())?.into_parts();
            let (bytes, truncated) = read_body(body).await?;
            let mut headers = Map::new();
            for name in head.headers.keys() {
                let values = head.headers.get_all(name).iter();
                let values: Vec<_> =
                    values.map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned()).collect();
                headers.insert(name.as_str().to_owned(), Value::from(values.join(", ")));
            }
            let (status, body) = (head.status.as_u16(), STANDARD.encode(bytes));
            Ok(json!({"status": status, "headers": headers, "body": body, "truncated": truncated}))
        };
        let message = |_| format!("no complete response within {} ms", limit.as_millis());
        tokio::time::timeout(limit, whole).await.map_err(message)?
    }
}

fn build_request(asked: &ProxyRequest) -> Result<Request<Bytes>, String> {
    let body = asked.body.as_deref().map(|body| STANDARD.decode(body)).transpose();
    let body = body.map_err(|_| "the body is not valid base64")?.unwrap_or_default();
    let mut request = Request::new(Bytes::from(body));
    let method = Method::from_bytes(asked.method.as_bytes());
    *request.method_mut() = method
        .map_err(|_| format!("unsupported method `{}`", escape_for_message(&asked.method)))?;
    let agent = HeaderValue::from_static(concat!("Toolkeep/", env!("CARGO_PKG_VERSION")));
    request.headers_mut().insert(header::USER_AGENT, agent);
    for (name, value) in &asked.headers {
        let read = HeaderName::from_bytes(name.as_bytes());
        let value = HeaderValue::from_str(value.as_str().unwrap_or_default());
        match (read, value) {
            (Ok(read), Ok(value)) if !RESERVED_HEADERS.contains(&read.as_str()) => {
                request.headers_mut().insert(read, value);
            }
            _ => return Err(format!("the header `{}` is invalid", escape_for_message(name))),
        }
    }
    Ok(request)
}

async fn read_body(mut body: EgressBody) -> Result<(Vec<u8>, bool), String> {
    let mut bytes = Vec::new();
    while let Some(part) = body.next_chunk().await.map_err(|error| error.to_string())? {
        bytes.extend_from_slice(&part);
        if bytes.len() > MAX_BODY_BYTES {
            bytes.truncate(MAX_BODY_BYTES);
            return Ok((bytes, true));
        }
    }
    Ok((bytes, false))
}

fn encode_response(number: u64, answer: Result<Value, String>) -> Bytes {
    let mut all = match answer {
        Ok(value) => value,
        Err(error) => json!({ "error": error }),
    };
    if let Some(fields) = all.as_object_mut() {
        fields.insert("answer".to_owned(), Value::from(number));
    }
    Bytes::from(format!("{all}\n"))
}
