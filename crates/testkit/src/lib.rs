//! Test doubles and test utilities: mock executors and sources, a fake clock, an in-memory ledger
//! and a store with faults, a validating MCP server, installed programs and shared data. Never a
//! dependency of shipped code.

pub mod clock;
pub mod condition;
pub mod context;
pub mod data;
pub mod executor;
pub mod expected;
pub mod golden;
pub mod http_server;
pub mod keyed;
pub mod ledger;
pub mod mcp_driver;
pub mod mcp_fixture;
pub mod oauth;
pub mod real;
pub mod run;
pub mod source;
pub mod store;
mod wire;

use serde_json::{Value, json};
use tool::{Json, Tool, ToolName, Traits};

/// Creates a read-only tool with this input schema.
///
/// # Panics
/// Panics if the name is invalid.
pub fn tool(name: &str, description: &str, input: &Value) -> Tool {
    let received = json!({"name": name, "description": description, "inputSchema": input});
    Tool {
        name: ToolName::new(name).expect("a name"),
        title: None,
        description: description.to_owned(),
        input: Json::of(input),
        output: None,
        traits: Traits { effects: tool::Effects::read_only(), ..Traits::default() },
        received: Json::of(&received),
    }
}
