//! What came of a call, as an answer: the bytes as they are, with our own few words around them.

use bytes::Bytes;
use http::StatusCode;
use mcp::{Era, Id, RpcError, code, write};
use tool::executor::Rpc;
use tool::outcome::{Answer, Failure};
use tool::{Body as Answered, Code, Json, Outcome, Step};

use super::body::{self, Parts, Reply};

/// An answer before it is known whether it goes out alone or at the end of a stream.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) status: StatusCode,
    pub(crate) parts: Parts,
}

impl Written {
    pub(crate) fn error(id: &Id, status: StatusCode, error: &RpcError) -> Self {
        Self { status, parts: write::error(Some(id), error).into() }
    }

    /// Alone.
    pub(crate) fn reply(self) -> Reply {
        body::json(self.status, self.parts)
    }

    /// As the last event of a stream.
    pub(crate) fn event(self) -> bytes::Bytes {
        mcp::sse::event(&self.parts.whole())
    }
}

/// How a call's result is told in one era.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words<'a> {
    pub(crate) era: Era,
    pub(crate) id: &'a Id,
    /// The name as the client wrote it, where that is not the tool's own.
    pub(crate) called: Option<&'a str>,
    /// Whether this is a source's own endpoint, which answers in the source's words.
    pub(crate) own: bool,
    /// Whether the result must say how long it may be kept.
    pub(crate) dated: bool,
}

impl Words<'_> {
    /// Of a tool. An unknown tool is a fault of the request; every other failure is for the model to
    /// read. The step of a wait is not known here.
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

    /// Of a method. Its failures are errors of the protocol: there is no model to read them.
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

    /// What went wrong, for a method or for a tool.
    pub(crate) fn failure(self, failure: &Failure, method: bool) -> Written {
        // What a client of 2026-07-28 is to declare is for it to read, wherever it calls.
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

    /// A failure as text, its code first.
    pub(crate) fn failed(self, failure: &Failure) -> Written {
        let text = format!("{}: {}", failure.code.as_str(), failure.message);
        let block =
            serde_json::json!({"content": [{"type": "text", "text": text}], "isError": true});
        self.result(&Json::of(&block))
    }

    /// What the tool answered.
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

    /// Any result. Only `resultType` is this server's to say, and the rest stays as it came.
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

/// An upstream's error in its own words. What concerns only the way between it and this server would
/// mislead a client about its own.
fn relayed(era: Era, error: &Rpc) -> RpcError {
    let hop = [
        code::PARSE_ERROR,
        code::INVALID_REQUEST,
        code::HEADER_MISMATCH,
        code::UNSUPPORTED_VERSION,
    ];
    let code = match error.code {
        hops if hop.contains(&hops) => code::INTERNAL_ERROR,
        // What older revisions have a code of their own for.
        code::RESOURCE_NOT_FOUND if era == Era::Stateless => code::INVALID_PARAMS,
        code => code,
    };
    RpcError { code, message: error.message.clone(), data: error.data.clone() }
}

/// What 2026-07-28 says of errors in the status too.
fn status(era: Era, code: i64) -> StatusCode {
    match (era, code) {
        (Era::Stateless, code::MISSING_CAPABILITY) => StatusCode::BAD_REQUEST,
        (Era::Stateless, code::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    }
}

/// 2026-07-28 wants both of what is read; a source of an older revision knows neither.
fn dated(mut json: Json) -> Json {
    for (key, value) in [("ttlMs", Json::of(&0)), ("cacheScope", Json::of("private"))] {
        if json.get(key).is_none() {
            json = json.with(key, &value);
        }
    }
    json
}

/// Looks at the bytes before it looks at the members: results are large and seldom have it.
fn names_its_type(result: &Json) -> bool {
    let text = result.as_str();
    (text.contains("resultType") || text.contains("\\u")) && result.get("resultType").is_some()
}

/// Puts the type before the other members, so that these need not be copied.
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
