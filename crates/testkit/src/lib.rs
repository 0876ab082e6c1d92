//! Test doubles and test utilities: mock executors and sources, a fake clock, an in-memory ledger,
//! faulty stores, an MCP server, installed programs and shared data. Never a dependency of shipped
//! code.

pub mod clock;
pub mod condition;
pub mod context;
pub mod executor;
pub mod executor_run;
pub mod golden_file;
mod http_client;
pub mod http_server;
pub mod installed_programs;
pub mod json_expectation;
pub mod key_proxy;
pub mod ledger;
pub mod mcp_driver;
pub mod mcp_fixture;
pub mod oauth;
pub mod shared_data;
pub mod source;
pub mod store;

use serde_json::{Value, json};
use tool::{Json, Tool, ToolName, ToolTraits};

/// Creates a read-only tool with this input schema.
///
/// # Panics
/// Panics if the name is invalid.
pub fn read_only_tool(name: &str, description: &str, input_schema: &Value) -> Tool {
    let received = json!({"name": name, "description": description, "inputSchema": input_schema});
    Tool {
        name: ToolName::new(name).expect("a name"),
        title: None,
        description: description.to_owned(),
        input_schema: Json::encode(input_schema),
        output_schema: None,
        traits: ToolTraits { effects: tool::SideEffects::read_only(), ..ToolTraits::default() },
        raw_definition: Json::encode(&received),
    }
}
