//! One entry: which fields it has, and what they may be.

use serde_json::{Map, Value, json};
use tool::Json;
use tool::catalogue::CatalogueFault;

/// Bytes of one entry.
pub(crate) const MOST_BYTES: usize = 64 << 10;
/// Characters of an id.
const LONGEST: usize = 128;
/// Ids that are parts of routes.
const ROUTES: [&str; 2] = ["upload", "query"];

/// What a field holds; absent it is empty.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    Text,
    Texts,
    Object,
}

use Holds::{Object, Text, Texts};

/// The fields, in the order they are shown.
const FIELDS: [(&str, Holds); 19] = [
    ("tool_id", Text),
    ("tool_metadata", Object),
    ("tool_search_description", Text),
    ("tool_tags", Texts),
    ("tool_type", Text),
    ("tool_man_page_doc", Text),
    ("tool_api_spec", Object),
    ("tool_custom_actions_dsl_map", Object),
    ("default_tool_usage_credentials", Object),
    ("tool_execution_mode", Text),
    ("tool_policy_rule_uri", Text),
    ("tool_source_code_link", Text),
    ("tool_service_url", Text),
    ("tool_system_function_rpc_id", Text),
    ("tool_validation_policy_rule_uri", Text),
    ("tool_validation_mode", Text),
    ("tool_runtime_type", Text),
    ("tool_settings", Object),
    ("tool_parameters", Object),
];
/// How documents of packages write one of them.
const PLURAL: &str = "tools_api_spec";
const CREDENTIALS: &str = "default_tool_usage_credentials";
pub(crate) const ID: &str = "tool_id";
pub(crate) const MANUAL: &str = "tool_man_page_doc";
pub(crate) const RUNTIME: &str = "tool_runtime_type";

fn unfit(why: impl Into<String>) -> CatalogueFault {
    CatalogueFault::Unfit(why.into())
}

/// What an object says of the fields; what is no field is left out.
pub(crate) fn said(object: &Json) -> Result<Map<String, Value>, CatalogueFault> {
    let Value::Object(mut given) = object.value() else {
        return Err(unfit(format!("an entry is an object, and this is {}", object.kind())));
    };
    if let Some(plural) = given.remove(PLURAL) {
        given.entry("tool_api_spec").or_insert(plural);
    }
    let mut said = Map::new();
    for (name, holds) in FIELDS {
        let Some(value) = given.remove(name).filter(|value| !value.is_null()) else { continue };
        let (fits, wanted) = match holds {
            Text => (value.is_string(), "text"),
            Texts => (texts(&value), "list of texts"),
            Object => (value.is_object(), "object"),
        };
        if !fits {
            return Err(unfit(format!("`{name}` is no {wanted}")));
        }
        said.insert(name.to_owned(), value);
    }
    if said.get(CREDENTIALS).and_then(Value::as_object).is_some_and(|it| !it.is_empty()) {
        return Err(unfit(format!(
            "`{CREDENTIALS}` must be empty: entries are read by everyone; credentials belong into the \
             configuration"
        )));
    }
    if let Some(id) = said.get(ID).and_then(Value::as_str) {
        check_id(id)?;
    }
    Ok(said)
}

fn texts(value: &Value) -> bool {
    value.as_array().is_some_and(|all| all.iter().all(Value::is_string))
}

fn check_id(id: &str) -> Result<(), CatalogueFault> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    if id.is_empty() || id.len() > LONGEST || !id.chars().all(fits) || ROUTES.contains(&id) {
        return Err(unfit(format!(
            "`{ID}` is 1 to {LONGEST} letters, digits, `_`, `.`, `:` and `-`, and neither `upload` nor `query`"
        )));
    }
    Ok(())
}

/// An entry with all its fields, and its id.
pub(crate) fn whole(
    mut said: Map<String, Value>,
) -> Result<(String, Map<String, Value>), CatalogueFault> {
    let mut entry = Map::new();
    for (name, holds) in FIELDS {
        let empty = || match holds {
            Text => json!(""),
            Texts => json!([]),
            Object => json!({}),
        };
        entry.insert(name.to_owned(), said.remove(name).unwrap_or_else(empty));
    }
    let id = entry.get(ID).and_then(Value::as_str).unwrap_or_default().to_owned();
    check_id(&id)?;
    if Json::of(&entry).bytes().len() > MOST_BYTES {
        return Err(unfit(format!("the entry has more than {MOST_BYTES} bytes")));
    }
    Ok((id, entry))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tool::Json;

    use super::{MOST_BYTES, said, whole};

    fn read(entry: &Value) -> Result<Value, String> {
        let said = said(&Json::of(entry)).map_err(|error| error.to_string())?;
        whole(said).map(|(_, entry)| Value::Object(entry)).map_err(|error| error.to_string())
    }

    #[test]
    fn an_entry_has_all_fields_and_what_is_none_is_left_out() {
        let entry = read(&json!({
            "tool_id": "t", "tool_tags": ["a"], "tools_api_spec": { "input": {} }, "other": 1,
            "tool_metadata": null,
        }))
        .unwrap();
        assert_eq!(entry.as_object().unwrap().len(), 19);
        assert_eq!(entry["tool_api_spec"], json!({ "input": {} }));
        assert_eq!((&entry["tool_type"], &entry["tool_metadata"]), (&json!(""), &json!({})));
        assert_eq!(entry["other"], Value::Null);
    }

    #[test]
    fn what_does_not_fit_is_told_by_its_field() {
        let long = "x".repeat(MOST_BYTES);
        for (entry, told) in [
            (json!([]), "an entry is an object"),
            (json!({}), "`tool_id` is 1 to 128"),
            (json!({ "tool_id": "../x" }), "`tool_id` is 1 to 128"),
            (json!({ "tool_id": "upload" }), "`tool_id` is 1 to 128"),
            (json!({ "tool_id": 5 }), "`tool_id` is no text"),
            (json!({ "tool_id": "t", "tool_tags": "a" }), "`tool_tags` is no list of texts"),
            (json!({ "tool_id": "t", "tool_tags": [1] }), "`tool_tags` is no list of texts"),
            (json!({ "tool_id": "t", "tool_settings": [] }), "`tool_settings` is no object"),
            (
                json!({ "tool_id": "t", "default_tool_usage_credentials": { "key": "hunter2" } }),
                "`default_tool_usage_credentials` must be empty",
            ),
            (json!({ "tool_id": "t", "tool_man_page_doc": long }), "more than 65536 bytes"),
        ] {
            let error = read(&entry).unwrap_err();
            assert!(error.contains(told) && !error.contains("hunter2"), "{error}");
        }
    }
}
