//! Our requests as bytes: our own few words around what was checked before.

use ::mcp::{Era, Revision, meta};
use bytes::Bytes;
use json::quote;
use tool::Json;

/// The params of a request, but for `_meta`.
#[derive(Debug, Clone)]
pub(super) enum Params<'a> {
    /// Of a call of a tool: its name as JSON, and its arguments.
    Tool(&'a Json, &'a Json),
    /// An object.
    Whole(&'a Json),
}

/// One request.
#[derive(Debug, Clone)]
pub(super) struct Outgoing<'a> {
    pub(super) method: &'a str,
    pub(super) params: Params<'a>,
    /// What else goes into `_meta`, for the server and for this request alone.
    pub(super) passed: Vec<(String, Json)>,
    /// What the asking client can, in MCP's words; only 2026-07-28 is told with each request.
    pub(super) can: Json,
    /// From which level on log lines are wanted; only 2026-07-28 is told.
    pub(super) level: Option<Json>,
    /// Whether progress is of interest.
    pub(super) progress: bool,
    /// What answers an earlier result's questions.
    pub(super) answers: Option<Json>,
    /// What an earlier result wants back.
    pub(super) state: Option<Json>,
    /// That it is to be a task, as 2025-11-25 has it.
    pub(super) task: Option<Json>,
}

impl<'a> Outgoing<'a> {
    /// One of ours, on nobody's behalf.
    pub(super) fn own(method: &'a str, params: &'a Json) -> Self {
        Self {
            method,
            params: Params::Whole(params),
            passed: Vec::new(),
            can: Json::empty(),
            level: None,
            progress: false,
            answers: None,
            state: None,
            task: None,
        }
    }

    /// The message.
    pub(super) fn write(&self, id: i64, era: Era) -> Bytes {
        let (args, own) = match &self.params {
            Params::Tool(name, args) => (args, name.as_str().len()),
            Params::Whole(params) => (params, 0),
        };
        let mut text = String::with_capacity(args.as_str().len() + own + 512);
        text.push_str(r#"{"jsonrpc":"2.0","id":"#);
        text.push_str(itoa::Buffer::new().format(id));
        text.push_str(r#","method":"#);
        quote(&mut text, self.method);
        text.push_str(r#","params":"#);
        let mut members = Members::new(&mut text);
        let beside = self.beside(&mut members, id, era);
        match &self.params {
            Params::Tool(name, args) => {
                members.add("name", name.as_str());
                members.add("arguments", args.as_str());
            }
            Params::Whole(params) => {
                for (key, value) in params.members() {
                    if key != meta::META || !beside {
                        members.add(&key, value.as_str());
                    }
                }
            }
        }
        let more = [
            ("inputResponses", &self.answers),
            ("requestState", &self.state),
            ("task", &self.task),
        ];
        for (key, value) in more {
            if let Some(value) = value {
                members.add(key, value.as_str());
            }
        }
        members.end();
        text.push('}');
        text.into()
    }

    /// Writes `_meta`, where there is anything to say there; whether there was.
    fn beside(&self, members: &mut Members<'_>, id: i64, era: Era) -> bool {
        if self.passed.is_empty() && !self.progress && era == Era::Handshake {
            return false;
        }
        let mut meta = members.within(meta::META);
        for (key, value) in &self.passed {
            meta.add(key, value.as_str());
        }
        if self.progress {
            meta.add(meta::PROGRESS_TOKEN, &id.to_string());
        }
        if era == Era::Stateless {
            meta.add(meta::PROTOCOL_VERSION, &format!("\"{}\"", Revision::LATEST));
            meta.add(meta::CLIENT_INFO, US);
            meta.add(meta::CLIENT_CAPABILITIES, self.can.as_str());
            if let Some(level) = &self.level {
                meta.add(meta::LOG_LEVEL, level.as_str());
            }
        }
        meta.end();
        true
    }
}

/// Who we are, to servers.
pub(super) const US: &str =
    concat!(r#"{"name":"toolkeep","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

/// Writes an object.
struct Members<'t> {
    text: &'t mut String,
    first: bool,
}

impl<'t> Members<'t> {
    fn new(text: &'t mut String) -> Self {
        text.push('{');
        Self { text, first: true }
    }

    fn key(&mut self, key: &str) {
        if !std::mem::take(&mut self.first) {
            self.text.push(',');
        }
        quote(self.text, key);
        self.text.push(':');
    }

    fn add(&mut self, key: &str, value: &str) {
        self.key(key);
        self.text.push_str(value);
    }

    /// An object inside this one.
    fn within(&mut self, key: &str) -> Members<'_> {
        self.key(key);
        Members::new(self.text)
    }

    fn end(self) {
        self.text.push('}');
    }
}

#[cfg(test)]
mod tests {
    use ::mcp::{Era, Message};
    use serde_json::json;
    use tool::{Json, Limits};

    use super::{Outgoing, Params};

    fn json(text: &str) -> Json {
        Json::check(text.to_owned(), Limits::DOCUMENT).unwrap()
    }

    #[test]
    fn arguments_go_out_as_they_were_checked() {
        let (name, args) =
            (Json::of("a\"b"), json(r#"{"z":1.0e2,"a":123456789012345678901234567890}"#));
        let call = Outgoing {
            params: Params::Tool(&name, &args),
            passed: vec![("k/\"x".to_owned(), json("[ 1.50 ]"))],
            progress: true,
            ..Outgoing::own("tools/call", &args)
        };
        assert_eq!(
            call.write(7, Era::Handshake),
            concat!(
                r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"#,
                r#""_meta":{"k/\"x":[ 1.50 ],"progressToken":7},"name":"a\"b","#,
                r#""arguments":{"z":1.0e2,"a":123456789012345678901234567890}}}"#,
            )
        );
    }

    #[test]
    fn what_is_written_is_a_message_in_each_era() {
        let params = json(r#"{ "uri" : "a:b", "_meta": {"x": 1}, "n": 1.0 }"#);
        let own = Outgoing {
            answers: Some(json(r#"{"q":{}}"#)),
            state: Some(json(r#""s""#)),
            ..Outgoing::own("resources/read", &params)
        };
        for (era, meta) in [
            (Era::Handshake, json!({"x": 1})),
            (
                Era::Stateless,
                json!({
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": {"name": "toolkeep", "version": env!("CARGO_PKG_VERSION")},
                    "io.modelcontextprotocol/clientCapabilities": {},
                }),
            ),
        ] {
            let Message::Request(read) =
                Message::read(own.write(1, era), Limits::DOCUMENT).unwrap()
            else {
                panic!("a request")
            };
            let expected = json!({"uri": "a:b", "_meta": meta, "n": 1.0, "inputResponses": {"q": {}}, "requestState": "s"});
            assert_eq!(read.params.unwrap().value(), expected);
        }
        let empty = Json::empty();
        let text = Outgoing::own("ping", &empty).write(2, Era::Handshake);
        assert_eq!(text, r#"{"jsonrpc":"2.0","id":2,"method":"ping","params":{}}"#);
    }
}
