//! gRPC between Toolkeep and those who run tools: the service of spec 4, and our own beside it.
//!
//! The messages are generated from `proto/` once per build, without protoc. Beside them stands what
//! both ends share: a server of any [`serve::Tools`], and a client over a connection that somebody else
//! made. Nothing here dials, reads keys or knows what a call is for.

pub mod connect;
mod message;
pub mod serve;
pub mod tls;

/// Spec 4's own: `toolrpc.ToolExecutor/CallFunction`.
pub mod toolrpc {
    tonic::include_proto!("toolrpc");
}

/// What is served beside it: list, progress, cancel.
pub mod node {
    tonic::include_proto!("toolkeep.node.v1");
}

/// The descriptors of both, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// How long a caller waits.
const TIMEOUT: http::HeaderName = http::HeaderName::from_static("grpc-timeout");

/// The largest message either way: 10 MiB.
pub const MAX_MESSAGE: usize = 10 << 20;

pub use rustls::ServerConfig;
pub use tonic::metadata::MetadataMap;
pub use tonic::{Code, Status};
