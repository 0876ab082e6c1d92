//! Entry of the package registry: its fields and their types.

use serde_json::{Map, Value, json};
use tool::Json;
use tool::tool_packages::ToolPackageError;

/// Bytes of one entry.
pub(crate) const MAX_ENTRY_BYTES: usize = 64 << 10;
/// Characters of an id.
const MAX_ID_CHARS: usize = 128;
/// Ids that are reserved because they are route segments.
const RESERVED_IDS: [&str; 2] = ["upload", "query"];

/// Type of a field. A missing field is empty.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldType {
    StringField,
    StringList,
    Object,
}

use FieldType::{Object, StringField, StringList};

/// The fields, in the order they are shown.
const FIELDS: [(&str, FieldType); 19] = [
    ("tool_id", StringField),
    ("tool_metadata", Object),
    ("tool_search_description", StringField),
    ("tool_tags", StringList),
    ("tool_type", StringField),
    ("tool_man_page_doc", StringField),
    ("tool_api_spec", Object),
    ("tool_custom_actions_dsl_map", Object),
    ("default_tool_usage_credentials", Object),
    ("tool_execution_mode", StringField),
    ("tool_policy_rule_uri", StringField),
    ("tool_source_code_link", StringField),
    ("tool_service_url", StringField),
    ("tool_system_function_rpc_id", StringField),
    ("tool_validation_policy_rule_uri", StringField),
    ("tool_validation_mode", StringField),
    ("tool_runtime_type", StringField),
    ("tool_settings", Object),
    ("tool_parameters", Object),
];
/// Alias of `tool_api_spec` in the documents of packages.
const API_SPEC_ALIAS: &str = "tools_api_spec";
const CREDENTIALS_FIELD: &str = "default_tool_usage_credentials";
pub(crate) const ID_FIELD: &str = "tool_id";
pub(crate) const MANUAL_FIELD: &str = "tool_man_page_doc";
pub(crate) const RUNTIME_FIELD: &str = "tool_runtime_type";

fn invalid_entry(why: impl Into<String>) -> ToolPackageError {
    ToolPackageError::Invalid(why.into())
}

/// Parses the known fields of an object; ignores all others.
pub(crate) fn parse_fields(object: &Json) -> Result<Map<String, Value>, ToolPackageError> {
    let Value::Object(mut given) = object.to_value() else {
        return Err(invalid_entry(format!("an entry must be an object, not {}", object.kind())));
    };
    if let Some(plural) = given.remove(API_SPEC_ALIAS) {
        given.entry("tool_api_spec").or_insert(plural);
    }
    let mut fields = Map::new();
    for (name, holds) in FIELDS {
        let Some(value) = given.remove(name).filter(|value| !value.is_null()) else { continue };
        let (is_valid, wanted) = match holds {
            StringField => (value.is_string(), "a string"),
            StringList => (is_string_list(&value), "a list of strings"),
            Object => (value.is_object(), "an object"),
        };
        if !is_valid {
            return Err(invalid_entry(format!("`{name}` must be {wanted}")));
        }
        fields.insert(name.to_owned(), value);
    }
    if fields.get(CREDENTIALS_FIELD).and_then(Value::as_object).is_some_and(|it| !it.is_empty()) {
        return Err(invalid_entry(format!(
            "`{CREDENTIALS_FIELD}` must be empty: everyone can read entries; put credentials into \
             the configuration"
        )));
    }
    if let Some(id) = fields.get(ID_FIELD).and_then(Value::as_str) {
        validate_id(id)?;
    }
    Ok(fields)
}

fn is_string_list(value: &Value) -> bool {
    value.as_array().is_some_and(|all| all.iter().all(Value::is_string))
}

fn validate_id(id: &str) -> Result<(), ToolPackageError> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    if id.is_empty()
        || id.len() > MAX_ID_CHARS
        || !id.chars().all(is_valid)
        || RESERVED_IDS.contains(&id)
    {
        return Err(invalid_entry(format!(
            "`{ID_FIELD}` is 1 to {MAX_ID_CHARS} letters, digits, `_`, `.`, `:` and `-`, and neither `upload` nor `query`"
        )));
    }
    Ok(())
}

/// Completes an entry with all its fields and returns it with its id.
pub(crate) fn complete_entry(
    mut fields: Map<String, Value>,
) -> Result<(String, Map<String, Value>), ToolPackageError> {
    let mut entry = Map::new();
    for (name, holds) in FIELDS {
        let empty = || match holds {
            StringField => json!(""),
            StringList => json!([]),
            Object => json!({}),
        };
        entry.insert(name.to_owned(), fields.remove(name).unwrap_or_else(empty));
    }
    let id = entry.get(ID_FIELD).and_then(Value::as_str).unwrap_or_default().to_owned();
    validate_id(&id)?;
    if Json::encode(&entry).bytes().len() > MAX_ENTRY_BYTES {
        return Err(invalid_entry(format!("the entry has more than {MAX_ENTRY_BYTES} bytes")));
    }
    Ok((id, entry))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tool::Json;

    use super::{MAX_ENTRY_BYTES, complete_entry, parse_fields};

    fn read(entry: &Value) -> Result<Value, String> {
        let said = parse_fields(&Json::encode(entry)).map_err(|error| error.to_string())?;
        complete_entry(said)
            .map(|(_, entry)| Value::Object(entry))
            .map_err(|error| error.to_string())
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
        let long = "x".repeat(MAX_ENTRY_BYTES);
        for (entry, told) in [
            (json!([]), "an entry must be an object"),
            (json!({}), "`tool_id` is 1 to 128"),
            (json!({ "tool_id": "../x" }), "`tool_id` is 1 to 128"),
            (json!({ "tool_id": "upload" }), "`tool_id` is 1 to 128"),
            (json!({ "tool_id": 5 }), "`tool_id` must be a string"),
            (json!({ "tool_id": "t", "tool_tags": "a" }), "`tool_tags` must be a list of strings"),
            (json!({ "tool_id": "t", "tool_tags": [1] }), "`tool_tags` must be a list of strings"),
            (json!({ "tool_id": "t", "tool_settings": [] }), "`tool_settings` must be an object"),
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
