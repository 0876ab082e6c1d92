//! The MCP door, spoken to in raw JSON-RPC.

mod calls;
mod cancel;
mod envelope;
mod legacy;
mod modern;
mod peer;
mod progress;
mod questions;
mod sessions;
mod source;
mod streams;
mod tasks;
