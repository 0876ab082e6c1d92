//! The wire format of MCP: messages are read as borrowed parts and written by splicing validated
//! bytes.
//!
//! Used by the MCP endpoint and by the client of upstream servers. Unknown members pass through
//! unchanged. This crate does no I/O and uses no clock and no task.

pub mod code;
pub mod header;
mod id;
mod message;
pub mod meta;
mod revision;
pub mod sse;
pub mod task;
pub mod write;

pub use id::Id;
pub use message::{AROUND_ARGUMENTS, Fault, Message, Notification, Request, Response, RpcError};
pub use revision::{Era, Revision};
