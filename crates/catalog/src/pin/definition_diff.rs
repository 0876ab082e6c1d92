//! Differences between two definitions as JSON pointers, for a reviewer.

use json::json_pointer::child_pointer;
use serde::Serialize;
use serde_json::Value;
use tool::Json;

/// Maximum number of reported changes; the rest is counted.
const MAX_CHANGES: usize = 100;

/// One change between two definitions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DefinitionChange {
    /// JSON pointer to the changed value; empty for the whole definition.
    #[serde(rename = "at")]
    pub pointer: String,
    /// Value before the change; absent if it was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// Value after the change; absent if it was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// Compares two definitions. Key order does not count; numbers are compared as written. Returns at
/// most 100 changes and the number of further ones.
pub fn diff_definitions(before: &Json, after: &Json) -> (Vec<DefinitionChange>, usize) {
    let mut found = DiffCollector { changes: Vec::new(), omitted_count: 0 };
    found.compare_values(String::new(), (Some(&before.to_value()), Some(&after.to_value())));
    (found.changes, found.omitted_count)
}

struct DiffCollector {
    changes: Vec<DefinitionChange>,
    omitted_count: usize,
}

impl DiffCollector {
    fn compare_values(&mut self, at: String, (before, after): (Option<&Value>, Option<&Value>)) {
        match (before, after) {
            (Some(Value::Object(old)), Some(Value::Object(new))) => {
                for (key, value) in old {
                    self.compare_values(child_pointer(&at, key), (Some(value), new.get(key)));
                }
                for (key, value) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
                    self.compare_values(child_pointer(&at, key), (None, Some(value)));
                }
            }
            (Some(Value::Array(old)), Some(Value::Array(new))) => {
                for index in 0..old.len().max(new.len()) {
                    let pair = (old.get(index), new.get(index));
                    self.compare_values(child_pointer(&at, &index.to_string()), pair);
                }
            }
            (before, after) if before.map(Value::to_string) == after.map(Value::to_string) => {}
            (before, after) if self.changes.len() < MAX_CHANGES => {
                let (before, after) = (before.cloned(), after.cloned());
                self.changes.push(DefinitionChange { pointer: at, before, after });
            }
            _ => self.omitted_count += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::{Json, JsonLimits};

    use super::diff_definitions;

    fn told(before: &str, after: &str) -> Vec<String> {
        let json = |text: &str| Json::parse(text.to_owned(), JsonLimits::DEFINITION).unwrap();
        let (list, more) = diff_definitions(&json(before), &json(after));
        assert_eq!(more, 0);
        list.iter().map(|one| format!("{} {:?} {:?}", one.pointer, one.before, one.after)).collect()
    }

    #[test]
    fn a_difference_has_its_place() {
        assert_eq!(told(r#"{"a":1,"b":[1,2]}"#, r#"{"b":[1,2],"a":1}"#), [""; 0]);
        let found =
            told(r#"{"a":{"x/y":1},"b":[1,2],"c":1}"#, r#"{"a":{"x/y":1.0},"b":[1],"d":2}"#);
        assert_eq!(
            found,
            [
                "/a/x~1y Some(Number(1)) Some(Number(1.0))",
                "/b/1 Some(Number(2)) None",
                "/c Some(Number(1)) None",
                "/d None Some(Number(2))"
            ]
        );
    }

    #[test]
    fn differences_have_a_bound() {
        let many: Vec<_> = (0..1_000).collect();
        let (list, more) = diff_definitions(&Json::encode(&json!([])), &Json::encode(&many));
        assert_eq!((list.len(), more), (100, 900));
    }
}
