//! A request that a plugin has Toolkeep make: to hosts that the operator granted, and no others.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use egress::{Body, Egress, HttpLimits};
use http::{HeaderName, HeaderValue, Method, Request, header};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::task::TaskTracker;

use crate::grant::Allowed;
use crate::manifest::shown;

/// Requests of one process at once.
const MOST: usize = 8;
/// Bytes of a body that is brought back.
const BODY: usize = 4 << 20;
/// The longest that one may take.
const LONGEST: Duration = Duration::from_mins(2);
/// Headers of the connection.
const RESERVED: [&str; 8] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The request as the plugin writes it.
#[derive(Debug, Deserialize)]
pub(super) struct Asked {
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

/// The way out of one process.
#[derive(Debug, Clone)]
pub(crate) struct Net {
    egress: Option<Egress>,
    allowed: Arc<Allowed>,
    to: mpsc::Sender<Bytes>,
    room: Arc<Semaphore>,
    tasks: TaskTracker,
}

impl std::fmt::Debug for super::Listening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listening").finish_non_exhaustive()
    }
}

impl Net {
    pub(crate) fn new(
        egress: Option<Egress>,
        allowed: Arc<Allowed>,
        to: mpsc::Sender<Bytes>,
        tasks: TaskTracker,
    ) -> Self {
        Self { egress, allowed, to, room: Arc::new(Semaphore::new(MOST)), tasks }
    }

    /// Makes the request; its answer goes to the process.
    pub(super) fn ask(&self, number: u64, asked: Asked) {
        let Ok(place) = Arc::clone(&self.room).try_acquire_owned() else {
            let told = format!("more than {MOST} requests at once");
            let _full = self.to.try_send(line(number, Err(told)));
            return;
        };
        let net = self.clone();
        drop(self.tasks.spawn(async move {
            let answer = net.made(asked).await;
            // A process that went away closes this, and one that reads nothing is ended by its calls.
            let _gone = net.to.send(line(number, answer)).await;
            drop(place);
        }));
    }

    async fn made(&self, asked: Asked) -> Result<Value, String> {
        let class = self.allowed.class(&asked.url).ok_or_else(|| {
            format!("no host that was granted to this plugin is asked by `{}`", shown(&asked.url))
        })?;
        let egress = self.egress.as_ref().ok_or("this server has no way out")?;
        let limit = asked.timeout_ms.map_or(LONGEST, Duration::from_millis).min(LONGEST);
        let uri = egress.check(&class, &asked.url).map_err(|error| error.to_string())?;
        let mut request = request(&asked)?;
        *request.uri_mut() = uri;
        let limits =
            HttpLimits { headers: limit, idle: limit, body: usize::MAX, ..HttpLimits::default() };
        let whole = async {
            let sent = egress.send(&class, request, limits).await;
            let (head, body) = sent.map_err(|error| error.to_string())?.into_parts();
            let (bytes, truncated) = bytes(body).await?;
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
        let told = |_| format!("no whole answer within {} ms", limit.as_millis());
        tokio::time::timeout(limit, whole).await.map_err(told)?
    }
}

fn request(asked: &Asked) -> Result<Request<Bytes>, String> {
    let body = asked.body.as_deref().map(|body| STANDARD.decode(body)).transpose();
    let body = body.map_err(|_| "the body is no base64")?.unwrap_or_default();
    let mut request = Request::new(Bytes::from(body));
    let method = Method::from_bytes(asked.method.as_bytes());
    *request.method_mut() = method.map_err(|_| format!("no method `{}`", shown(&asked.method)))?;
    let agent = HeaderValue::from_static(concat!("Toolkeep/", env!("CARGO_PKG_VERSION")));
    request.headers_mut().insert(header::USER_AGENT, agent);
    for (name, value) in &asked.headers {
        let read = HeaderName::from_bytes(name.as_bytes());
        let value = HeaderValue::from_str(value.as_str().unwrap_or_default());
        match (read, value) {
            (Ok(read), Ok(value)) if !RESERVED.contains(&read.as_str()) => {
                request.headers_mut().insert(read, value);
            }
            _ => return Err(format!("the header `{}` cannot be sent", shown(name))),
        }
    }
    Ok(request)
}

async fn bytes(mut body: Body) -> Result<(Vec<u8>, bool), String> {
    let mut bytes = Vec::new();
    while let Some(part) = body.chunk().await.map_err(|error| error.to_string())? {
        bytes.extend_from_slice(&part);
        if bytes.len() > BODY {
            bytes.truncate(BODY);
            return Ok((bytes, true));
        }
    }
    Ok((bytes, false))
}

fn line(number: u64, answer: Result<Value, String>) -> Bytes {
    let mut all = match answer {
        Ok(value) => value,
        Err(error) => json!({ "error": error }),
    };
    if let Some(fields) = all.as_object_mut() {
        fields.insert("answer".to_owned(), Value::from(number));
    }
    Bytes::from(format!("{all}\n"))
}
