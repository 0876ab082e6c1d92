//! Headers of the streamable HTTP transport, and the body members that they repeat since
//! 2026-07-28.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http>

mod argument_headers;
mod value_encoding;

pub use argument_headers::{ArgumentHeaders, HeaderMismatch};
pub use value_encoding::{decode_value, encode_value};

/// Header with the protocol version of a request.
pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// Header with the session id of the handshake era.
pub const SESSION_ID: &str = "mcp-session-id";
/// Header that repeats the method of the body (2026-07-28).
pub const METHOD: &str = "mcp-method";
/// Header that repeats the target of the method: a name, a URI or a task id (2026-07-28).
pub const NAME: &str = "mcp-name";
/// Prefix of the headers that repeat tool arguments (2026-07-28).
pub const PARAM_PREFIX: &str = "mcp-param-";

/// Returns the member of the params that [`NAME`] repeats, for the methods that have one.
pub fn name_header_param(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}
