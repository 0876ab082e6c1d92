//! The encoding of call results and failures as JSON-RPC responses of either era. Result bytes are
//! forwarded unchanged.

use bytes::Bytes;
use http::StatusCode;
use mcp::{Era, Id, RpcError, code, write};
use tool::executor::Rpc;
use tool::outcome::{Answer, Failure};
use tool::{Body as Answered, Code, Json, Outcome, Step};

use super::body::{self, Parts, Reply};

/// An encoded response and its status, sent alone or as the last event of a stream.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) status: StatusCode,
    pub(crate) parts: Parts,
}

impl Written {
    pub(crate) fn error(id: &Id, status: StatusCode, error: &RpcError) -> Self {
        Self { status, parts: write::error(Some(id), error).into() }
    }

    /// Converts the result to a response of its own.
    pub(crate) fn reply(self) -> Reply {
        body::json(self.status, self.parts)
    }

    /// Converts the result to the last event of a stream.
    pub(crate) fn event(self) -> bytes::Bytes {
        mcp::sse::event(&self.parts.whole())
    }
}

/// Encodes the result of a call for one protocol era, request id and endpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words<'a> {
    pub(crate) era: Era,
    pub(crate) id: &'a Id,
    /// The tool name that the client sent, if it differs from the native name.
    pub(crate) called: Option<&'a str>,
    /// Whether the endpoint serves one source, whose errors are forwarded unchanged.
    pub(crate) own: bool,
    /// Whether the result must include `ttlMs` and `cacheScope`.
    pub(crate) dated: bool,
}

impl Words<'_> {
    /// Encodes a tool's result. An unknown tool is a protocol error; every other failure is a
    /// result for the model. A pending state is returned as the error.
    pub(crate) fn tool(self, answer: Answer) -> Result<Written, Step> {
        Ok(match answer.result {
            Ok(Step::Done(outcome)) => self.outcome(&outcome),
            Ok(wait) => return Err(wait),
            Err(failure) if failure.code == Code::UnknownTool => {
                let told = match self.called {
                    Some(name) => format!("unknown tool `{}`", super::head::shown(name)),
                    None => failure.message,
                };
                let error = RpcError::new(code::INVALID_PARAMS, told);
                Written::error(self.id, StatusCode::OK, &error)
            }
            Err(failure) => self.failure(&failure, false),
        })
    }

    /// Encodes a method's result. Failures are protocol errors, because no model reads them.
    pub(crate) fn method(self, answer: Answer) -> Result<Written, Step> {
        Ok(match answer.result {
            Ok(Step::Done(outcome)) => {
                let (Answered::Value(json) | Answered::Mcp(json)) = outcome.body;
                self.result(&if self.dated { dated(json) } else { json })
            }
            Ok(wait) => return Err(wait),
            Err(failure) => self.failure(&failure, true),
        })
    }

    /// Encodes a failure of a method or a tool.
    pub(crate) fn failure(self, failure: &Failure, method: bool) -> Written {
        // The error for an undeclared capability addresses the client itself, at every endpoint.
        let declares =
            |error: &Rpc| self.era == Era::Stateless && error.code == code::MISSING_CAPABILITY;
        let own = |error: &&Rpc| self.own || method || declares(error);
        if let Some(error) = failure.rpc.as_deref().filter(own) {
            let error = relayed(self.era, error);
            return Written::error(self.id, status(self.era, error.code), &error);
        }
        if !method {
            return self.failed(failure);
        }
        let code = match failure.code {
            Code::InvalidArguments => code::INVALID_PARAMS,
            Code::UnknownTool => code::METHOD_NOT_FOUND,
            _ => code::INTERNAL_ERROR,
        };
        let told = format!("{}: {}", failure.code.as_str(), failure.message);
        Written::error(self.id, StatusCode::OK, &RpcError::new(code, told))
    }

    /// Encodes a failure as an error result whose text starts with the code.
    pub(crate) fn failed(self, failure: &Failure) -> Written {
        let text = format!("{}: {}", failure.code.as_str(), failure.message);
        let block =
            serde_json::json!({"content": [{"type": "text", "text": text}], "isError": true});
        self.result(&Json::of(&block))
    }

    /// Encodes the outcome of a tool.
    fn outcome(self, outcome: &Outcome) -> Written {
        let mut json = formats::mcp::outcome(outcome);
        if outcome.is_error && matches!(outcome.body, Answered::Mcp(_)) {
            let told = json.get("isError");
            if told.is_none_or(|told| told.as_str() != "true") {
                json = json.with("isError", &Json::of(&true));
            }
        }
        self.result(&json)
    }

    /// Encodes any result. Only `resultType` is set by this server; the rest stays as received.
    pub(crate) fn result(self, result: &Json) -> Written {
        let mut head = write::before_result(self.id);
        let kept = match self.era {
            Era::Handshake if names_its_type(result) => {
                result.without("resultType").bytes().clone()
            }
            Era::Handshake => result.bytes().clone(),
            Era::Stateless if names_its_type(result) => result.bytes().clone(),
            Era::Stateless => complete(&mut head, result),
        };
        let tail = Bytes::from_static(write::AFTER_RESULT.as_bytes());
        Written { status: StatusCode::OK, parts: Parts::new(head, kept, tail) }
    }
}

/// Forwards an upstream error. Codes about the connection to the upstream become internal errors,
/// because they would mislead the client about its own connection.
fn relayed(era: Era, error: &Rpc) -> RpcError {
    let hop = [
        code::PARSE_ERROR,
        code::INVALID_REQUEST,
        code::HEADER_MISMATCH,
        code::UNSUPPORTED_VERSION,
    ];
    let code = match error.code {
        hops if hop.contains(&hops) => code::INTERNAL_ERROR,
        // Older versions have a separate code for this.
        code::RESOURCE_NOT_FOUND if era == Era::Stateless => code::INVALID_PARAMS,
        code => code,
    };
    RpcError { code, message: error.message.clone(), data: error.data.clone() }
}

/// The HTTP status of an error: 2026-07-28 uses it for some codes.
fn status(era: Era, code: i64) -> StatusCode {
    match (era, code) {
        (Era::Stateless, code::MISSING_CAPABILITY) => StatusCode::BAD_REQUEST,
        (Era::Stateless, code::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    }
}

/// Adds `ttlMs` and `cacheScope`, which 2026-07-28 requires and older sources do not send.
fn dated(mut json: Json) -> Json {
    for (key, value) in [("ttlMs", Json::of(&0)), ("cacheScope", Json::of("private"))] {
        if json.get(key).is_none() {
            json = json.with(key, &value);
        }
    }
    json
}

/// Whether a result has `resultType`. Searches the bytes first: results are large and rarely have
/// it.
fn names_its_type(result: &Json) -> bool {
    let text = result.as_str();
    (text.contains("resultType") || text.contains("\\u")) && result.get("resultType").is_some()
}

/// Writes the type before the other members, which are not copied.
fn complete(head: &mut Vec<u8>, result: &Json) -> bytes::Bytes {
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
    use mcp::{Era, Id};
    use tool::{Json, Limits};

    use super::Words;

    fn written(era: Era, text: &str) -> String {
        let json = Json::check(text.to_owned(), Limits::DOCUMENT).unwrap();
        let words = Words { era, id: &Id::number(1), called: None, own: false, dated: false };
        let whole = words.result(&json).parts.whole();
        let text = String::from_utf8(whole.to_vec()).unwrap();
        let text = text.strip_prefix(r#"{"jsonrpc":"2.0","id":1,"result":"#).unwrap();
        text.strip_suffix('}').unwrap().to_owned()
    }

    #[test]
    fn unknown_members_and_number_forms_stay() {
        let text = r#"{ "content":[{"type":"video","x":1.0}],"structuredContent":12345678901234567890123,"_meta":{"a/b":1e2},"vendor":null }"#;
        assert_eq!(written(Era::Handshake, text), text);
        let (_, members) = text.split_once('{').unwrap();
        assert_eq!(
            written(Era::Stateless, text),
            format!(r#"{{"resultType":"complete",{members}"#)
        );
    }

    #[test]
    fn the_type_is_told_in_one_era_only() {
        assert_eq!(written(Era::Stateless, " { } "), r#"{"resultType":"complete" } "#);
        let typed = r#"{"resultType":"complete","a":1}"#;
        assert_eq!(written(Era::Stateless, typed), typed);
        assert_eq!(written(Era::Handshake, typed), r#"{"a":1}"#);
        assert_eq!(written(Era::Handshake, r#"{"a":1,"result\u0054ype":"x"}"#), r#"{"a":1}"#);
        let inner = r#"{"content":[{"resultType":"complete"}]}"#;
        assert_eq!(written(Era::Handshake, inner), inner);
    }

    #[test]
    fn large_results_are_not_copied() {
        let text = format!(r#"{{"content":"{}"}}"#, "x".repeat(100_000));
        let json = Json::check(text.clone(), Limits::DOCUMENT).unwrap();
        for era in [Era::Handshake, Era::Stateless] {
            let words = Words { era, id: &Id::number(1), called: None, own: false, dated: false };
            let mut parts = words.result(&json).parts;
            let kept = parts.nth(1).unwrap();
            let inside = json.bytes().as_ptr_range();
            assert!(inside.contains(&kept.as_ptr()), "{era:?}");
            let (_, members) = text.split_at(1);
            assert!(written(era, &text).ends_with(members));
        }
    }
}
