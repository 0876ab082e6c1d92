//! Tests of every manifest example, with any embedder.

use builtin_manifests::ToolFamily;
use serde_json::Value;
use testkit::json_expectation::contains_json;
use tool_manifest::BuiltinTool;

use crate::calls::{call, value};

pub(crate) async fn every_example_holds(tools: &[BuiltinTool]) {
    let entries: Vec<Value> = serde_json::from_str(ToolFamily::Text.text()).unwrap();
    for entry in entries {
        let name = entry["name"].as_str().unwrap();
        assert!(!entry["examples"].as_array().unwrap().is_empty(), "{name} has no example");
        for example in entry["examples"].as_array().unwrap() {
            let outcome = call(tools, name, &example["input"]).await;
            let answered = value(&outcome);
            let wanted = example.get("error").unwrap_or(&example["output"]);
            assert_eq!(outcome.is_error, example.get("error").is_some(), "{name}: {answered}");
            assert!(contains_json(&answered, wanted), "{name}: {answered} lacks {wanted}");
            if !outcome.is_error {
                let tool = tools.iter().find(|it| it.tool.name.as_str() == name).unwrap();
                let schema = tool.tool.output_schema.as_ref().unwrap().to_value();
                assert!(jsonschema::is_valid(&schema, &answered), "{name}: {answered}");
            }
        }
    }
}
