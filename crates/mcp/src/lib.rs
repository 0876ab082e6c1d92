//! Wire format of MCP: messages are read as borrowed parts and written by splicing validated bytes.
//!
//! Used by the MCP endpoint and by the client of upstream servers. Unknown members pass through
//! unchanged. This crate does no I/O and uses no clock and no task.

pub mod encode;
pub mod error_codes;
pub mod events;
pub mod extensions;
pub mod headers;
mod message;
pub mod meta;
mod protocol_version;
mod request_id;
pub mod sse;
pub mod tasks;

pub use message::{
    ARGUMENT_DEPTH, MessageError, RpcError, RpcMessage, RpcNotification, RpcRequest, RpcResponse,
};
pub use protocol_version::{ProtocolEra, ProtocolVersion};
pub use request_id::RequestId;
