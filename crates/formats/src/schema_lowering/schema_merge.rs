//! Merges two schemas into one.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::schema_walker::SchemaObject;

/// The longest text about groups of arguments, in bytes.
const MAX_GROUP_TEXT_BYTES: usize = 600;

/// Estimates the size of a schema, in bytes.
pub(super) fn approximate_bytes(value: &Value) -> usize {
    match value {
        Value::Object(map) => {
            map.iter().map(|(key, value)| key.len() + 8 + approximate_bytes(value)).sum()
        }
        Value::Array(list) => list.iter().map(|value| 8 + approximate_bytes(value)).sum(),
        Value::String(text) => 8 + text.len(),
        _ => 8,
    }
}

/// Merges `other` into `map`, so that both apply. Returns the keywords in conflict, whose value in
/// `map` remains.
pub(super) fn merge_into(map: &mut SchemaObject, other: SchemaObject) -> Vec<String> {
    let mut conflicts = Vec::new();
    for (keyword, value) in other {
        let Some(old) = map.get_mut(&keyword) else {
            map.insert(keyword, value);
            continue;
        };
        if *old == value {
            continue;
        }
        match (keyword.as_str(), old, value) {
            ("properties", Value::Object(old), Value::Object(new)) => merge_properties(old, new),
            ("required" | "allOf", Value::Array(old), Value::Array(new)) => {
                for value in new {
                    if !old.contains(&value) {
                        old.push(value);
                    }
                }
            }
            _ => conflicts.push(keyword),
        }
    }
    conflicts
}

fn merge_properties(map: &mut SchemaObject, more: SchemaObject) {
    for (name, value) in more {
        match map.get_mut(&name) {
            None => {
                map.insert(name, value);
            }
            Some(old) if *old == value => {}
            Some(old) => *old = json!({ "allOf": [old.take(), value] }),
        }
    }
}

/// Adds the arguments of one alternative. Different schemas of one argument become an `anyOf`.
pub(super) fn add_alternative(map: &mut SchemaObject, variant: &SchemaObject) {
    let Some(Value::Object(more)) = variant.get("properties") else { return };
    let all = map.entry("properties").or_insert_with(|| Value::Object(SchemaObject::new()));
    let Value::Object(all) = all else { return };
    for (name, value) in more {
        let Some(old) = all.get_mut(name) else {
            all.insert(name.clone(), value.clone());
            continue;
        };
        if old == value {
            continue;
        }
        match old.as_object_mut().filter(|old| old.len() == 1).and_then(|old| old.get_mut("anyOf"))
        {
            Some(Value::Array(list)) if list.contains(value) => {}
            Some(Value::Array(list)) => list.push(value.clone()),
            _ => *old = json!({ "anyOf": [old.take(), value] }),
        }
    }
}

/// Returns the names of the required properties.
pub(super) fn required_names(map: &SchemaObject) -> BTreeSet<String> {
    let list = map.get("required").and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns the names that all groups require, and a sentence about the others.
pub(super) fn describe_required_groups(
    mut groups: Vec<BTreeSet<String>>,
) -> (Vec<String>, Option<String>) {
    let mut rest = groups.iter();
    let first = rest.next().cloned().unwrap_or_default();
    let shared = rest.fold(first, |shared, group| &shared & group);
    for group in &mut groups {
        *group = &*group - &shared;
    }
    let distinct: BTreeSet<_> = groups.iter().filter(|group| !group.is_empty()).collect();
    let text = |group: &&BTreeSet<String>| group.iter().cloned().collect::<Vec<_>>().join(", ");
    let text = distinct.iter().map(text).collect::<Vec<_>>().join("; or: ");
    let shared = shared.into_iter().collect();
    let has_note = !text.is_empty() && text.len() <= MAX_GROUP_TEXT_BYTES;
    (shared, has_note.then(|| format!("arguments that belong together: {text}")))
}

/// Adds names to the list of required properties.
pub(super) fn add_required(map: &mut SchemaObject, names: &[String]) {
    if names.is_empty() {
        return;
    }
    let list = map.entry("required").or_insert_with(|| Value::Array(Vec::new()));
    let Value::Array(list) = list else { return };
    for name in names {
        let name = Value::String(name.clone());
        if !list.contains(&name) {
            list.push(name);
        }
    }
}
