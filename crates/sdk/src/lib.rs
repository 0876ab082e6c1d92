//! Tools in Rust on a machine of their own.
//!
//! ```no_run
//! use sdk::{Node, Options, Tool, Tools};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Text {
//!     text: String,
//! }
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let mut tools = Tools::default();
//! tools.add(
//!     Tool::typed("reverse_text", |input: Text| async move {
//!         Ok::<_, String>(serde_json::json!({ "result": input.text.chars().rev().collect::<String>() }))
//!     })
//!     .description("Reverses a given string input")
//!     .metadata(serde_json::json!({ "version": "1.0.0" })),
//! )?;
//! let node = Node::start(tools, Options::from_env().port(50051)).await?;
//! // Until the program is told to end; then:
//! node.stop().await;
//! # Ok(()) }
//! ```
//!
//! A node listens, registers its tools where `ORG_SYSTEM_TOOLS_REGISTRY_URL` says, tells every five
//! seconds that it lives, and at its end tells so, takes its tools back and waits for the calls that run.

mod call;
mod node;
mod options;
mod registration;
mod tools;

pub use call::{Called, call_tool};
pub use node::{Node, StartError};
pub use options::Options;
pub use tools::{Call, Failure, Tool, ToolError, Tools};
