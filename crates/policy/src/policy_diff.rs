//! Changes between two policies, rule by rule.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use tool::Json;

use crate::PolicyDocument;

/// One change of a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PolicyChange {
    /// Path such as `roles.worker.deny`, followed by a rule's name.
    pub path: String,
    /// Value before the change; absent if it was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "was")]
    pub before: Option<String>,
    /// Value after the change; absent if it was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "is")]
    pub after: Option<String>,
}

/// Lists the changes from `before` to `after` by path. The order within a list does not count.
pub fn diff_documents(before: &PolicyDocument, after: &PolicyDocument) -> Vec<PolicyChange> {
    let (before, after) = (flatten_document(before), flatten_document(after));
    let gone = before.iter().filter(|(path, was)| after.get(*path) != Some(was));
    let mut changes: BTreeMap<&String, PolicyChange> = BTreeMap::new();
    for (path, was) in gone {
        let is = after.get(path).cloned();
        changes.insert(
            path,
            PolicyChange { path: path.clone(), before: Some(was.clone()), after: is },
        );
    }
    for (path, is) in after.iter().filter(|(path, _)| !before.contains_key(*path)) {
        changes.insert(
            path,
            PolicyChange { path: path.clone(), before: None, after: Some(is.clone()) },
        );
    }
    changes.into_values().collect()
}

fn flatten_document(rules: &PolicyDocument) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    flatten_value(&Json::encode(rules).to_value(), String::new(), &mut all);
    all
}

fn flatten_value(value: &Value, path: String, all: &mut BTreeMap<String, String>) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (name, field) in fields {
                let below = match path.as_str() {
                    "" => name.clone(),
                    above => format!("{above}.{name}"),
                };
                // Global rules are at the top level of the file.
                flatten_value(field, below.trim_start_matches("global.").to_owned(), all);
            }
        }
        Value::Array(items) => {
            // An empty list differs from an absent one.
            all.insert(path.clone(), format!("{} in all", items.len()));
            for item in items {
                // Patterns identify themselves; rules have names.
                let name = item.get("name").or_else(|| item.get("text"));
                match (name.and_then(Value::as_str), item) {
                    (Some(name), Value::Object(fields)) if fields.len() > 2 => {
                        flatten_value(item, format!("{path}[{name}]"), all);
                    }
                    (Some(name), _) => drop(all.insert(format!("{path}[{name}]"), name.to_owned())),
                    (None, Value::String(text)) => {
                        all.insert(format!("{path}[{text}]"), text.clone());
                    }
                    (None, other) => {
                        all.insert(format!("{path}[{other}]"), other.to_string());
                    }
                }
            }
        }
        scalar => {
            all.insert(path, scalar.as_str().map_or_else(|| scalar.to_string(), str::to_owned));
        }
    }
}
