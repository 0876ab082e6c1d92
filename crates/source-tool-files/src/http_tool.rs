//! Tools of the kind `http` in version 2: one request, built from the arguments, to the origin that
//! the file names.
//!
//! Arguments never choose the destination: they are encoded into the path, the query or the body.
//! Redirects are not followed.

mod response_mapping;
mod url_template;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use egress::{EgressClient, EgressError, Origin, RequestLimits, UrlTrust};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use serde_json::{Map, Value};
use tool::{
    AccessScope, BoxFuture, CallContext, ErrorCode, ExecuteError, ExecutionState, Executor, Json,
    Outcome, RecordedCall, Secret, SideEffect, SideEffects, ToolTraits,
};

use super::field_reader::{EntryError, EntryFields, EntryResult, escape_word, type_error};
use super::implementation::FileToolImplementation;
use super::trait_fields::parse_timeout;
use response_mapping::ResponseMapping;
use source_layers::RedactedExecutor;
use source_layers::redaction::{RedactedValue, Redaction};
use url_template::UrlTemplate;

/// Maximum size of a response: 10 MiB.
const MAX_RESPONSE_BYTES: usize = 10 << 20;
/// Timeout of the connection. The tool's own time limit bounds the response.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum headers of one tool.
const MAX_HEADERS: usize = 32;
/// Fields of an `http` implementation.
const HTTP_FIELDS: [&str; 9] = [
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
const RESERVED_HEADERS: [&str; 6] =
    ["connection", "content-length", "content-type", "host", "te", "transfer-encoding"];

/// Resolver from the name of an environment variable to its value.
pub type SecretResolver = Arc<dyn Fn(&str) -> Option<Secret> + Send + Sync>;

/// Dependencies of `http` tools.
#[derive(Clone)]
pub struct HttpToolDependencies {
    /// Client for outgoing requests.
    pub egress: EgressClient,
    /// Resolver of secret header values that must not stand in a file.
    pub resolve_secret: SecretResolver,
}

impl fmt::Debug for HttpToolDependencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Web").field("egress", &self.egress).finish_non_exhaustive()
    }
}

/// Parses an implementation; `input_schema` is the validated schema of the tool.
pub(super) fn parse_http_tool(
    dependencies: &HttpToolDependencies,
    fields: &EntryFields,
    input_schema: &Json,
) -> EntryResult<FileToolImplementation> {
    check_fields(fields)?;
    let url = match fields.string_field("url")? {
        Some(url) => Some(url),
        None => fields.string_field("endpoint")?,
    };
    let url =
        url.ok_or_else(|| EntryError::new("an http tool needs a `url`").with_help(URL_HELP))?;
    let place = UrlTemplate::parse_template(&url, input_schema)?;
    let origin = Origin::parse(place.sample_url()).map_err(|error| url_error("url", &error))?;
    let class = UrlTrust::Configured { origin };
    let uri = dependencies
        .egress
        .validate_url(&class, place.sample_url())
        .map_err(|error| url_error("url", &error))?;
    if uri
        .path_and_query()
        .is_none_or(|written| written != url_template::path_and_query(place.sample_url()))
    {
        // The query is removed, because it may contain a secret.
        let displayed_url = uri.to_string();
        let plain = displayed_url
            .split_once('?')
            .map_or(displayed_url.clone(), |(plain, _)| format!("{plain}?…"));
        return Err(
            EntryError::new("`url` is not normalized").with_help(format!("write it as `{plain}`"))
        );
    }
    let method = parse_method(fields)?;
    let redaction = request_redaction(dependencies, fields, place.sample_url());
    let executor = HttpRequestExecutor {
        egress: dependencies.egress.clone(),
        class,
        headers: parse_headers(dependencies, fields)?,
        external_names: parse_params_mapping(fields, input_schema)?,
        response_mapping: ResponseMapping::from_fields(fields)?,
        url_template: place,
        method: method.clone(),
    };
    let limit = fields.get("timeout_ms").map(|own| parse_timeout("timeout_ms", own)).transpose()?;
    let traits = ToolTraits { timeout: limit, ..default_traits(&method) };
    let executor = RedactedExecutor::new(Arc::new(executor), redaction);
    Ok(FileToolImplementation::new(Arc::new(executor), traits))
}

const URL_HELP: &str = "add `url: https://host/path/{parameter}`";

fn check_fields(fields: &EntryFields) -> EntryResult<()> {
    let Some(unknown_field) = fields.keys().find(|key| !HTTP_FIELDS.contains(key)) else {
        return Ok(());
    };
    let odd = escape_word(unknown_field);
    let fix = match odd.as_str() {
        "retry" => "write `retry: once` at the source, in the configuration".to_owned(),
        _ => format!("use {}", HTTP_FIELDS.join(", ")),
    };
    Err(EntryError::new(format!("`implementation.{odd}` is not supported for an http tool"))
        .with_help(fix))
}

fn url_error(key: &str, error: &EgressError) -> EntryError {
    EntryError::new(format!("`{key}`: {error}")).with_help(URL_HELP)
}

fn parse_method(fields: &EntryFields) -> EntryResult<Method> {
    let word =
        fields.string_field("method")?.unwrap_or_else(|| "GET".to_owned()).to_ascii_uppercase();
    match word.as_str() {
        "GET" => Ok(Method::GET),
        "HEAD" => Ok(Method::HEAD),
        "POST" => Ok(Method::POST),
        "PUT" => Ok(Method::PUT),
        "PATCH" => Ok(Method::PATCH),
        "DELETE" => Ok(Method::DELETE),
        _ => {
            let word: String = word.chars().take(32).collect();
            Err(EntryError::new(format!("`method` is `{}`", word.escape_debug()))
                .with_help("use GET, HEAD, POST, PUT, PATCH or DELETE"))
        }
    }
}

/// Returns the default traits of a method (RFC 9110, sections 9.2.1 and 9.2.2).
fn default_traits(method: &Method) -> ToolTraits {
    let effect = if method.is_safe() { SideEffect::ReadOnly } else { SideEffect::SystemState };
    ToolTraits {
        scopes: vec![AccessScope::Network],
        effects: SideEffects::Declared(vec![effect, SideEffect::NetworkAccess]),
        is_idempotent: method.is_idempotent(),
        is_destructive: *method == Method::DELETE,
        ..ToolTraits::default()
    }
}

/// Parses the headers; a value is a string or `{env: NAME}`.
fn parse_headers(web: &HttpToolDependencies, fields: &EntryFields) -> EntryResult<HeaderMap> {
    let mut map = HeaderMap::new();
    let Some(headers) = fields.get("headers") else { return Ok(map) };
    if headers.kind() != "object" {
        return Err(type_error("headers", headers, "a mapping"));
    }
    for (name, value) in headers.members() {
        let place = format!("headers.{}", escape_word(&name));
        let header_error = |why: &str| EntryError::new(format!("`{place}` {why}"));
        if RESERVED_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(header_error("is set automatically").with_help("remove it"));
        }
        let header = HeaderName::try_from(name.as_str()).map_err(|_| {
            header_error(
                "is not a valid header \
                name",
            )
        })?;
        let secret =
            match (value.string_value(), value.get("env").as_ref().and_then(Json::string_value)) {
                (Some(text), _) => Secret::new(text.into_owned()),
                (None, Some(variable)) => (web.resolve_secret)(&variable).ok_or_else(|| {
                    let message = format!(
                        "names the variable `{}`, which is not set",
                        variable.escape_debug()
                    );
                    header_error(&message).with_help("set it in the server's environment")
                })?,
                (None, None) => {
                    return Err(type_error(&place, &value, "a string or `{env: NAME}`"));
                }
            };
        let mut value = HeaderValue::try_from(secret.expose())
            .map_err(|_| header_error("has an invalid value, such as one with a line break"))?;
        value.set_sensitive(true);
        map.append(header, value);
        if map.len() > MAX_HEADERS {
            return Err(EntryError::new(format!("more than {MAX_HEADERS} `headers`")));
        }
    }
    Ok(map)
}

/// Returns a redaction for the request values of the file and the environment, applied to
/// responses.
fn request_redaction(web: &HttpToolDependencies, fields: &EntryFields, url: &str) -> Redaction {
    let mut values = RedactedValue::from_url_query(url);
    for (name, value) in fields.get("headers").iter().flat_map(|headers| headers.members()) {
        let variable = value.get("env");
        let variable = variable.as_ref().and_then(Json::string_value);
        let of_variable = variable
            .and_then(|name| (web.resolve_secret)(&name))
            .map(RedactedValue::from_credential);
        let text = value.string_value().map(|text| Secret::new(text.into_owned()));
        values.extend(
            of_variable.or_else(|| text.map(|text| RedactedValue::from_named(&name, text))),
        );
    }
    Redaction::new(&values)
}

/// Parses the external names of parameters that differ.
fn parse_params_mapping(
    fields: &EntryFields,
    input: &Json,
) -> EntryResult<BTreeMap<String, String>> {
    let Some(mapping) = fields.get("params_mapping") else { return Ok(BTreeMap::new()) };
    let read = mapping.decode::<BTreeMap<String, String>>();
    let names =
        read.map_err(|_| type_error("params_mapping", mapping, "a mapping of parameter names"))?;
    let declared = url_template::parameter_names(input);
    for name in names.keys() {
        if !declared.contains(name) {
            let message = format!(
                "`params_mapping` names `{}`, which is not a \
                    parameter",
                name.escape_debug()
            );
            return Err(
                EntryError::new(message).with_help("use the names in `parameters.properties`")
            );
        }
    }
    Ok(names)
}

#[derive(Debug)]
struct HttpRequestExecutor {
    egress: EgressClient,
    class: UrlTrust,
    url_template: UrlTemplate,
    method: Method,
    headers: HeaderMap,
    external_names: BTreeMap<String, String>,
    response_mapping: ResponseMapping,
}

impl HttpRequestExecutor {
    async fn run_call(
        &self,
        call: RecordedCall<'_>,
        ctx: &CallContext<'_>,
    ) -> std::result::Result<ExecutionState, ExecuteError> {
        let request = self
            .build_request(call.call().arguments.as_value())
            .map_err(|why| ExecuteError::not_sent(ErrorCode::InvalidArguments, why))?;
        let (headers, idle) = (Duration::MAX, Duration::MAX);
        let limits = RequestLimits {
            connect_timeout: CONNECT_TIMEOUT,
            header_timeout: headers,
            body_idle_timeout: idle,
            max_body_bytes: MAX_RESPONSE_BYTES,
        };
        let asked = async {
            let response = self.egress.send_request(&self.class, request, limits).await?;
            let (status, kind) = (response.status(), response_mapping::media_type(&response));
            let body = response.into_body().collect_bytes().await?;
            Ok((status, kind, body))
        };
        let answered = tokio::select! {
            answered = asked => answered,
            () = ctx.cancel.cancelled() => {
                return Err(ExecuteError::maybe_sent(ErrorCode::Cancelled, "the call was \
                    cancelled"));
            }
        };
        let (status, kind, body) =
            answered.map_err(|error: EgressError| to_execute_error(&error))?;
        let value = self.response_mapping.to_value(status, &kind, &body);
        let value =
            value.map_err(|why| ExecuteError::maybe_sent(ErrorCode::UpstreamFailed, why))?;
        Ok(ExecutionState::Completed(Outcome::from_value(value)))
    }

    fn build_request(&self, args: &Value) -> std::result::Result<Request<Bytes>, String> {
        let empty = Map::new();
        let args = args.as_object().unwrap_or(&empty);
        let remaining = args
            .iter()
            .filter(|(name, value)| !self.url_template.has_parameter(name) && !value.is_null());
        let renamed = remaining
            .map(|(name, value)| (self.external_names.get(name).unwrap_or(name).as_str(), value));
        let in_body = matches!(self.method, Method::POST | Method::PUT | Method::PATCH);
        let (query, body) = if in_body {
            let body: Map<_, _> =
                renamed.map(|(name, value)| (name.to_owned(), value.clone())).collect();
            (Vec::new(), Json::encode(&Value::Object(body)).bytes().clone())
        } else {
            (url_template::query_pairs(renamed), Bytes::new())
        };
        let url = self.url_template.expand_url(args, &query)?;
        // Checks that the expanded URL keeps its origin, and that normalisation did not change the
        // path.
        let uri = self.egress.validate_url(&self.class, &url).map_err(|error| error.to_string())?;
        if uri.path_and_query().is_none_or(|written| written != url_template::path_and_query(&url))
        {
            return Err("an argument cannot be inserted into the URL".to_owned());
        }
        let mut request = Request::builder().method(self.method.clone()).uri(uri);
        if let Some(headers) = request.headers_mut() {
            headers.insert(ACCEPT, HeaderValue::from_static("application/json, */*;q=0.5"));
            if in_body {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            }
            headers.extend(self.headers.clone());
        }
        request.body(body).map_err(|_| "cannot build the request".to_owned())
    }
}

fn to_execute_error(error: &EgressError) -> ExecuteError {
    let message = format!("the request failed: {error}");
    ExecuteError { code: error.error_code(), message, dispatch: error.dispatch(), rpc_error: None }
}

impl Executor for HttpRequestExecutor {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, std::result::Result<ExecutionState, ExecuteError>> {
        Box::pin(self.run_call(call, ctx))
    }
}

#[cfg(test)]
mod tests;
