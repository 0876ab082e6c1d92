//! `http_get` and `http_post`: send an HTTP request to a public URL and return the response in the
//! shape of the research registry.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use egress::{EgressBody, EgressClient, RedirectPolicy, RequestLimits, UrlTrust};
use encoding_rs::{Encoding, UTF_8};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, header};
use serde_json::{Map, Value, json};
use tool::clock::duration_millis;
use tool::display_text::truncate_and_escape_debug;
use tool::{
    BoxFuture, CallArguments, CallContext, Clock, ExecuteError, ExecutionState, Executor, Json,
    Outcome, OutcomeBody as Answer, RecordedCall,
};

use tool_manifest::{BuiltinTool, ManifestRegistry, NumericLimit};

/// Largest returned body, in characters (the research registry's number).
const MAX_BODY_CHARS: usize = 100_000;
/// Bytes that are read for it: four per character.
const MAX_BODY_BYTES: usize = 4 * MAX_BODY_CHARS;
/// Connection headers that callers may not set.
const RESERVED_HEADERS: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Builds the tools `http_get` and `http_post`.
pub(crate) fn build_tools(
    registry: &ManifestRegistry,
    egress: &EgressClient,
    clock: &Arc<dyn Clock>,
) -> [Option<BuiltinTool>; 2] {
    [("http_get", Method::GET), ("http_post", Method::POST)].map(|(name, method)| {
        let declared = registry.find_tool(name)?;
        let timeout_limit = declared.numeric_limit("timeout");
        let (egress, clock) = (egress.clone(), Arc::clone(clock));
        Some(declared.with_executor(HttpToolExecutor { egress, clock, method, timeout_limit }))
    })
}

/// Executes requests with one HTTP method.
#[derive(Debug)]
struct HttpToolExecutor {
    egress: EgressClient,
    clock: Arc<dyn Clock>,
    method: Method,
    /// Timeout of the whole response, in seconds.
    timeout_limit: NumericLimit,
}

impl Executor for HttpToolExecutor {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        _ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        Box::pin(async move {
            let began = self.clock.monotonic_now();
            let answered = self.send_request(call.call().arguments.as_value()).await;
            let is_error = answered.is_err();
            let mut fields = answered.unwrap_or_else(|error| {
                let none = json!({ "status_code": 0, "headers": {}, "body": "", "error": error });
                none.as_object().cloned().unwrap_or_default()
            });
            let took = self.clock.monotonic_now().saturating_duration_since(began);
            fields.insert("elapsed_ms".to_owned(), json!(duration_millis(took)));
            let body = Answer::Value(Json::encode(&fields));
            Ok(ExecutionState::Completed(Outcome { body, is_error }))
        })
    }

    fn validate_arguments(&self, args: &CallArguments) -> Result<(), String> {
        self.build_request(args.as_value()).map(drop)
    }
}

impl HttpToolExecutor {
    async fn send_request(&self, args: &Value) -> Result<Map<String, Value>, String> {
        let request = self.build_request(args)?;
        let limit = Duration::from_secs(self.timeout_limit.value_in(args, "timeout").max(1));
        let limits = RequestLimits {
            header_timeout: limit,
            body_idle_timeout: limit,
            max_body_bytes: usize::MAX,
            ..RequestLimits::default()
        };
        let asked = async {
            let sent = self.egress.send_following_redirects(
                &UrlTrust::CallArgument,
                request,
                limits,
                RedirectPolicy::default(),
            );
            let received = sent.await.map_err(|error| error.to_string())?;
            let length = received.content_length();
            let (head, body) = received.into_parts();
            let (text, truncated) = read_body_text(body, &head.headers).await?;
            Ok(json!({
                "status_code": head.status.as_u16(),
                "headers": headers_json(&head.headers, length),
                "body": text,
                "truncated": truncated,
            }))
        };
        let answered = tokio::time::timeout(limit, asked).await;
        let answered: Result<Value, String> =
            answered.map_err(|_| format!("no complete response within {}s", limit.as_secs()))?;
        answered.map(|value| value.as_object().cloned().unwrap_or_default())
    }

    fn build_request(&self, args: &Value) -> Result<Request<Bytes>, String> {
        let url = args.get("url").and_then(Value::as_str).unwrap_or_default();
        let uri = self
            .egress
            .validate_url(&UrlTrust::CallArgument, url)
            .map_err(|error| error.to_string())?;
        let mut request = Request::new(Bytes::new());
        if let Some(data) = args.get("data").filter(|data| !data.is_null()) {
            *request.body_mut() = Json::encode(data).bytes().clone();
            let json = HeaderValue::from_static("application/json");
            request.headers_mut().insert(header::CONTENT_TYPE, json);
        }
        let agent = HeaderValue::from_static(concat!("Toolkeep/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert(header::USER_AGENT, agent);
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        for (name, value) in args.get("headers").and_then(Value::as_object).into_iter().flatten() {
            let (name, value) = parse_header(name, value.as_str().unwrap_or_default())?;
            request.headers_mut().insert(name, value);
        }
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = uri;
        Ok(request)
    }
}

fn parse_header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    let shown = || truncate_and_escape_debug(name, 64);
    let read = HeaderName::from_bytes(name.as_bytes());
    let read = read.map_err(|_| format!("headers: `{}` is not a valid header name", shown()))?;
    if RESERVED_HEADERS.contains(&read.as_str()) {
        return Err(format!("headers: `{}` is set automatically; omit it", shown()));
    }
    let value = HeaderValue::from_str(value);
    Ok((read, value.map_err(|_| format!("headers: the value of `{}` is invalid", shown()))?))
}

/// Returns headers as JSON; repeated values are joined by commas (RFC 9110, 5.3).
fn headers_json(headers: &HeaderMap, length: Option<u64>) -> Map<String, Value> {
    let mut all = Map::new();
    for name in headers.keys() {
        let values = headers.get_all(name).iter();
        let values: Vec<_> = values.map(|it| String::from_utf8_lossy(it.as_bytes())).collect();
        all.insert(name.as_str().to_owned(), json!(values.join(", ")));
    }
    if let Some(length) = length {
        all.insert(header::CONTENT_LENGTH.to_string(), json!(length.to_string()));
    }
    all
}

/// Returns the encoding named in `content-type`, by WHATWG labels (`iso-8859-1` means
/// windows-1252). A byte order mark takes precedence when decoding.
fn body_encoding(headers: &HeaderMap) -> &'static Encoding {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let mut parameters = kind.unwrap_or_default().split(';').skip(1);
    let label = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let value = value.trim().trim_matches('"');
        name.trim().eq_ignore_ascii_case("charset").then_some(value)
    });
    label.and_then(|label| Encoding::for_label(label.as_bytes())).unwrap_or(UTF_8)
}

/// Reads the body as text; returns whether it was truncated.
async fn read_body_text(
    mut body: EgressBody,
    headers: &HeaderMap,
) -> Result<(String, bool), String> {
    let (mut bytes, mut more) = (Vec::new(), false);
    while let Some(part) = body.next_chunk().await.map_err(|error| error.to_string())? {
        bytes.extend_from_slice(&part);
        if bytes.len() > MAX_BODY_BYTES {
            more = true;
            break;
        }
    }
    let (decoded, ..) = body_encoding(headers).decode(&bytes);
    let mut text = decoded.into_owned();
    if let Some((end, _)) = text.char_indices().nth(MAX_BODY_CHARS) {
        text.truncate(end);
        more = true;
    }
    Ok((text, more))
}
