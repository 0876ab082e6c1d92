//! MCP's messages as they stand on the wire: read as borrowed parts, written by splicing checked bytes.
//!
//! Both sides of Toolkeep speak through this crate: the door and the client of upstreams. What it does
//! not know it carries along, byte for byte. Pure: no I/O, no clock, no task.

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
