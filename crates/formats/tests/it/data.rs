//! Real definitions and real calls from shared data, where they are there.

mod lowered;

use serde_json::Value;
use tool::{Json, Tool, ToolName, ToolTraits};

/// A definition as a tool. One without a schema takes any arguments.
fn tool(row: &Value, index: usize) -> Tool {
    let input = match &row["parameters"] {
        Value::Null => serde_json::json!({ "type": "object" }),
        schema => schema.clone(),
    };
    Tool {
        name: ToolName::new(format!("t{index}")).unwrap(),
        title: None,
        description: row["description"].as_str().unwrap_or_default().to_owned(),
        input_schema: Json::encode(&input),
        output_schema: None,
        traits: ToolTraits::default(),
        raw_definition: Json::empty_object(),
    }
}
