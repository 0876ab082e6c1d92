//! The MCP door, spoken to in raw JSON-RPC.

mod calls;
pub(crate) mod cancel;
mod envelope;
mod legacy;
mod modern;
mod peer;
mod progress;
mod questions;
mod sessions;
mod source;
pub(crate) mod streams;
pub(crate) mod tasks;
