//! One request with its caller, endpoint, protocol era and parsed params.

use std::sync::Arc;

use gateway::CatalogView;
use http::StatusCode;
use identity::{Principal, RequestRestrictions};
use mcp::{ProtocolEra, ProtocolVersion, RequestId, RpcRequest, error_codes, headers, meta};
use tool::executor::ClientCapabilities;
use tool::{CallerType, Json, WallTime};

use super::client_capabilities;
use super::endpoint::Endpoint;
use super::log_level::LogLevel;
use super::request_error::RequestError;
use super::request_headers::{RequestHeaders, RequestMeta};
use super::response_body::McpResponse;
use super::result_encoding::ResultEncoder;
use super::session::ClientSession;
use crate::McpServerState;
use server_core::request_restrictions;

/// The caller of a request: principal, endpoint and time, with the server state.
#[derive(Debug, Clone, Copy)]
pub struct EndpointCaller<'a> {
    /// The state that all MCP requests share.
    pub state: &'a McpServerState,
    /// The principal, as verified from the credential.
    pub principal: &'a Principal,
    /// The endpoint that the request addresses.
    pub endpoint: &'a Endpoint,
    /// The time at which the request arrived.
    pub received_at: WallTime,
}

impl EndpointCaller<'_> {
    pub(crate) fn tool_view(self) -> Arc<CatalogView> {
        self.state.components.gateway.view_for(self.principal, CallerType::Direct)
    }

    /// Finds the session that the header names; `None` without that header.
    pub(crate) fn find_session(
        self,
        headers: RequestHeaders<'_>,
    ) -> Result<Option<Arc<ClientSession>>, RequestError> {
        let Some(id) = headers.session_id()? else { return Ok(None) };
        let found = self.state.mcp_components.sessions.find_session(
            (self.principal, self.endpoint),
            id,
            self.received_at,
        );
        found.map(Some).ok_or_else(|| {
            let message = "the session is invalid or has expired; start a new one with \
                `initialize`";
            RequestError::new(StatusCode::NOT_FOUND, error_codes::INVALID_REQUEST, message)
        })
    }

    /// Returns an error if the endpoint's source or toolset does not exist or is hidden from the
    /// caller.
    pub(crate) fn check_endpoint_exists(self) -> Result<(), RequestError> {
        if self.endpoint.source().is_none() && self.endpoint.toolset().is_none() {
            return Ok(());
        }
        let missing = |message| {
            RequestError::new(StatusCode::NOT_FOUND, error_codes::INVALID_REQUEST, message)
        };
        self.endpoint.source_catalog(&self.tool_view()).map(drop).map_err(missing)
    }
}

/// The members of `params` that handlers read, extracted in one pass because the arguments may be
/// large.
#[derive(Debug, Default)]
pub(crate) struct NamedParams {
    pub(crate) name: Option<Json>,
    pub(crate) uri: Option<Json>,
    pub(crate) arguments: Option<Json>,
    pub(crate) cursor: Option<Json>,
    pub(crate) request_state: Option<Json>,
    pub(crate) input_responses: Option<Json>,
}

impl NamedParams {
    /// Extracts `_meta` and the named members.
    fn from_params(params: &Json) -> (Option<Json>, Self) {
        let keys =
            [meta::META, "name", "uri", "arguments", "cursor", "requestState", "inputResponses"];
        let [beside, name, uri, args, cursor, state, answers] = params.pick(keys);
        let beside = beside.filter(|beside| beside.kind() == "object");
        (
            beside,
            Self {
                name,
                uri,
                arguments: args,
                cursor,
                request_state: state,
                input_responses: answers,
            },
        )
    }

    /// The member that must equal the header [`headers::NAME`].
    fn name_header_value(&self, method: &str) -> Option<&Json> {
        match headers::name_header_param(method)? {
            "name" => self.name.as_ref(),
            "uri" => self.uri.as_ref(),
            _ => None,
        }
    }
}

/// A parsed request, as every handler receives it.
#[derive(Debug)]
pub(crate) struct RequestContext<'a> {
    pub(crate) caller: EndpointCaller<'a>,
    pub(crate) headers: RequestHeaders<'a>,
    pub(crate) request_id: &'a RequestId,
    pub(crate) method: &'a str,
    pub(crate) params: Option<&'a Json>,
    pub(crate) era: ProtocolEra,
    /// The `_meta` object, as received.
    pub(crate) raw_meta: Option<Json>,
    pub(crate) meta: RequestMeta,
    pub(crate) session: Option<Arc<ClientSession>>,
    pub(crate) named_params: NamedParams,
}

impl<'a> RequestContext<'a> {
    /// Determines the protocol version and validates the headers against it.
    pub(crate) fn parse(
        caller: EndpointCaller<'a>,
        headers: RequestHeaders<'a>,
        request: &'a RpcRequest,
    ) -> Result<Self, RequestError> {
        let (method, params) = (request.method.as_str(), request.params.as_ref());
        let (beside, named) = params.map(NamedParams::from_params).unwrap_or_default();
        let meta = beside.as_ref().map(RequestMeta::from_json).unwrap_or_default();
        let era =
            headers.request_version(&meta)?.map_or(ProtocolEra::Handshake, ProtocolVersion::era);
        let session = match era {
            ProtocolEra::Stateless => {
                match headers::name_header_param(method) {
                    Some("taskId") => {
                        let task = params.and_then(|params| params.get("taskId"));
                        headers.check_required_headers(method, &meta, task.as_ref())?;
                    }
                    _ => headers.check_required_headers(
                        method,
                        &meta,
                        named.name_header_value(method),
                    )?,
                }
                None
            }
            // An `initialize` request names no earlier session.
            ProtocolEra::Handshake if method == "initialize" => None,
            ProtocolEra::Handshake => caller.find_session(headers)?,
        };
        Ok(Self {
            caller,
            headers,
            request_id: &request.id,
            method,
            params,
            era,
            raw_meta: beside,
            meta,
            session,
            named_params: named,
        })
    }

    /// The principal restricted by `_meta`; `None` if `_meta` restricts nothing.
    pub(crate) fn restricted_principal(&self) -> Result<Option<Principal>, RequestError> {
        let [read_only, no_web, task_type] = &self.meta.restrictions;
        let wrong = |key: &str, kind| {
            RequestError::invalid_params(format!("`params._meta.{key}` must be {kind}"))
        };
        let truth = |key, found: &Option<Json>| match found.as_ref().map(Json::as_str) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(wrong(key, "`true` or `false`")),
        };
        let (read_only, no_web) =
            (truth(meta::READ_ONLY, read_only)?, truth(meta::NO_WEB, no_web)?);
        let task = |found: &Json| {
            Ok(found.string_value().ok_or_else(|| wrong(meta::TASK_TYPE, "a text"))?.into_owned())
        };
        let task_type = task_type.as_ref().map(task).transpose()?;
        let narrowing = RequestRestrictions {
            is_read_only: read_only,
            denies_network: no_web,
            task_type,
            ..RequestRestrictions::default()
        };
        if narrowing == RequestRestrictions::default() {
            return Ok(None);
        }
        let narrowed = request_restrictions::apply_restrictions(
            self.caller.state,
            self.caller.principal,
            &narrowing,
        );
        narrowed.map(Some).map_err(|error| RequestError::invalid_params(error.message().to_owned()))
    }

    pub(crate) fn pick_params<const N: usize>(&self, keys: [&str; N]) -> [Option<Json>; N] {
        self.params.map_or([const { None }; N], |params| params.pick(keys))
    }

    /// Input responses that a stateless client sent without a `requestState`.
    pub(crate) fn unsolicited_input(&self) -> Option<Json> {
        let answers =
            self.named_params.input_responses.clone().filter(|answers| answers.kind() == "object");
        answers.filter(|_| {
            self.era == ProtocolEra::Stateless && self.named_params.request_state.is_none()
        })
    }

    /// The `uri` of the requested resource.
    pub(crate) fn require_uri(&self) -> Result<String, RequestError> {
        require_string("uri", self.named_params.uri.as_ref())
    }

    /// The capabilities that the client declared.
    pub(crate) fn client_capabilities(&self) -> ClientCapabilities {
        match (self.era, &self.session) {
            (ProtocolEra::Stateless, _) => {
                let can = self
                    .meta
                    .capabilities
                    .clone()
                    .map(client_capabilities::parse_capabilities)
                    .unwrap_or_default();
                ClientCapabilities {
                    is_single_source: self.caller.endpoint.source().is_some(),
                    ..can
                }
            }
            (ProtocolEra::Handshake, Some(session)) => session.capabilities.clone(),
            (ProtocolEra::Handshake, None) => ClientCapabilities::default(),
        }
    }

    /// The minimum level of log messages to send; `None` for none. A session that set no level
    /// receives all messages of its source.
    pub(crate) fn log_level(&self) -> Option<LogLevel> {
        match (self.era, &self.session) {
            (ProtocolEra::Stateless, _) => {
                self.meta.log_level.as_ref().and_then(LogLevel::from_json)
            }
            (ProtocolEra::Handshake, Some(session)) => {
                Some(session.runtime.log_level().unwrap_or(LogLevel::Debug))
            }
            (ProtocolEra::Handshake, None) => None,
        }
    }

    pub(crate) fn result_encoder(&self) -> ResultEncoder<'_> {
        ResultEncoder {
            is_single_source: self.caller.endpoint.source().is_some(),
            ..ResultEncoder::plain(self.era, self.request_id)
        }
    }

    /// Encodes a result that this server produced itself.
    pub(crate) fn encode_result(&self, result: &Json) -> McpResponse {
        self.result_encoder().encode_result(result).into_response()
    }

    /// The error for an unknown method.
    pub(crate) fn method_not_found(&self) -> RequestError {
        let status = match self.era {
            ProtocolEra::Stateless => StatusCode::NOT_FOUND,
            ProtocolEra::Handshake => StatusCode::OK,
        };
        let message =
            format!("unknown method `{}`", super::request_headers::escape_input(self.method));
        RequestError::new(status, error_codes::METHOD_NOT_FOUND, message)
    }
}

/// Returns the string member `key`, or an error that names it.
pub(crate) fn require_string(key: &str, found: Option<&Json>) -> Result<String, RequestError> {
    let kind = found.map_or("missing", Json::kind);
    let text = found.and_then(|json| Some(json.string_value()?.into_owned()));
    text.ok_or_else(|| {
        RequestError::invalid_params(format!("`params.{key}` is {kind}; expected a string"))
    })
}
