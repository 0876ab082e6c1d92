//! One request with its caller, endpoint, protocol era and parsed params.

use std::sync::Arc;

use gateway::View;
use http::StatusCode;
use identity::{Narrowing, Principal};
use mcp::{Era, Id, Request, Revision, code, header, meta};
use tool::executor::ClientCan;
use tool::{CallerType, Json, Wall};

use super::body::Reply;
use super::client;
use super::head::{Heads, Meta};
use super::level::Level;
use super::refused::Refused;
use super::result::Words;
use super::scope::Scope;
use super::session::Session;
use crate::McpDoors;
use server_core::context;

/// The caller of a request: principal, endpoint and time, with the server state.
#[derive(Debug, Clone, Copy)]
pub struct Who<'a> {
    /// The state that all MCP requests share.
    pub doors: &'a McpDoors,
    /// The principal, as verified from the credential.
    pub principal: &'a Principal,
    /// The endpoint that the request addresses.
    pub scope: &'a Scope,
    /// The time at which the request arrived.
    pub now: Wall,
}

impl Who<'_> {
    pub(crate) fn view(self) -> Arc<View> {
        self.doors.parts.gateway.view(self.principal, CallerType::Direct)
    }

    /// Finds the session that the header names; `None` without that header.
    pub(crate) fn session(self, heads: Heads<'_>) -> Result<Option<Arc<Session>>, Refused> {
        let Some(id) = heads.session()? else { return Ok(None) };
        let found = self.doors.mcp.sessions.find((self.principal, self.scope), id, self.now);
        found.map(Some).ok_or_else(|| {
            let told = "the session does not hold; begin a new one with `initialize`";
            Refused::new(StatusCode::NOT_FOUND, code::INVALID_REQUEST, told)
        })
    }

    /// Returns an error if the endpoint's source does not exist or is hidden from the caller.
    pub(crate) fn there(self) -> Result<(), Refused> {
        if self.scope.source().is_none() {
            return Ok(());
        }
        let missing = |told| Refused::new(StatusCode::NOT_FOUND, code::INVALID_REQUEST, told);
        self.scope.shelf(&self.view()).map(drop).map_err(missing)
    }
}

/// The members of `params` that handlers read, extracted in one pass because the arguments may be
/// large.
#[derive(Debug, Default)]
pub(crate) struct Named {
    pub(crate) name: Option<Json>,
    pub(crate) uri: Option<Json>,
    pub(crate) args: Option<Json>,
    pub(crate) cursor: Option<Json>,
    pub(crate) state: Option<Json>,
    pub(crate) answers: Option<Json>,
}

impl Named {
    /// Extracts `_meta` and the named members.
    fn of(params: &Json) -> (Option<Json>, Self) {
        let keys =
            [meta::META, "name", "uri", "arguments", "cursor", "requestState", "inputResponses"];
        let [beside, name, uri, args, cursor, state, answers] = params.pick(keys);
        let beside = beside.filter(|beside| beside.kind() == "object");
        (beside, Self { name, uri, args, cursor, state, answers })
    }

    /// The member that must equal the header [`header::NAME`].
    fn header(&self, method: &str) -> Option<&Json> {
        match header::name_member(method)? {
            "name" => self.name.as_ref(),
            "uri" => self.uri.as_ref(),
            _ => None,
        }
    }
}

/// A parsed request, as every handler receives it.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) who: Who<'a>,
    pub(crate) heads: Heads<'a>,
    pub(crate) id: &'a Id,
    pub(crate) method: &'a str,
    pub(crate) params: Option<&'a Json>,
    pub(crate) era: Era,
    /// The `_meta` object, as received.
    pub(crate) beside: Option<Json>,
    pub(crate) meta: Meta,
    pub(crate) session: Option<Arc<Session>>,
    pub(crate) named: Named,
}

impl<'a> Asked<'a> {
    /// Determines the protocol version and validates the headers against it.
    pub(crate) fn read(
        who: Who<'a>,
        heads: Heads<'a>,
        request: &'a Request,
    ) -> Result<Self, Refused> {
        let (method, params) = (request.method.as_str(), request.params.as_ref());
        let (beside, named) = params.map(Named::of).unwrap_or_default();
        let meta = beside.as_ref().map(Meta::of).unwrap_or_default();
        let era = heads.dialect(&meta)?.map_or(Era::Handshake, Revision::era);
        let session = match era {
            Era::Stateless => {
                match header::name_member(method) {
                    Some("taskId") => {
                        let task = params.and_then(|params| params.get("taskId"));
                        heads.standard(method, &meta, task.as_ref())?;
                    }
                    _ => heads.standard(method, &meta, named.header(method))?,
                }
                None
            }
            // An `initialize` request names no earlier session.
            Era::Handshake if method == "initialize" => None,
            Era::Handshake => who.session(heads)?,
        };
        Ok(Self { who, heads, id: &request.id, method, params, era, beside, meta, session, named })
    }

    /// The principal restricted by `_meta`; `None` if `_meta` restricts nothing.
    pub(crate) fn narrowed(&self) -> Result<Option<Principal>, Refused> {
        let [read_only, no_web, task_type] = &self.meta.narrows;
        let wrong =
            |key: &str, kind| Refused::params(format!("`params._meta.{key}` must be {kind}"));
        let truth = |key, found: &Option<Json>| match found.as_ref().map(Json::as_str) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(wrong(key, "`true` or `false`")),
        };
        let (read_only, no_web) =
            (truth(meta::READ_ONLY, read_only)?, truth(meta::NO_WEB, no_web)?);
        let task = |found: &Json| {
            Ok(found.text().ok_or_else(|| wrong(meta::TASK_TYPE, "a text"))?.into_owned())
        };
        let task_type = task_type.as_ref().map(task).transpose()?;
        let narrowing = Narrowing { read_only, no_web, task_type };
        if narrowing == Narrowing::default() {
            return Ok(None);
        }
        let narrowed = context::apply(self.who.doors, self.who.principal, &narrowing);
        narrowed.map(Some).map_err(|error| Refused::params(error.message().to_owned()))
    }

    pub(crate) fn pick<const N: usize>(&self, keys: [&str; N]) -> [Option<Json>; N] {
        self.params.map_or([const { None }; N], |params| params.pick(keys))
    }

    /// Input responses that a stateless client sent without a `requestState`.
    pub(crate) fn unasked(&self) -> Option<Json> {
        let answers = self.named.answers.clone().filter(|answers| answers.kind() == "object");
        answers.filter(|_| self.era == Era::Stateless && self.named.state.is_none())
    }

    /// The `uri` of the requested resource.
    pub(crate) fn uri(&self) -> Result<String, Refused> {
        text("uri", self.named.uri.as_ref())
    }

    /// The capabilities that the client declared.
    pub(crate) fn client(&self) -> ClientCan {
        match (self.era, &self.session) {
            (Era::Stateless, _) => {
                let can = self.meta.capabilities.clone().map(client::can).unwrap_or_default();
                ClientCan { alone: self.who.scope.source().is_some(), ..can }
            }
            (Era::Handshake, Some(session)) => session.client.clone(),
            (Era::Handshake, None) => ClientCan::default(),
        }
    }

    /// The minimum level of log messages to send; `None` for none. A session that set no level
    /// receives all messages of its source.
    pub(crate) fn level(&self) -> Option<Level> {
        match (self.era, &self.session) {
            (Era::Stateless, _) => self.meta.level.as_ref().and_then(Level::read),
            (Era::Handshake, Some(session)) => Some(session.live.level().unwrap_or(Level::LEAST)),
            (Era::Handshake, None) => None,
        }
    }

    pub(crate) fn words(&self) -> Words<'_> {
        let own = self.who.scope.source().is_some();
        Words { era: self.era, id: self.id, called: None, own, dated: false }
    }

    /// Encodes a result that this server produced itself.
    pub(crate) fn result(&self, result: &Json) -> Reply {
        self.words().result(result).reply()
    }

    /// The error for an unknown method.
    pub(crate) fn unknown(&self) -> Refused {
        let status = match self.era {
            Era::Stateless => StatusCode::NOT_FOUND,
            Era::Handshake => StatusCode::OK,
        };
        let told = format!("unknown method `{}`", super::head::shown(self.method));
        Refused::new(status, code::METHOD_NOT_FOUND, told)
    }
}

/// Returns the string member `key`, or an error that names it.
pub(crate) fn text(key: &str, found: Option<&Json>) -> Result<String, Refused> {
    let kind = found.map_or("missing", Json::kind);
    let text = found.and_then(|json| Some(json.text()?.into_owned()));
    text.ok_or_else(|| Refused::params(format!("`params.{key}` is {kind}; expected a string")))
}
