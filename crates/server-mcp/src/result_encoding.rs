//! The encoding of call results and failures as JSON-RPC responses of either era. Result bytes are
//! forwarded unchanged.

use bytes::Bytes;
use http::StatusCode;
use mcp::{ProtocolEra, RequestId, RpcError, encode, error_codes};
use tool::call_outcome::{CallFailure, CallResponse};
use tool::executor::{ClientCapabilities, UpstreamRpcError};
use tool::{ErrorCode, ExecutionState, Json, Outcome, OutcomeBody as Answered};

use super::client_capabilities::supports_url_elicitation;
use super::response_body::{self, BodyParts, McpResponse};

/// An encoded response and its status, sent alone or as the last event of a stream.
#[derive(Debug)]
pub(crate) struct EncodedResult {
    pub(crate) status: StatusCode,
    pub(crate) body: BodyParts,
}

impl EncodedResult {
    pub(crate) fn error(id: &RequestId, status: StatusCode, error: &RpcError) -> Self {
        Self { status, body: encode::encode_error(Some(id), error).into() }
    }

    /// Converts the result to a response of its own.
    pub(crate) fn into_response(self) -> McpResponse {
        response_body::json_response(self.status, self.body)
    }

    /// Converts the result to the last event of a stream.
    pub(crate) fn into_event(self) -> bytes::Bytes {
        mcp::sse::encode_event(&self.body.concat_parts())
    }
}

/// Encodes the result of a call for one protocol era, request id and endpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResultEncoder<'a> {
    pub(crate) era: ProtocolEra,
    pub(crate) id: &'a RequestId,
    /// The tool name that the client sent, if it differs from the native name.
    pub(crate) client_tool_name: Option<&'a str>,
    /// Whether the endpoint serves one source, whose errors are forwarded unchanged.
    pub(crate) is_single_source: bool,
    /// Whether the result must include `ttlMs` and `cacheScope`.
    pub(crate) needs_cache_hints: bool,
    /// Codes of a tool's errors that address the client itself and not the model, at every endpoint.
    pub(crate) client_errors: &'static [i64],
}

/// Returns the codes of errors that address the client itself: capabilities that it lacks, input responses
/// that it sent, and addresses that it must open before the call.
pub(crate) fn client_errors(
    era: ProtocolEra,
    capabilities: &ClientCapabilities,
    has_input_responses: bool,
) -> &'static [i64] {
    match era {
        ProtocolEra::Stateless if has_input_responses => {
            &[error_codes::MISSING_CAPABILITY, error_codes::INVALID_PARAMS]
        }
        ProtocolEra::Stateless => &[error_codes::MISSING_CAPABILITY],
        ProtocolEra::Handshake if supports_url_elicitation(capabilities) => {
            &[error_codes::URL_ELICITATION_REQUIRED]
        }
        ProtocolEra::Handshake => &[],
    }
}

impl<'a> ResultEncoder<'a> {
    /// Creates the encoder of results that this server produces at an endpoint with all tools.
    pub(crate) fn plain(era: ProtocolEra, id: &'a RequestId) -> Self {
        Self {
            era,
            id,
            client_tool_name: None,
            is_single_source: false,
            needs_cache_hints: false,
            client_errors: &[],
        }
    }

    /// Encodes a tool's result. An unknown tool is a protocol error; every other failure is a
    /// result for the model. A pending state is returned as the error.
    pub(crate) fn encode_tool_result(
        self,
        answer: CallResponse,
    ) -> Result<EncodedResult, ExecutionState> {
        Ok(match answer.result {
            Ok(ExecutionState::Completed(outcome)) => self.encode_outcome(&outcome),
            Ok(wait) => return Err(wait),
            Err(failure) if failure.code == ErrorCode::UnknownTool => {
                let message = match self.client_tool_name {
                    Some(name) => {
                        format!("unknown tool `{}`", super::request_headers::escape_input(name))
                    }
                    None => failure.message,
                };
                let error = RpcError::new(error_codes::INVALID_PARAMS, message);
                EncodedResult::error(self.id, StatusCode::OK, &error)
            }
            Err(failure) => self.encode_failure(&failure, false),
        })
    }

    /// Encodes a method's result. Failures are protocol errors, because no model reads them.
    pub(crate) fn encode_method_result(
        self,
        answer: CallResponse,
    ) -> Result<EncodedResult, ExecutionState> {
        Ok(match answer.result {
            Ok(ExecutionState::Completed(outcome)) => {
                let (Answered::Value(json) | Answered::Mcp(json)) = outcome.body;
                self.encode_result(&if self.needs_cache_hints {
                    with_cache_hints(json)
                } else {
                    json
                })
            }
            Ok(wait) => return Err(wait),
            Err(failure) => self.encode_failure(&failure, true),
        })
    }

    /// Encodes a failure of a method or a tool.
    pub(crate) fn encode_failure(self, failure: &CallFailure, is_method: bool) -> EncodedResult {
        let own = |error: &&UpstreamRpcError| {
            self.is_single_source || is_method || self.client_errors.contains(&error.code)
        };
        if let Some(error) = failure.rpc_error.as_deref().filter(own) {
            let error = forward_error(self.era, error);
            return EncodedResult::error(self.id, error_status(self.era, error.code), &error);
        }
        if !is_method {
            return self.encode_error_result(failure);
        }
        let code = match failure.code {
            ErrorCode::InvalidArguments => error_codes::INVALID_PARAMS,
            ErrorCode::UnknownTool => error_codes::METHOD_NOT_FOUND,
            _ => error_codes::INTERNAL_ERROR,
        };
        let message = format!("{}: {}", failure.code.as_str(), failure.message);
        EncodedResult::error(self.id, StatusCode::OK, &RpcError::new(code, message))
    }

    /// Encodes a failure as an error result whose text starts with the code.
    pub(crate) fn encode_error_result(self, failure: &CallFailure) -> EncodedResult {
        let text = format!("{}: {}", failure.code.as_str(), failure.message);
        let block =
            serde_json::json!({"content": [{"type": "text", "text": text}], "isError": true});
        self.encode_result(&Json::encode(&block))
    }

    /// Encodes the outcome of a tool.
    fn encode_outcome(self, outcome: &Outcome) -> EncodedResult {
        let mut json = formats::mcp::render_call_result(outcome);
        if matches!(outcome.body, Answered::Value(_)) {
            return self.encode_untyped(&json);
        }
        if outcome.is_error {
            let message = json.get("isError");
            if message.is_none_or(|told| told.as_str() != "true") {
                json = json.with_member("isError", &Json::encode(&true));
            }
        }
        self.encode_result(&json)
    }

    /// Encodes any result. Only `resultType` is set by this server; the rest stays as received.
    pub(crate) fn encode_result(self, result: &Json) -> EncodedResult {
        let head = encode::result_prefix(self.id);
        let kept = match self.era {
            ProtocolEra::Handshake if has_result_type(result) => {
                result.without_member("resultType").bytes().clone()
            }
            ProtocolEra::Handshake => result.bytes().clone(),
            ProtocolEra::Stateless if has_result_type(result) => result.bytes().clone(),
            ProtocolEra::Stateless => return self.encode_untyped(result),
        };
        encoded(head, kept)
    }

    /// Encodes a result that has no `resultType`.
    fn encode_untyped(self, result: &Json) -> EncodedResult {
        let mut head = encode::result_prefix(self.id);
        let kept = match self.era {
            ProtocolEra::Handshake => result.bytes().clone(),
            ProtocolEra::Stateless => prepend_result_type(&mut head, result),
        };
        encoded(head, kept)
    }
}

/// Joins the parts of a response with a result.
fn encoded(head: Vec<u8>, result: Bytes) -> EncodedResult {
    let tail = Bytes::from_static(encode::RESULT_SUFFIX.as_bytes());
    EncodedResult { status: StatusCode::OK, body: BodyParts::new(head, result, tail) }
}

/// Forwards an upstream error. Codes about the connection to the upstream become internal errors,
/// because they would mislead the client about its own connection.
fn forward_error(era: ProtocolEra, error: &UpstreamRpcError) -> RpcError {
    let hop = [
        error_codes::PARSE_ERROR,
        error_codes::INVALID_REQUEST,
        error_codes::HEADER_MISMATCH,
        error_codes::UNSUPPORTED_VERSION,
    ];
    let code = match error.code {
        hops if hop.contains(&hops) => error_codes::INTERNAL_ERROR,
        // Older versions have a separate code for this.
        error_codes::RESOURCE_NOT_FOUND if era == ProtocolEra::Stateless => {
            error_codes::INVALID_PARAMS
        }
        code => code,
    };
    RpcError { code, message: error.message.clone(), data: error.data.clone() }
}

/// The HTTP status of an error: 2026-07-28 uses it for some codes.
fn error_status(era: ProtocolEra, code: i64) -> StatusCode {
    match (era, code) {
        (ProtocolEra::Stateless, error_codes::MISSING_CAPABILITY) => StatusCode::BAD_REQUEST,
        (ProtocolEra::Stateless, error_codes::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    }
}

/// Adds `ttlMs` and `cacheScope`, which 2026-07-28 requires and older sources do not send.
fn with_cache_hints(mut json: Json) -> Json {
    for (key, value) in [("ttlMs", Json::encode(&0)), ("cacheScope", Json::encode("private"))] {
        if json.get(key).is_none() {
            json = json.with_member(key, &value);
        }
    }
    json
}

/// Whether a result has `resultType`. Searches the bytes first: results are large and rarely have
/// it.
fn has_result_type(result: &Json) -> bool {
    let text = result.as_str();
    (text.contains("resultType") || text.contains("\\u")) && result.get("resultType").is_some()
}

/// Writes the type before the other members, which are not copied.
fn prepend_result_type(head: &mut Vec<u8>, result: &Json) -> bytes::Bytes {
    let bytes = result.bytes();
    let Some(open) =
        bytes.iter().position(|byte| *byte == b'{').filter(|_| result.kind() == "object")
    else {
        return bytes.clone();
    };
    let members = bytes.slice(open + 1..);
    let empty = members.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'}');
    head.extend_from_slice(br#"{"resultType":"complete""#);
    head.extend_from_slice(if empty { b"" } else { b"," });
    members
}

#[cfg(test)]
mod tests {
    use mcp::{ProtocolEra, RequestId};
    use tool::{Json, JsonLimits};

    use super::ResultEncoder;

    fn written(era: ProtocolEra, text: &str) -> String {
        let json = Json::parse(text.to_owned(), JsonLimits::DOCUMENT).unwrap();
        let id = RequestId::from_number(1);
        let whole = ResultEncoder::plain(era, &id).encode_result(&json).body.concat_parts();
        let text = String::from_utf8(whole.to_vec()).unwrap();
        let text = text.strip_prefix(r#"{"jsonrpc":"2.0","id":1,"result":"#).unwrap();
        text.strip_suffix('}').unwrap().to_owned()
    }

    #[test]
    fn unknown_members_and_number_forms_stay() {
        let text = r#"{ "content":[{"type":"video","x":1.0}],"structuredContent":12345678901234567890123,"_meta":{"a/b":1e2},"vendor":null }"#;
        assert_eq!(written(ProtocolEra::Handshake, text), text);
        let (_, members) = text.split_once('{').unwrap();
        assert_eq!(
            written(ProtocolEra::Stateless, text),
            format!(r#"{{"resultType":"complete",{members}"#)
        );
    }

    #[test]
    fn the_type_is_told_in_one_era_only() {
        assert_eq!(written(ProtocolEra::Stateless, " { } "), r#"{"resultType":"complete" } "#);
        let typed = r#"{"resultType":"complete","a":1}"#;
        assert_eq!(written(ProtocolEra::Stateless, typed), typed);
        assert_eq!(written(ProtocolEra::Handshake, typed), r#"{"a":1}"#);
        assert_eq!(
            written(ProtocolEra::Handshake, r#"{"a":1,"result\u0054ype":"x"}"#),
            r#"{"a":1}"#
        );
        let inner = r#"{"content":[{"resultType":"complete"}]}"#;
        assert_eq!(written(ProtocolEra::Handshake, inner), inner);
    }

    #[test]
    fn large_results_are_not_copied() {
        let text = format!(r#"{{"content":"{}"}}"#, "x".repeat(100_000));
        let json = Json::parse(text.clone(), JsonLimits::DOCUMENT).unwrap();
        for era in [ProtocolEra::Handshake, ProtocolEra::Stateless] {
            let id = RequestId::from_number(1);
            let mut parts = ResultEncoder::plain(era, &id).encode_result(&json).body;
            let kept = parts.nth(1).unwrap();
            let inside = json.bytes().as_ptr_range();
            assert!(inside.contains(&kept.as_ptr()), "{era:?}");
            let (_, members) = text.split_at(1);
            assert!(written(era, &text).ends_with(members));
        }
    }
}
