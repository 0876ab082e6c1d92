//! Headers of the streamable HTTP transport, and the body members that they repeat since
//! 2026-07-28.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http>

mod mirror;
mod value;

pub use mirror::{Mirror, Mismatch};
pub use value::{decode, encode};

/// Header with the protocol version of a request.
pub const VERSION: &str = "mcp-protocol-version";
/// Header with the session id of the handshake era.
pub const SESSION: &str = "mcp-session-id";
/// Header that repeats the method of the body (2026-07-28).
pub const METHOD: &str = "mcp-method";
/// Header that repeats the target of the method: a name, a URI or a task id (2026-07-28).
pub const NAME: &str = "mcp-name";
/// Prefix of the headers that repeat tool arguments (2026-07-28).
pub const PARAM: &str = "mcp-param-";

/// Returns the member of the params that [`NAME`] repeats, for the methods that have one.
pub fn name_member(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}
