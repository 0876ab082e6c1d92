use std::sync::Arc;

use serde_json::json;
use tool::{SafetyLevel, SourceName, Tool};

use super::{ConflictPolicy, RegisterError, ToolRegistry};

fn tool(name: &str, safety: SafetyLevel, categories: &[&str]) -> Tool {
    let mut tool = testkit::read_only_tool(name, name, &json!({"type": "object"}));
    tool.traits.safety = safety;
    tool.traits.categories = categories.iter().map(|c| (*c).to_owned()).collect();
    tool
}

fn registry(tools: Vec<Tool>) -> ToolRegistry {
    let mut registry = ToolRegistry::new(SourceName::new("library").unwrap());
    for tool in tools {
        registry
            .register_tool(
                Arc::new(tool),
                testkit::executor::echo_executor(),
                ConflictPolicy::KeepFirst,
            )
            .unwrap();
    }
    registry
}

#[test]
fn filters_by_safety_and_category_together() {
    let registry = registry(vec![
        tool("a", SafetyLevel::Safe, &["introspection", "xref"]),
        tool("b", SafetyLevel::Cautious, &["execution"]),
        tool("c", SafetyLevel::Dangerous, &["buffer"]),
        tool("d", SafetyLevel::Safe, &["buffer"]),
    ]);
    let names = |limit, categories| {
        let found = registry.filter_tools(limit, categories);
        found.map(|entry| entry.tool_key.name.to_string()).collect::<String>()
    };
    assert_eq!(names(None, None), "abcd");
    assert_eq!(names(Some(SafetyLevel::Safe), None), "ad");
    assert_eq!(names(Some(SafetyLevel::Cautious), None), "abd");
    assert_eq!(names(Some(SafetyLevel::Safe), Some(&["buffer", "xref"])), "ad");
    assert_eq!(names(Some(SafetyLevel::Safe), Some(&["execution"])), "");
    assert_eq!(names(None, Some(&[])), "");
}

#[test]
fn names_are_kept_once_and_replaced_only_on_request() {
    let mut registry =
        registry(vec![tool("a", SafetyLevel::Safe, &[]), tool("b", SafetyLevel::Safe, &[])]);
    let again = Arc::new(tool("a", SafetyLevel::Safe, &[]));
    let mut other = tool("a", SafetyLevel::Dangerous, &[]);
    other.raw_definition = tool::Json::encode("another");
    let other = Arc::new(other);
    let echo = testkit::executor::echo_executor();
    registry.register_tool(again, Arc::clone(&echo), ConflictPolicy::KeepFirst).unwrap();
    let refused =
        registry.register_tool(Arc::clone(&other), Arc::clone(&echo), ConflictPolicy::KeepFirst);
    assert_eq!(refused.unwrap_err().to_string(), "Tool a already registered");
    assert_eq!(registry.get_tool("a").unwrap().tool.traits.safety, SafetyLevel::Safe);
    registry.register_tool(Arc::clone(&other), echo, ConflictPolicy::Replace).unwrap();
    assert_eq!(registry.get_tool("a").unwrap().tool.traits.safety, SafetyLevel::Dangerous);
    // The same definition with another executor, as after a handler was mended.
    let mended = testkit::executor::echo_executor();
    let is_run_by = |registry: &ToolRegistry, executor: &Arc<dyn tool::Executor>| {
        std::ptr::addr_eq(
            Arc::as_ptr(&registry.get_tool("a").unwrap().executor),
            Arc::as_ptr(executor),
        )
    };
    registry
        .register_tool(Arc::clone(&other), Arc::clone(&mended), ConflictPolicy::KeepFirst)
        .unwrap();
    assert!(!is_run_by(&registry, &mended), "the first stays");
    registry.register_tool(other, Arc::clone(&mended), ConflictPolicy::Replace).unwrap();
    assert!(is_run_by(&registry, &mended));
    assert_eq!(registry.names().map(ToString::to_string).collect::<String>(), "ab");
    assert_eq!(registry.len(), 2);
    assert!(registry.get_tool("absent").is_none());
}

#[test]
fn a_bad_schema_is_a_value_not_a_panic() {
    let mut registry = registry(vec![]);
    let bad = testkit::read_only_tool("bad", "d", &json!({"type": "array"}));
    let error = registry
        .register_tool(Arc::new(bad), testkit::executor::echo_executor(), ConflictPolicy::KeepFirst)
        .unwrap_err();
    assert!(matches!(error, RegisterError::InvalidSchema { .. }));
    assert!(registry.is_empty());
}

/// What a program that embeds the registry sends to its model.
#[test]
fn filtered_tools_become_schemas() {
    use formats::{ProviderFormat, render_tool_schemas};
    let registry = registry(vec![
        tool("look.up", SafetyLevel::Safe, &["x"]),
        tool("wipe", SafetyLevel::Dangerous, &[]),
    ]);
    let safe = registry.filter_tools(Some(SafetyLevel::Cautious), None).map(|entry| &*entry.tool);
    let schemas = render_tool_schemas(ProviderFormat::OpenaiChat, safe);
    let list = schemas.tools.to_value();
    assert_eq!(
        list,
        json!([{"type": "function", "function": {
            "name": "look_up", "description": "look.up", "parameters": {"type": "object", "properties": {}}}}])
    );
    assert_eq!(schemas.aliases.name_of("look_up"), Some("look.up"));
}
