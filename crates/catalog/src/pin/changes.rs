//! Differences between two definitions as JSON pointers, for a reviewer.

use serde::Serialize;
use serde_json::Value;
use tool::Json;

/// Maximum number of reported changes; the rest is counted.
const PLACES: usize = 100;

/// One change between two definitions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// JSON pointer to the changed value; empty for the whole definition.
    pub at: String,
    /// Value before the change; absent if it was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// Value after the change; absent if it was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// Compares two definitions. Key order does not count; numbers are compared as written. Returns at
/// most 100 changes and the number of further ones.
pub fn between(before: &Json, after: &Json) -> (Vec<Difference>, usize) {
    let mut found = Found { list: Vec::new(), more: 0 };
    found.compare(String::new(), (Some(&before.value()), Some(&after.value())));
    (found.list, found.more)
}

struct Found {
    list: Vec<Difference>,
    more: usize,
}

impl Found {
    fn compare(&mut self, at: String, (before, after): (Option<&Value>, Option<&Value>)) {
        match (before, after) {
            (Some(Value::Object(old)), Some(Value::Object(new))) => {
                for (key, value) in old {
                    self.compare(below(&at, key), (Some(value), new.get(key)));
                }
                for (key, value) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
                    self.compare(below(&at, key), (None, Some(value)));
                }
            }
            (Some(Value::Array(old)), Some(Value::Array(new))) => {
                for index in 0..old.len().max(new.len()) {
                    let pair = (old.get(index), new.get(index));
                    self.compare(below(&at, &index.to_string()), pair);
                }
            }
            (before, after) if before.map(Value::to_string) == after.map(Value::to_string) => {}
            (before, after) if self.list.len() < PLACES => {
                let (before, after) = (before.cloned(), after.cloned());
                self.list.push(Difference { at, before, after });
            }
            _ => self.more += 1,
        }
    }
}

fn below(at: &str, key: &str) -> String {
    format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::{Json, Limits};

    use super::between;

    fn told(before: &str, after: &str) -> Vec<String> {
        let json = |text: &str| Json::check(text.to_owned(), Limits::DEFINITION).unwrap();
        let (list, more) = between(&json(before), &json(after));
        assert_eq!(more, 0);
        list.iter().map(|one| format!("{} {:?} {:?}", one.at, one.before, one.after)).collect()
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
        let (list, more) = between(&Json::of(&json!([])), &Json::of(&many));
        assert_eq!((list.len(), more), (100, 900));
    }
}
