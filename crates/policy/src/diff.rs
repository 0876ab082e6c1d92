//! Changes between two policies, rule by rule.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use tool::Json;

use crate::Rules;

/// One change of a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Path such as `roles.worker.deny`, followed by a rule's name.
    pub path: String,
    /// Value before the change; absent if it was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub was: Option<String>,
    /// Value after the change; absent if it was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is: Option<String>,
}

/// Lists the changes from `before` to `after` by path. The order within a list does not count.
pub fn diff(before: &Rules, after: &Rules) -> Vec<Change> {
    let (before, after) = (leaves(before), leaves(after));
    let gone = before.iter().filter(|(path, was)| after.get(*path) != Some(was));
    let mut changes: BTreeMap<&String, Change> = BTreeMap::new();
    for (path, was) in gone {
        let is = after.get(path).cloned();
        changes.insert(path, Change { path: path.clone(), was: Some(was.clone()), is });
    }
    for (path, is) in after.iter().filter(|(path, _)| !before.contains_key(*path)) {
        changes.insert(path, Change { path: path.clone(), was: None, is: Some(is.clone()) });
    }
    changes.into_values().collect()
}

fn leaves(rules: &Rules) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    walk(&Json::of(rules).value(), String::new(), &mut all);
    all
}

fn walk(value: &Value, path: String, all: &mut BTreeMap<String, String>) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (name, field) in fields {
                let below = match path.as_str() {
                    "" => name.clone(),
                    above => format!("{above}.{name}"),
                };
                // Global rules stand at the top level of the file.
                walk(field, below.trim_start_matches("global.").to_owned(), all);
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
                        walk(item, format!("{path}[{name}]"), all);
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
