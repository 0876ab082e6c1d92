//! gRPC between Toolkeep and nodes: the `ToolExecutor` service of the cluster tools and Toolkeep's
//! `Node` service.
//!
//! The messages are generated from `proto/` once per build, without protoc. The crate also has what
//! both sides share: a server for any [`server::ToolService`], and a client over connections that
//! the caller opens. The crate opens no connection, reads no key and does not interpret calls.

pub mod client;
mod framing;
pub mod server;
pub mod tls;

/// The messages and services of the cluster tools: `toolrpc.ToolExecutor/CallFunction`.
pub mod toolrpc {
    tonic::include_proto!("toolrpc");
}

/// Toolkeep's `Node` service: list tools, call with progress, cancel.
pub mod node {
    tonic::include_proto!("toolkeep.node.v1");
}

/// The file descriptors of both services, for reflection.
pub const FILE_DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The gRPC header with the caller's timeout.
const TIMEOUT_HEADER: http::HeaderName = http::HeaderName::from_static("grpc-timeout");

/// Maximum size of a message in either direction: 10 MiB.
pub const MAX_MESSAGE_BYTES: usize = 10 << 20;

pub use rustls::ServerConfig;
pub use tonic::metadata::MetadataMap;
pub use tonic::{Code, Status};
