//! SDK for nodes: serves tools written in Rust from a separate machine.
//!
//! ```no_run
//! use sdk::{Node, NodeOptions, ToolSet, tool};
//!
//! /// Reverses a given string input
//! #[tool(metadata = serde_json::json!({ "version": "1.0.0" }))]
//! fn reverse_text(text: String) -> serde_json::Value {
//!     serde_json::json!({ "result": text.chars().rev().collect::<String>() })
//! }
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let mut tools = ToolSet::default();
//! tools.add_tool(reverse_text())?;
//! let node = Node::start(tools, NodeOptions::from_env().port(50051)).await?;
//! // On shutdown:
//! node.stop().await;
//! # Ok(()) }
//! ```
//!
//! A node registers its tools at `ORG_SYSTEM_TOOLS_REGISTRY_URL` and sends a heartbeat every five
//! seconds. On shutdown it reports that it is draining, unregisters its tools and waits for running
//! calls.

mod client;
mod node;
mod node_options;
mod registry_client;
mod tools;

pub use client::{ToolResult, call_tool};
pub use node::{Node, StartError};
pub use node_options::NodeOptions;
pub use registry_client::RejectedTool;
pub use sdk_macros::tool;
pub use tools::{AddToolError, Call, Failure, Tool, ToolDefinition, ToolSet};

/// Crates that the expansion of [`macro@tool`] uses, so that callers need not depend on them.
#[doc(hidden)]
pub mod macros {
    pub use {schemars, serde};
}
