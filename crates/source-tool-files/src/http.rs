//! Tools of the kind `http` in version 2: one request, built from the arguments, to the origin that
//! the file names.
//!
//! Arguments never choose the destination: they are encoded into the path, the query or the body.
//! Redirects are not followed.

mod answer;
mod place;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use egress::{Class, Egress, EgressError, HttpLimits, Origin};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use serde_json::{Map, Value};
use tool::{
    Boxed, Code, Context, Effect, Effects, ExecuteError, Executor, Granted, Json, Outcome, Scope,
    Secret, Step, Traits,
};

use super::fields::{Fault, Fields, Result, kind};
use super::implementation::Implementation;
use super::traits::timeout;
use answer::Answers;
use place::Place;
use source_layers::RedactedExecutor;
use source_layers::redaction::{GivenValue, Redaction};

/// Maximum size of a response: 10 MiB.
const MAX_BYTES: usize = 10 << 20;
/// Timeout of the connection. The tool's own time limit bounds the response.
const CONNECT: Duration = Duration::from_secs(10);
/// Maximum headers of one tool.
const MAX_HEADERS: usize = 32;
/// Fields of an `http` implementation.
const KEYS: [&str; 9] = [
    "type",
    "url",
    "endpoint",
    "method",
    "headers",
    "params_mapping",
    "response_path",
    "timeout_ms",
    "handler",
];
/// Headers that belong to the connection or follow from the body.
const RESERVED: [&str; 6] =
    ["connection", "content-length", "content-type", "host", "te", "transfer-encoding"];

/// Resolver from the name of an environment variable to its value.
pub type Secrets = Arc<dyn Fn(&str) -> Option<Secret> + Send + Sync>;

/// Dependencies of `http` tools.
#[derive(Clone)]
pub struct Web {
    /// Client for outgoing requests.
    pub egress: Egress,
    /// Resolver of secret header values that must not stand in a file.
    pub secret: Secrets,
}

impl fmt::Debug for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Web").field("egress", &self.egress).finish_non_exhaustive()
    }
}

/// Parses an implementation; `input` is the validated schema of the tool.
pub(super) fn read(web: &Web, fields: &Fields, input: &Json) -> Result<Implementation> {
    known(fields)?;
    let url = match fields.text("url")? {
        Some(url) => Some(url),
        None => fields.text("endpoint")?,
    };
    let url = url.ok_or_else(|| Fault::new("an http tool needs a `url`").fix(URL))?;
    let place = Place::read(&url, input)?;
    let origin = Origin::parse(place.base()).map_err(|error| at("url", &error))?;
    let class = Class::Operator { origin };
    let uri = web.egress.check(&class, place.base()).map_err(|error| at("url", &error))?;
    if uri.path_and_query().is_none_or(|written| written != place::tail(place.base())) {
        // The query is removed, because it may contain a secret.
        let plain = uri.to_string();
        let plain = plain.split_once('?').map_or(plain.clone(), |(plain, _)| format!("{plain}?…"));
        return Err(
            Fault::new("`url` is not in its plain form").fix(format!("write it as `{plain}`"))
        );
    }
    let method = method(fields)?;
    let redaction = given(web, fields, place.base());
    let executor = HttpTool {
        egress: web.egress.clone(),
        class,
        headers: headers(web, fields)?,
        names: mapping(fields, input)?,
        answers: Answers::read(fields)?,
        place,
        method: method.clone(),
    };
    let limit = fields.get("timeout_ms").map(|own| timeout("timeout_ms", own)).transpose()?;
    let traits = Traits { timeout: limit, ..traits(&method) };
    let executor = RedactedExecutor::new(Arc::new(executor), redaction);
    Ok(Implementation::new(Arc::new(executor), traits))
}

const URL: &str = "add `url: https://host/path/{parameter}`";

fn known(fields: &Fields) -> Result<()> {
    let Some(odd) = fields.keys().find(|key| !KEYS.contains(key)) else { return Ok(()) };
    let odd = odd.chars().take(64).collect::<String>().escape_debug().to_string();
    let fix = match odd.as_str() {
        "retry" => "write `retry: once` at the source, in the configuration".to_owned(),
        _ => format!("use {}", KEYS.join(", ")),
    };
    Err(Fault::new(format!("`implementation.{odd}` means nothing for an http tool")).fix(fix))
}

fn at(key: &str, error: &EgressError) -> Fault {
    Fault::new(format!("`{key}`: {error}")).fix(URL)
}

fn method(fields: &Fields) -> Result<Method> {
    let word = fields.text("method")?.unwrap_or_else(|| "GET".to_owned()).to_ascii_uppercase();
    match word.as_str() {
        "GET" => Ok(Method::GET),
        "HEAD" => Ok(Method::HEAD),
        "POST" => Ok(Method::POST),
        "PUT" => Ok(Method::PUT),
        "PATCH" => Ok(Method::PATCH),
        "DELETE" => Ok(Method::DELETE),
        _ => {
            let word: String = word.chars().take(32).collect();
            Err(Fault::new(format!("`method` is `{}`", word.escape_debug()))
                .fix("use GET, HEAD, POST, PUT, PATCH or DELETE"))
        }
    }
}

/// Returns the default traits of a method (RFC 9110, sections 9.2.1 and 9.2.2).
fn traits(method: &Method) -> Traits {
    let effect = if method.is_safe() { Effect::ReadOnly } else { Effect::SystemState };
    Traits {
        scopes: vec![Scope::Network],
        effects: Effects::Declared(vec![effect, Effect::NetworkAccess]),
        idempotent: method.is_idempotent(),
        destructive: *method == Method::DELETE,
        ..Traits::default()
    }
}

/// Parses the headers; a value is a string or `{env: NAME}`.
fn headers(web: &Web, fields: &Fields) -> Result<HeaderMap> {
    let mut map = HeaderMap::new();
    let Some(headers) = fields.get("headers") else { return Ok(map) };
    if headers.kind() != "object" {
        return Err(kind("headers", headers, "a mapping"));
    }
    for (name, value) in headers.members() {
        let shown: String = name.chars().take(64).collect();
        let place = format!("headers.{}", shown.escape_debug());
        let bad = |why: &str| Fault::new(format!("`{place}` {why}"));
        if RESERVED.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(bad("is set by the request itself").fix("take it out"));
        }
        let header = HeaderName::try_from(name.as_str()).map_err(|_| bad("is no header"))?;
        let secret = match (value.text(), value.get("env").as_ref().and_then(Json::text)) {
            (Some(text), _) => Secret::new(text.into_owned()),
            (None, Some(variable)) => (web.secret)(&variable).ok_or_else(|| {
                let told =
                    format!("names the variable `{}`, which is not set", variable.escape_debug());
                bad(&told).fix("set it where the server is started")
            })?,
            (None, None) => return Err(kind(&place, &value, "a text or `{env: NAME}`")),
        };
        let mut value = HeaderValue::try_from(secret.open())
            .map_err(|_| bad("has a value that cannot be sent, such as a line end"))?;
        value.set_sensitive(true);
        map.append(header, value);
        if map.len() > MAX_HEADERS {
            return Err(Fault::new(format!("more than {MAX_HEADERS} `headers`")));
        }
    }
    Ok(map)
}

/// Returns a redaction for the request values of the file and the environment, applied to
/// responses.
fn given(web: &Web, fields: &Fields, url: &str) -> Redaction {
    let mut values = GivenValue::of_url(url);
    for (name, value) in fields.get("headers").iter().flat_map(|headers| headers.members()) {
        let variable = value.get("env");
        let variable = variable.as_ref().and_then(Json::text);
        let of_variable = variable.and_then(|name| (web.secret)(&name)).map(GivenValue::credential);
        let text = value.text().map(|text| Secret::new(text.into_owned()));
        values.extend(of_variable.or_else(|| text.map(|text| GivenValue::named(&name, text))));
    }
    Redaction::new(&values)
}

/// Parses the external names of parameters that differ.
fn mapping(fields: &Fields, input: &Json) -> Result<BTreeMap<String, String>> {
    let Some(mapping) = fields.get("params_mapping") else { return Ok(BTreeMap::new()) };
    let read = mapping.read::<BTreeMap<String, String>>();
    let names =
        read.map_err(|_| kind("params_mapping", mapping, "a mapping from names to names"))?;
    let declared = place::declared(input);
    for name in names.keys() {
        if !declared.contains(name) {
            let told =
                format!("`params_mapping` names `{}`, which is no parameter", name.escape_debug());
            return Err(Fault::new(told).fix("use the names in `parameters.properties`"));
        }
    }
    Ok(names)
}

#[derive(Debug)]
struct HttpTool {
    egress: Egress,
    class: Class,
    place: Place,
    method: Method,
    headers: HeaderMap,
    names: BTreeMap<String, String>,
    answers: Answers,
}

impl HttpTool {
    async fn run(
        &self,
        call: Granted<'_>,
        ctx: &Context<'_>,
    ) -> std::result::Result<Step, ExecuteError> {
        let request = self
            .request(call.call().args.value())
            .map_err(|why| ExecuteError::before(Code::InvalidArguments, why))?;
        let (headers, idle) = (Duration::MAX, Duration::MAX);
        let limits = HttpLimits { connect: CONNECT, headers, idle, body: MAX_BYTES };
        let asked = async {
            let response = self.egress.send(&self.class, request, limits).await?;
            let (status, kind) = (response.status(), answer::media(&response));
            let body = response.into_body().bytes().await?;
            Ok((status, kind, body))
        };
        let answered = tokio::select! {
            answered = asked => answered,
            () = ctx.cancel.cancelled() => {
                return Err(ExecuteError::during(Code::Cancelled, "the call was given up"));
            }
        };
        let (status, kind, body) = answered.map_err(|error: EgressError| lost(&error))?;
        let value = self.answers.value(status, &kind, &body);
        let value = value.map_err(|why| ExecuteError::during(Code::UpstreamFailed, why))?;
        Ok(Step::Done(Outcome::value(value)))
    }

    fn request(&self, args: &Value) -> std::result::Result<Request<Bytes>, String> {
        let empty = Map::new();
        let args = args.as_object().unwrap_or(&empty);
        let rest = args.iter().filter(|(name, value)| !self.place.takes(name) && !value.is_null());
        let named =
            rest.map(|(name, value)| (self.names.get(name).unwrap_or(name).as_str(), value));
        let in_body = matches!(self.method, Method::POST | Method::PUT | Method::PATCH);
        let (query, body) = if in_body {
            let body: Map<_, _> =
                named.map(|(name, value)| (name.to_owned(), value.clone())).collect();
            (Vec::new(), Json::of(&Value::Object(body)).bytes().clone())
        } else {
            (place::pairs(named), Bytes::new())
        };
        let url = self.place.fill(args, &query)?;
        // Checks that the expanded URL keeps its origin, and that normalisation did not change the
        // path.
        let uri = self.egress.check(&self.class, &url).map_err(|error| error.to_string())?;
        if uri.path_and_query().is_none_or(|written| written != place::tail(&url)) {
            return Err("an argument does not fit into the address".to_owned());
        }
        let mut request = Request::builder().method(self.method.clone()).uri(uri);
        if let Some(headers) = request.headers_mut() {
            headers.insert(ACCEPT, HeaderValue::from_static("application/json, */*;q=0.5"));
            if in_body {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            }
            headers.extend(self.headers.clone());
        }
        request.body(body).map_err(|_| "no request can be made of this".to_owned())
    }
}

fn lost(error: &EgressError) -> ExecuteError {
    let message = format!("the request failed: {error}");
    ExecuteError { code: error.code(), message, sent: error.sent(), rpc: None }
}

impl Executor for HttpTool {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, std::result::Result<Step, ExecuteError>> {
        Box::pin(self.run(call, ctx))
    }
}

#[cfg(test)]
mod tests;
