//! Validation of the HTTP headers and `_meta` of a request, and of their agreement with the body.

use std::sync::OnceLock;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, StatusCode};
use mcp::{Era, Revision, RpcError, code, header, meta};
use serde_json::json;
use tool::Json;

use super::refused::Refused;

/// The `Accept` value that most clients send; it covers both media types.
const PLAIN: &str = "application/json, text/event-stream";
static SESSION: HeaderName = HeaderName::from_static(header::SESSION);
static VERSION: HeaderName = HeaderName::from_static(header::VERSION);
static METHOD: HeaderName = HeaderName::from_static(header::METHOD);
static NAME: HeaderName = HeaderName::from_static(header::NAME);
/// Maximum characters of client input that an error quotes.
const SHOWN: usize = 128;

/// The headers of a request.
#[derive(Debug, Clone, Copy)]
pub struct Heads<'a> {
    pub(crate) all: &'a HeaderMap,
    said: Option<&'a Said>,
}

/// Header values that every request needs, cached with a repeated request head.
#[derive(Debug, Default)]
pub struct Said {
    session: OnceLock<Option<Box<str>>>,
    revision: OnceLock<Option<Revision>>,
}

/// The known members of `_meta` in the params.
#[derive(Debug, Default)]
pub(crate) struct Meta {
    pub(crate) version: Option<Json>,
    pub(crate) capabilities: Option<Json>,
    pub(crate) level: Option<Json>,
    pub(crate) token: Option<Json>,
    /// The restrictions that the caller sets for itself: `read_only`, `no_web`, `task_type`.
    pub(crate) narrows: [Option<Json>; 3],
}

impl Meta {
    pub(crate) fn of(meta: &Json) -> Self {
        let keys = [
            meta::PROTOCOL_VERSION,
            meta::CLIENT_CAPABILITIES,
            meta::LOG_LEVEL,
            meta::PROGRESS_TOKEN,
            meta::READ_ONLY,
            meta::NO_WEB,
            meta::TASK_TYPE,
        ];
        let [version, capabilities, level, token, read_only, no_web, task] = meta.pick(keys);
        // MCP: a token is a string or a number.
        let token = token.filter(|token| matches!(token.kind(), "string" | "number"));
        Self { version, capabilities, level, token, narrows: [read_only, no_web, task] }
    }
}

/// Truncates and escapes client input for an error message.
pub(crate) fn shown(word: &str) -> String {
    word.chars().take(SHOWN).collect::<String>().escape_debug().to_string()
}

impl<'a> Heads<'a> {
    pub(crate) fn new(all: &'a HeaderMap) -> Self {
        Self { all, said: None }
    }

    /// Creates the headers with their cached values; `said` must belong to these headers.
    pub fn known(all: &'a HeaderMap, said: &'a Said) -> Self {
        Self { all, said: Some(said) }
    }

    /// The session id of the headers; `None` if there is none.
    pub(crate) fn session(self) -> Result<Option<&'a str>, Refused> {
        let Some(said) = self.said else { return self.one(&SESSION) };
        if let Some(found) = said.session.get() {
            return Ok(found.as_deref());
        }
        let found = self.one(&SESSION)?;
        Ok(said.session.get_or_init(|| found.map(Into::into)).as_deref())
    }

    /// The value of a header that may occur only once and must be printable.
    pub(crate) fn one(self, name: &HeaderName) -> Result<Option<&'a str>, Refused> {
        let Some(value) = self.all.get(name) else { return Ok(None) };
        let second = self.all.get_all(name).iter().nth(1);
        let wrong = |what: &str| {
            Err(Refused::bad(code::HEADER_MISMATCH, format!("the header `{name}` {what}")))
        };
        if second.is_some() {
            return wrong("stands there twice");
        }
        let Ok(text) = value.to_str() else {
            return wrong("holds characters that no header may have");
        };
        Ok(Some(text.trim()))
    }

    /// Checks that the body is JSON and that both response media types are accepted.
    pub(crate) fn media(self) -> Result<(), Refused> {
        if !self.all.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(is_json) {
            let told = "the body must be JSON: send `Content-Type: application/json`";
            return Err(Refused::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                code::INVALID_REQUEST,
                told,
            ));
        }
        self.accepts(&["application/json", "text/event-stream"])
    }

    /// Checks that the client accepts every media type of `wanted`.
    pub(crate) fn accepts(self, wanted: &[&str]) -> Result<(), Refused> {
        // The usual value; any other is parsed.
        let mut all = self.all.get_all(ACCEPT).iter();
        if all.next().is_some_and(|value| value == PLAIN) && all.next().is_none() {
            return Ok(());
        }
        let taken = |wanted: &&str| {
            let any = |part: &str| {
                let part = essence(part);
                let (kind, _) = wanted.split_once('/').unwrap_or_default();
                part.eq_ignore_ascii_case(wanted)
                    || part == "*/*"
                    || part.strip_suffix("/*").is_some_and(|of| of.eq_ignore_ascii_case(kind))
            };
            let values = self.all.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
            values.flat_map(|value| value.split(',')).any(any)
        };
        if wanted.iter().all(taken) {
            return Ok(());
        }
        let told = format!("send `Accept: {}`", wanted.join(", "));
        Err(Refused::new(StatusCode::NOT_ACCEPTABLE, code::INVALID_REQUEST, told))
    }

    /// The protocol version of the header; `None` if there is none.
    pub(crate) fn revision(self) -> Result<Option<Revision>, Refused> {
        if let Some(found) = self.said.and_then(|said| said.revision.get()) {
            return Ok(*found);
        }
        let read = |text: &str| Revision::read(text).ok_or_else(|| unsupported(text));
        let found = self.one(&VERSION)?.map(read).transpose()?;
        Ok(self.said.map_or(found, |said| *said.revision.get_or_init(|| found)))
    }

    /// The protocol version of a request, from `_meta` or else from its header. `None` for a client
    /// of the handshake era that declares none.
    pub(crate) fn dialect(self, meta: &Meta) -> Result<Option<Revision>, Refused> {
        let text = meta.version.as_ref().map(Json::read::<String>);
        let Some(text) = text else {
            let revision = self.revision()?;
            if revision.is_some_and(|revision| revision.era() == Era::Stateless) {
                return Err(absent(meta::PROTOCOL_VERSION));
            }
            return Ok(revision);
        };
        let text = text.map_err(|_| absent(meta::PROTOCOL_VERSION))?;
        self.same(&VERSION, &text)?;
        Revision::read(&text).map(Some).ok_or_else(|| unsupported(&text))
    }

    /// Checks the headers and capabilities that protocol version 2026-07-28 requires of every
    /// request.
    pub(crate) fn standard(
        self,
        method: &str,
        meta: &Meta,
        named: Option<&Json>,
    ) -> Result<(), Refused> {
        self.same(&METHOD, method)?;
        // A request without a name is rejected later, by the handler of its method.
        if let Some(named) = named.and_then(Json::text) {
            self.same(&NAME, &named)?;
        }
        let capabilities = meta.capabilities.as_ref().map(Json::kind);
        if capabilities == Some("object") { Ok(()) } else { Err(absent(meta::CLIENT_CAPABILITIES)) }
    }

    fn same(self, name: &HeaderName, wanted: &str) -> Result<(), Refused> {
        let wrong = |what: &str| {
            Err(Refused::bad(code::HEADER_MISMATCH, format!("the header `{name}` {what}")))
        };
        let Some(found) = self.one(name)? else { return wrong("is missing") };
        // Only names may be Base64-encoded.
        let found = if *name == NAME { header::decode(found) } else { Some(found.into()) };
        match found {
            None => wrong("holds no valid Base64"),
            Some(found) if found != wanted => wrong("does not agree with the body"),
            Some(_) => Ok(()),
        }
    }
}

fn absent(key: &str) -> Refused {
    Refused::bad(code::INVALID_PARAMS, format!("`params._meta` must have `{key}`"))
}

fn unsupported(asked: &str) -> Refused {
    let supported = Revision::ALL.map(Revision::as_str);
    let told = format!(
        "revision `{}` is not spoken here; use one of {}",
        shown(asked),
        supported.join(", ")
    );
    let data = Json::of(&json!({"supported": supported, "requested": shown(asked)}));
    let error = RpcError { data: Some(data), ..RpcError::new(code::UNSUPPORTED_VERSION, told) };
    Refused { status: StatusCode::BAD_REQUEST, error }
}

/// Whether a media type is JSON in UTF-8, the only character set of JSON.
fn is_json(text: &str) -> bool {
    if text == "application/json" {
        return true;
    }
    let utf8 = |parameter: &str| match parameter.split_once('=') {
        Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
            value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        _ => true,
    };
    essence(text).eq_ignore_ascii_case("application/json") && text.split(';').skip(1).all(utf8)
}

/// Returns a media type without its parameters.
fn essence(text: &str) -> &str {
    text.split(';').next().unwrap_or_default().trim()
}
