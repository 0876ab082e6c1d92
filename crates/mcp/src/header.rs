//! The headers of streamable HTTP, and what of a body stands in them from 2026-07-28 on.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http>

mod mirror;
mod value;

pub use mirror::{Mirror, Mismatch};
pub use value::{decode, encode};

/// The revision a request is written in.
pub const VERSION: &str = "mcp-protocol-version";
/// The session of the handshake era.
pub const SESSION: &str = "mcp-session-id";
/// The method of the body (2026-07-28).
pub const METHOD: &str = "mcp-method";
/// What the method is for: a name, a URI or a task (2026-07-28).
pub const NAME: &str = "mcp-name";
/// Before the name of a mirrored argument (2026-07-28).
pub const PARAM: &str = "mcp-param-";

/// The member of the params whose value stands in [`NAME`], for the methods that have one.
pub fn name_member(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}
