//! What the head of a request must say, and what of its body must stand there too.

use std::sync::OnceLock;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, StatusCode};
use mcp::{Era, Revision, RpcError, code, header, meta};
use serde_json::json;
use tool::Json;

use super::refused::Refused;

/// Takes all that is ever wanted.
const PLAIN: &str = "application/json, text/event-stream";
static SESSION: HeaderName = HeaderName::from_static(header::SESSION);
static VERSION: HeaderName = HeaderName::from_static(header::VERSION);
static METHOD: HeaderName = HeaderName::from_static(header::METHOD);
static NAME: HeaderName = HeaderName::from_static(header::NAME);
/// Characters of a client's words in an error.
const SHOWN: usize = 128;

/// The headers of a request.
#[derive(Debug, Clone, Copy)]
pub struct Heads<'a> {
    pub(crate) all: &'a HeaderMap,
    said: Option<&'a Said>,
}

/// What every request asks of its headers, kept with a head that comes again and again.
#[derive(Debug, Default)]
pub struct Said {
    session: OnceLock<Option<Box<str>>>,
    revision: OnceLock<Option<Revision>>,
}

/// What stands in `_meta` of the params.
#[derive(Debug, Default)]
pub(crate) struct Meta {
    pub(crate) version: Option<Json>,
    pub(crate) capabilities: Option<Json>,
    pub(crate) level: Option<Json>,
    pub(crate) token: Option<Json>,
    /// What the caller takes from itself, where it does: as `read_only`, `no_web`, `task_type`.
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
        // MCP: a token is a text or a number.
        let token = token.filter(|token| matches!(token.kind(), "string" | "number"));
        Self { version, capabilities, level, token, narrows: [read_only, no_web, task] }
    }
}

/// A client's word, as an error shows it.
pub(crate) fn shown(word: &str) -> String {
    word.chars().take(SHOWN).collect::<String>().escape_debug().to_string()
}

impl<'a> Heads<'a> {
    pub(crate) fn new(all: &'a HeaderMap) -> Self {
        Self { all, said: None }
    }

    /// The same; `said` is of no other headers.
    pub fn known(all: &'a HeaderMap, said: &'a Said) -> Self {
        Self { all, said: Some(said) }
    }

    /// The session that is named; nothing where there is none.
    pub(crate) fn session(self) -> Result<Option<&'a str>, Refused> {
        let Some(said) = self.said else { return self.one(&SESSION) };
        if let Some(found) = said.session.get() {
            return Ok(found.as_deref());
        }
        let found = self.one(&SESSION)?;
        Ok(said.session.get_or_init(|| found.map(Into::into)).as_deref())
    }

    /// A header that stands there once, in words that can be read.
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

    /// Both media types of an answer must be taken, and the body must be JSON.
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

    /// Every one of `wanted` must be taken.
    pub(crate) fn accepts(self, wanted: &[&str]) -> Result<(), Refused> {
        // What every client sends. Anything else is read.
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

    /// The revision that the header names; nothing where there is none.
    pub(crate) fn revision(self) -> Result<Option<Revision>, Refused> {
        if let Some(found) = self.said.and_then(|said| said.revision.get()) {
            return Ok(*found);
        }
        let read = |text: &str| Revision::read(text).ok_or_else(|| unsupported(text));
        let found = self.one(&VERSION)?.map(read).transpose()?;
        Ok(self.said.map_or(found, |said| *said.revision.get_or_init(|| found)))
    }

    /// The revision a request is written in: what its `_meta` says, or else its header. `None` is a
    /// client of the handshake era that says nothing, as it may.
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

    /// What 2026-07-28 wants of every request.
    pub(crate) fn standard(
        self,
        method: &str,
        meta: &Meta,
        named: Option<&Json>,
    ) -> Result<(), Refused> {
        self.same(&METHOD, method)?;
        // What has no name is refused for that, where its method is looked at.
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
        // Only names may be wrapped.
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

/// JSON is UTF-8: a type that names another character set is of another text.
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

/// A media type without its parameters.
fn essence(text: &str) -> &str {
    text.split(';').next().unwrap_or_default().trim()
}
