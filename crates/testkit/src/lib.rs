//! Fakes of the ports for tests: scripted executors and sources, a clock that stands still, a ledger
//! and a store in memory; an MCP server that judges; what is installed, and data from elsewhere. Never a dependency of what ships.

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

/// A tool with this input schema and traits that say: read-only.
///
/// # Panics
/// Where the name is no name.
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
