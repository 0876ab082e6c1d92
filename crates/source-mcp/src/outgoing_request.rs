//! Encodes requests to servers: a JSON-RPC envelope around validated params.

use ::mcp::{ProtocolEra, ProtocolVersion, meta};
use bytes::Bytes;
use json::write_quoted;
use tool::Json;

/// Params of a request, without `_meta`.
#[derive(Debug, Clone)]
pub(super) enum RequestParams<'a> {
    /// Tool call: the tool's name as JSON, and its arguments.
    ToolCall(&'a Json, &'a Json),
    /// Params object.
    Object(&'a Json),
}

/// Request to a server.
#[derive(Debug, Clone)]
pub(super) struct OutgoingRequest<'a> {
    pub(super) method: &'a str,
    pub(super) params: RequestParams<'a>,
    /// Further members of `_meta` for the server, for this request only.
    pub(super) forwarded_meta: Vec<(String, Json)>,
    /// Client capabilities, as MCP encodes them. Only 2026-07-28 sends them with each request.
    pub(super) client_capabilities: Json,
    /// Minimum level of log lines. Only 2026-07-28 sends it.
    pub(super) log_level: Option<Json>,
    /// Whether the client wants progress.
    pub(super) wants_progress: bool,
    /// Answers to the input requests of an earlier result.
    pub(super) input_responses: Option<Json>,
    /// State that an earlier result asked to return.
    pub(super) request_state: Option<Json>,
    /// Task params that make the call a task, as in 2025-11-25.
    pub(super) task_params: Option<Json>,
}

impl<'a> OutgoingRequest<'a> {
    /// Creates a request of Toolkeep's own, for no caller.
    pub(super) fn internal(method: &'a str, params: &'a Json) -> Self {
        Self {
            method,
            params: RequestParams::Object(params),
            forwarded_meta: Vec::new(),
            client_capabilities: Json::empty_object(),
            log_level: None,
            wants_progress: false,
            input_responses: None,
            request_state: None,
            task_params: None,
        }
    }

    /// Encodes the request as a JSON-RPC message.
    pub(super) fn encode_message(&self, id: i64, era: ProtocolEra) -> Bytes {
        let (args, name_bytes) = match &self.params {
            RequestParams::ToolCall(name, args) => (args, name.as_str().len()),
            RequestParams::Object(params) => (params, 0),
        };
        let mut text = String::with_capacity(args.as_str().len() + name_bytes + 512);
        text.push_str(r#"{"jsonrpc":"2.0","id":"#);
        text.push_str(itoa::Buffer::new().format(id));
        text.push_str(r#","method":"#);
        write_quoted(&mut text, self.method);
        text.push_str(r#","params":"#);
        let mut members = ObjectWriter::new(&mut text);
        let has_meta = self.write_meta(&mut members, id, era);
        match &self.params {
            RequestParams::ToolCall(name, args) => {
                members.write_member("name", name.as_str());
                members.write_member("arguments", args.as_str());
            }
            RequestParams::Object(params) => {
                for (key, value) in params.members() {
                    if key != meta::META || !has_meta {
                        members.write_member(&key, value.as_str());
                    }
                }
            }
        }
        let extra_members = [
            ("inputResponses", &self.input_responses),
            ("requestState", &self.request_state),
            ("task", &self.task_params),
        ];
        for (key, value) in extra_members {
            if let Some(value) = value {
                members.write_member(key, value.as_str());
            }
        }
        members.end_object();
        text.push('}');
        text.into()
    }

    /// Writes `_meta` if it has members. Returns whether it has.
    fn write_meta(&self, members: &mut ObjectWriter<'_>, id: i64, era: ProtocolEra) -> bool {
        if self.forwarded_meta.is_empty() && !self.wants_progress && era == ProtocolEra::Handshake {
            return false;
        }
        let mut meta = members.begin_object(meta::META);
        for (key, value) in &self.forwarded_meta {
            meta.write_member(key, value.as_str());
        }
        if self.wants_progress {
            meta.write_member(meta::PROGRESS_TOKEN, &id.to_string());
        }
        if era == ProtocolEra::Stateless {
            meta.write_member(meta::PROTOCOL_VERSION, &format!("\"{}\"", ProtocolVersion::LATEST));
            meta.write_member(meta::CLIENT_INFO, CLIENT_INFO);
            meta.write_member(meta::CLIENT_CAPABILITIES, self.client_capabilities.as_str());
            if let Some(level) = &self.log_level {
                meta.write_member(meta::LOG_LEVEL, level.as_str());
            }
        }
        meta.end_object();
        true
    }
}

/// Client name and version that servers receive.
pub(super) const CLIENT_INFO: &str =
    concat!(r#"{"name":"toolkeep","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

/// Writes the members of a JSON object.
struct ObjectWriter<'t> {
    text: &'t mut String,
    is_first: bool,
}

impl<'t> ObjectWriter<'t> {
    fn new(text: &'t mut String) -> Self {
        text.push('{');
        Self { text, is_first: true }
    }

    fn write_key(&mut self, key: &str) {
        if !std::mem::take(&mut self.is_first) {
            self.text.push(',');
        }
        write_quoted(self.text, key);
        self.text.push(':');
    }

    fn write_member(&mut self, key: &str, value: &str) {
        self.write_key(key);
        self.text.push_str(value);
    }

    /// Begins an object inside this one.
    fn begin_object(&mut self, key: &str) -> ObjectWriter<'_> {
        self.write_key(key);
        ObjectWriter::new(self.text)
    }

    fn end_object(self) {
        self.text.push('}');
    }
}

#[cfg(test)]
mod tests {
    use ::mcp::{ProtocolEra, RpcMessage};
    use serde_json::json;
    use tool::{Json, JsonLimits};

    use super::{OutgoingRequest, RequestParams};

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned(), JsonLimits::DOCUMENT).unwrap()
    }

    #[test]
    fn arguments_go_out_as_they_were_checked() {
        let (name, args) =
            (Json::encode("a\"b"), json(r#"{"z":1.0e2,"a":123456789012345678901234567890}"#));
        let call = OutgoingRequest {
            params: RequestParams::ToolCall(&name, &args),
            forwarded_meta: vec![("k/\"x".to_owned(), json("[ 1.50 ]"))],
            wants_progress: true,
            ..OutgoingRequest::internal("tools/call", &args)
        };
        assert_eq!(
            call.encode_message(7, ProtocolEra::Handshake),
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
        let own = OutgoingRequest {
            input_responses: Some(json(r#"{"q":{}}"#)),
            request_state: Some(json(r#""s""#)),
            ..OutgoingRequest::internal("resources/read", &params)
        };
        for (era, meta) in [
            (ProtocolEra::Handshake, json!({"x": 1})),
            (
                ProtocolEra::Stateless,
                json!({
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": {"name": "toolkeep", "version": env!("CARGO_PKG_VERSION")},
                    "io.modelcontextprotocol/clientCapabilities": {},
                }),
            ),
        ] {
            let RpcMessage::Request(read) =
                RpcMessage::parse(own.encode_message(1, era), JsonLimits::DOCUMENT).unwrap()
            else {
                panic!("a request")
            };
            let expected = json!({"uri": "a:b", "_meta": meta, "n": 1.0, "inputResponses": {"q": {}}, "requestState": "s"});
            assert_eq!(read.params.unwrap().to_value(), expected);
        }
        let empty = Json::empty_object();
        let text =
            OutgoingRequest::internal("ping", &empty).encode_message(2, ProtocolEra::Handshake);
        assert_eq!(text, r#"{"jsonrpc":"2.0","id":2,"method":"ping","params":{}}"#);
    }
}
