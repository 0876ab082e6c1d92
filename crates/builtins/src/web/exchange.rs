//! The executor of `http_get` and `http_post`: one request, one response in the shape of spec 3.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use egress::{Body, Class, Egress, Follow, HttpLimits};
use encoding_rs::{Encoding, UTF_8};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, header};
use serde_json::{Map, Value, json};
use tool::{
    Args, Body as Answer, Boxed, Clock, Context, ExecuteError, Executor, Granted, Json, Outcome,
    Step,
};

use tool_manifest::Bound;

/// Largest returned body, in characters (spec 3's number).
const MOST_TEXT: usize = 100_000;
/// Bytes that are read for it: four per character.
const MOST_BYTES: usize = 4 * MOST_TEXT;
/// Connection headers that callers may not set.
const RESERVED: [&str; 11] = [
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

/// Executes requests with one HTTP method.
#[derive(Debug)]
pub(super) struct Asks {
    pub(super) egress: Egress,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) method: Method,
    /// Timeout of the whole response, in seconds.
    pub(super) seconds: Bound,
}

impl Executor for Asks {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        _ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        Box::pin(async move {
            let began = self.clock.mono();
            let answered = self.ask(call.call().args.value()).await;
            let is_error = answered.is_err();
            let mut fields = answered.unwrap_or_else(|error| {
                let none = json!({ "status_code": 0, "headers": {}, "body": "", "error": error });
                none.as_object().cloned().unwrap_or_default()
            });
            let took = self.clock.mono().since(began).as_millis();
            fields.insert("elapsed_ms".to_owned(), json!(u64::try_from(took).unwrap_or(u64::MAX)));
            let body = Answer::Value(Json::of(&fields));
            Ok(Step::Done(Outcome { body, is_error }))
        })
    }

    fn check_args(&self, args: &Args) -> Result<(), String> {
        self.request(args.value()).map(drop)
    }
}

impl Asks {
    async fn ask(&self, args: &Value) -> Result<Map<String, Value>, String> {
        let request = self.request(args)?;
        let limit = Duration::from_secs(self.seconds.of(args, "timeout").max(1));
        let limits =
            HttpLimits { headers: limit, idle: limit, body: usize::MAX, ..HttpLimits::default() };
        let asked = async {
            let sent =
                self.egress.send_following(&Class::Caller, request, limits, Follow::default());
            let received = sent.await.map_err(|error| error.to_string())?;
            let length = received.content_length();
            let (head, body) = received.into_parts();
            let (text, truncated) = text(body, &head.headers).await?;
            Ok(json!({
                "status_code": head.status.as_u16(),
                "headers": shown(&head.headers, length),
                "body": text,
                "truncated": truncated,
            }))
        };
        let answered = tokio::time::timeout(limit, asked).await;
        let answered: Result<Value, String> =
            answered.map_err(|_| format!("no whole answer within {}s", limit.as_secs()))?;
        answered.map(|value| value.as_object().cloned().unwrap_or_default())
    }

    fn request(&self, args: &Value) -> Result<Request<Bytes>, String> {
        let url = args.get("url").and_then(Value::as_str).unwrap_or_default();
        let uri = self.egress.check(&Class::Caller, url).map_err(|error| error.to_string())?;
        let mut request = Request::new(Bytes::new());
        if let Some(data) = args.get("data").filter(|data| !data.is_null()) {
            *request.body_mut() = Json::of(data).bytes().clone();
            let json = HeaderValue::from_static("application/json");
            request.headers_mut().insert(header::CONTENT_TYPE, json);
        }
        let agent = HeaderValue::from_static(concat!("Toolkeep/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert(header::USER_AGENT, agent);
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        for (name, value) in args.get("headers").and_then(Value::as_object).into_iter().flatten() {
            let (name, value) = checked(name, value.as_str().unwrap_or_default())?;
            request.headers_mut().insert(name, value);
        }
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = uri;
        Ok(request)
    }
}

fn checked(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    let shown = || name.chars().take(64).flat_map(char::escape_debug).collect::<String>();
    let read = HeaderName::from_bytes(name.as_bytes());
    let read = read.map_err(|_| format!("headers: `{}` is no name of a header", shown()))?;
    if RESERVED.contains(&read.as_str()) {
        return Err(format!("headers: `{}` belongs to the connection; leave it out", shown()));
    }
    let value = HeaderValue::from_str(value);
    Ok((read, value.map_err(|_| format!("headers: the value of `{}` cannot be sent", shown()))?))
}

/// Returns headers as JSON; repeated values are joined by commas (RFC 9110, 5.3).
fn shown(headers: &HeaderMap, length: Option<u64>) -> Map<String, Value> {
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
fn charset(headers: &HeaderMap) -> &'static Encoding {
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
async fn text(mut body: Body, headers: &HeaderMap) -> Result<(String, bool), String> {
    let (mut bytes, mut more) = (Vec::new(), false);
    while let Some(part) = body.chunk().await.map_err(|error| error.to_string())? {
        bytes.extend_from_slice(&part);
        if bytes.len() > MOST_BYTES {
            more = true;
            break;
        }
    }
    let (decoded, ..) = charset(headers).decode(&bytes);
    let mut text = decoded.into_owned();
    if let Some((end, _)) = text.char_indices().nth(MOST_TEXT) {
        text.truncate(end);
        more = true;
    }
    Ok((text, more))
}
