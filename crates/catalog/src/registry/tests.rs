use std::sync::Arc;

use serde_json::json;
use tool::{Safety, SourceName, Tool};

use super::{OnConflict, RegisterError, Registry};

fn tool(name: &str, safety: Safety, categories: &[&str]) -> Tool {
    let mut tool = testkit::tool(name, name, &json!({"type": "object"}));
    tool.traits.safety = safety;
    tool.traits.categories = categories.iter().map(|c| (*c).to_owned()).collect();
    tool
}

fn registry(tools: Vec<Tool>) -> Registry {
    let mut registry = Registry::new(SourceName::new("library").unwrap());
    for tool in tools {
        registry.register(Arc::new(tool), testkit::executor::echo(), OnConflict::Refuse).unwrap();
    }
    registry
}

#[test]
fn filters_by_safety_and_category_together() {
    let registry = registry(vec![
        tool("a", Safety::Safe, &["introspection", "xref"]),
        tool("b", Safety::Cautious, &["execution"]),
        tool("c", Safety::Dangerous, &["buffer"]),
        tool("d", Safety::Safe, &["buffer"]),
    ]);
    let names = |limit, categories| {
        let found = registry.filter(limit, categories);
        found.map(|entry| entry.key.name.to_string()).collect::<String>()
    };
    assert_eq!(names(None, None), "abcd");
    assert_eq!(names(Some(Safety::Safe), None), "ad");
    assert_eq!(names(Some(Safety::Cautious), None), "abd");
    assert_eq!(names(Some(Safety::Safe), Some(&["buffer", "xref"])), "ad");
    assert_eq!(names(Some(Safety::Safe), Some(&["execution"])), "");
    assert_eq!(names(None, Some(&[])), "");
}

#[test]
fn names_are_kept_once_and_replaced_only_on_request() {
    let mut registry = registry(vec![tool("a", Safety::Safe, &[]), tool("b", Safety::Safe, &[])]);
    let again = Arc::new(tool("a", Safety::Safe, &[]));
    let mut other = tool("a", Safety::Dangerous, &[]);
    other.received = tool::Json::of("another");
    let other = Arc::new(other);
    let echo = testkit::executor::echo();
    registry.register(again, Arc::clone(&echo), OnConflict::Refuse).unwrap();
    let refused = registry.register(Arc::clone(&other), Arc::clone(&echo), OnConflict::Refuse);
    assert_eq!(refused.unwrap_err().to_string(), "Tool a already registered");
    assert_eq!(registry.get("a").unwrap().tool.traits.safety, Safety::Safe);
    registry.register(Arc::clone(&other), echo, OnConflict::Replace).unwrap();
    assert_eq!(registry.get("a").unwrap().tool.traits.safety, Safety::Dangerous);
    // The same definition with another executor, as after a handler was mended.
    let mended = testkit::executor::echo();
    let is_run_by = |registry: &Registry, executor: &Arc<dyn tool::Executor>| {
        std::ptr::addr_eq(Arc::as_ptr(&registry.get("a").unwrap().executor), Arc::as_ptr(executor))
    };
    registry.register(Arc::clone(&other), Arc::clone(&mended), OnConflict::Refuse).unwrap();
    assert!(!is_run_by(&registry, &mended), "the first stays");
    registry.register(other, Arc::clone(&mended), OnConflict::Replace).unwrap();
    assert!(is_run_by(&registry, &mended));
    assert_eq!(registry.names().map(ToString::to_string).collect::<String>(), "ab");
    assert_eq!(registry.len(), 2);
    assert!(registry.get("absent").is_none());
}

#[test]
fn a_bad_schema_is_a_value_not_a_panic() {
    let mut registry = registry(vec![]);
    let bad = testkit::tool("bad", "d", &json!({"type": "array"}));
    let error = registry
        .register(Arc::new(bad), testkit::executor::echo(), OnConflict::Refuse)
        .unwrap_err();
    assert!(matches!(error, RegisterError::Schema { .. }));
    assert!(registry.is_empty());
}

/// What a program that embeds the registry sends to its model.
#[test]
fn filtered_tools_become_schemas() {
    use formats::{Format, tools_to_schema};
    let registry =
        registry(vec![tool("look.up", Safety::Safe, &["x"]), tool("wipe", Safety::Dangerous, &[])]);
    let safe = registry.filter(Some(Safety::Cautious), None).map(|entry| &*entry.tool);
    let schemas = tools_to_schema(Format::OpenaiChat, safe);
    let list = schemas.tools.value();
    assert_eq!(
        list,
        json!([{"type": "function", "function": {
            "name": "look_up", "description": "look.up", "parameters": {"type": "object", "properties": {}}}}])
    );
    assert_eq!(schemas.names.name("look_up"), Some("look.up"));
}
