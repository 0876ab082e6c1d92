//! Validation of the HTTP headers and `_meta` of a request, and of their agreement with the body.

use std::sync::OnceLock;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, StatusCode};
use mcp::{ProtocolEra, ProtocolVersion, RpcError, error_codes, headers, meta};
use serde_json::json;
use tool::Json;

use super::request_error::RequestError;

/// The `StoreAcceptArgs` value that most clients send; it covers both media types.
const USUAL_ACCEPT: &str = "application/json, text/event-stream";
static SESSION_HEADER: HeaderName = HeaderName::from_static(headers::SESSION_ID);
static VERSION_HEADER: HeaderName = HeaderName::from_static(headers::PROTOCOL_VERSION);
static METHOD_HEADER: HeaderName = HeaderName::from_static(headers::METHOD);
static NAME_HEADER: HeaderName = HeaderName::from_static(headers::NAME);
/// Maximum characters of client input that an error quotes.
const MAX_QUOTED_CHARS: usize = 128;

/// The headers of a request.
#[derive(Debug, Clone, Copy)]
pub struct RequestHeaders<'a> {
    pub(crate) map: &'a HeaderMap,
    cached: Option<&'a CachedHeaderValues>,
}

/// Header values that every request needs, cached with a repeated request head.
#[derive(Debug, Default)]
pub struct CachedHeaderValues {
    session_id: OnceLock<Option<Box<str>>>,
    revision: OnceLock<Option<ProtocolVersion>>,
}

/// The known members of `_meta` in the params.
#[derive(Debug, Default)]
pub(crate) struct RequestMeta {
    pub(crate) protocol_version: Option<Json>,
    pub(crate) capabilities: Option<Json>,
    pub(crate) client_info: Option<Json>,
    pub(crate) log_level: Option<Json>,
    pub(crate) progress_token: Option<Json>,
    /// The restrictions that the caller sets for itself: `read_only`, `no_web`, `task_type`.
    pub(crate) restrictions: [Option<Json>; 3],
}

impl RequestMeta {
    pub(crate) fn from_json(meta: &Json) -> Self {
        let keys = [
            meta::PROTOCOL_VERSION,
            meta::CLIENT_CAPABILITIES,
            meta::CLIENT_INFO,
            meta::LOG_LEVEL,
            meta::PROGRESS_TOKEN,
            meta::READ_ONLY,
            meta::NO_WEB,
            meta::TASK_TYPE,
        ];
        let [version, capabilities, client_info, level, token, read_only, no_web, task] =
            meta.pick(keys);
        // MCP: a token is a string or a number.
        let token = token.filter(|token| matches!(token.kind(), "string" | "number"));
        Self {
            protocol_version: version,
            capabilities,
            client_info,
            log_level: level,
            progress_token: token,
            restrictions: [read_only, no_web, task],
        }
    }
}

/// Truncates and escapes client input for an error message.
pub(crate) fn escape_input(text: &str) -> String {
    text.chars().take(MAX_QUOTED_CHARS).collect::<String>().escape_debug().to_string()
}

impl<'a> RequestHeaders<'a> {
    pub(crate) fn new(headers: &'a HeaderMap) -> Self {
        Self { map: headers, cached: None }
    }

    /// Creates the headers with their cached values; `cached` must belong to these headers.
    pub fn with_cached(headers: &'a HeaderMap, cached: &'a CachedHeaderValues) -> Self {
        Self { map: headers, cached: Some(cached) }
    }

    /// The session id of the headers; `None` if there is none.
    pub(crate) fn session_id(self) -> Result<Option<&'a str>, RequestError> {
        let Some(said) = self.cached else { return self.single_value(&SESSION_HEADER) };
        if let Some(found) = said.session_id.get() {
            return Ok(found.as_deref());
        }
        let found = self.single_value(&SESSION_HEADER)?;
        Ok(said.session_id.get_or_init(|| found.map(Into::into)).as_deref())
    }

    /// The value of a header that may occur only once and must be printable.
    pub(crate) fn single_value(self, name: &HeaderName) -> Result<Option<&'a str>, RequestError> {
        let Some(value) = self.map.get(name) else { return Ok(None) };
        let second = self.map.get_all(name).iter().nth(1);
        let wrong = |what: &str| {
            Err(RequestError::bad_request(
                error_codes::HEADER_MISMATCH,
                format!("the header `{name}` {what}"),
            ))
        };
        if second.is_some() {
            return wrong("occurs twice");
        }
        let Ok(text) = value.to_str() else {
            return wrong("contains invalid characters");
        };
        Ok(Some(text.trim()))
    }

    /// Checks that the body is JSON and that both response media types are accepted.
    pub(crate) fn check_media_types(self) -> Result<(), RequestError> {
        if !self
            .map
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(is_json_type)
        {
            let message = "the body must be JSON: send `Content-Type: application/json`";
            return Err(RequestError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                error_codes::INVALID_REQUEST,
                message,
            ));
        }
        self.check_accept(&["application/json", "text/event-stream"])
    }

    /// Checks that the client accepts every media type of `required`.
    pub(crate) fn check_accept(self, required: &[&str]) -> Result<(), RequestError> {
        // The usual value; any other is parsed.
        let mut all = self.map.get_all(ACCEPT).iter();
        if all.next().is_some_and(|value| value == USUAL_ACCEPT) && all.next().is_none() {
            return Ok(());
        }
        let taken = |required: &&str| {
            let any = |part: &str| {
                let part = media_type_essence(part);
                let (kind, _) = required.split_once('/').unwrap_or_default();
                part.eq_ignore_ascii_case(required)
                    || part == "*/*"
                    || part.strip_suffix("/*").is_some_and(|of| of.eq_ignore_ascii_case(kind))
            };
            let values = self.map.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
            values.flat_map(|value| value.split(',')).any(any)
        };
        if required.iter().all(taken) {
            return Ok(());
        }
        let message = format!("send `Accept: {}`", required.join(", "));
        Err(RequestError::new(StatusCode::NOT_ACCEPTABLE, error_codes::INVALID_REQUEST, message))
    }

    /// The protocol version of the header; `None` if there is none.
    pub(crate) fn declared_version(self) -> Result<Option<ProtocolVersion>, RequestError> {
        if let Some(found) = self.cached.and_then(|said| said.revision.get()) {
            return Ok(*found);
        }
        let read =
            |text: &str| ProtocolVersion::parse(text).ok_or_else(|| unsupported_version(text));
        let found = self.single_value(&VERSION_HEADER)?.map(read).transpose()?;
        Ok(self.cached.map_or(found, |said| *said.revision.get_or_init(|| found)))
    }

    /// The protocol version of a request, from `_meta` or else from its header. `None` for a client
    /// of the handshake era that declares none.
    pub(crate) fn request_version(
        self,
        meta: &RequestMeta,
    ) -> Result<Option<ProtocolVersion>, RequestError> {
        let text = meta.protocol_version.as_ref().map(Json::decode::<String>);
        let Some(text) = text else {
            let revision = self.declared_version()?;
            if revision.is_some_and(|revision| revision.era() == ProtocolEra::Stateless) {
                return Err(missing_meta(meta::PROTOCOL_VERSION));
            }
            return Ok(revision);
        };
        let text = text.map_err(|_| missing_meta(meta::PROTOCOL_VERSION))?;
        self.check_equals(&VERSION_HEADER, &text)?;
        ProtocolVersion::parse(&text).map(Some).ok_or_else(|| unsupported_version(&text))
    }

    /// Checks the headers and capabilities that protocol version 2026-07-28 requires of every
    /// request.
    pub(crate) fn check_required_headers(
        self,
        method: &str,
        meta: &RequestMeta,
        name_param: Option<&Json>,
    ) -> Result<(), RequestError> {
        self.check_equals(&METHOD_HEADER, method)?;
        // A request without a name is rejected later, by the handler of its method.
        if let Some(name_param) = name_param.and_then(Json::string_value) {
            self.check_equals(&NAME_HEADER, &name_param)?;
        }
        let capabilities = meta.capabilities.as_ref().map(Json::kind);
        if capabilities == Some("object") {
            Ok(())
        } else {
            Err(missing_meta(meta::CLIENT_CAPABILITIES))
        }
    }

    fn check_equals(self, name: &HeaderName, wanted: &str) -> Result<(), RequestError> {
        let wrong = |what: &str| {
            Err(RequestError::bad_request(
                error_codes::HEADER_MISMATCH,
                format!("the header `{name}` {what}"),
            ))
        };
        let Some(found) = self.single_value(name)? else { return wrong("is missing") };
        // Only names may be Base64-encoded.
        let found =
            if *name == NAME_HEADER { headers::decode_value(found) } else { Some(found.into()) };
        match found {
            None => wrong("is not valid Base64"),
            Some(found) if found != wanted => wrong("does not match the body"),
            Some(_) => Ok(()),
        }
    }
}

fn missing_meta(key: &str) -> RequestError {
    RequestError::bad_request(
        error_codes::INVALID_PARAMS,
        format!("`params._meta` must have `{key}`"),
    )
}

fn unsupported_version(request: &str) -> RequestError {
    let supported = ProtocolVersion::ALL.map(ProtocolVersion::as_str);
    let message = format!(
        "unsupported protocol version `{}`; use one of {}",
        escape_input(request),
        supported.join(", ")
    );
    let data = Json::encode(&json!({"supported": supported, "requested": escape_input(request)}));
    let error =
        RpcError { data: Some(data), ..RpcError::new(error_codes::UNSUPPORTED_VERSION, message) };
    RequestError { status: StatusCode::BAD_REQUEST, error }
}

/// Whether a media type is JSON in UTF-8, the only character set of JSON.
fn is_json_type(text: &str) -> bool {
    if text == "application/json" {
        return true;
    }
    let utf8 = |parameter: &str| match parameter.split_once('=') {
        Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
            value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        _ => true,
    };
    media_type_essence(text).eq_ignore_ascii_case("application/json")
        && text.split(';').skip(1).all(utf8)
}

/// Returns a media type without its parameters.
fn media_type_essence(text: &str) -> &str {
    text.split(';').next().unwrap_or_default().trim()
}
