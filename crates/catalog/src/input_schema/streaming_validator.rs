//! Validates large arguments against simple schemas without building a tree.
//!
//! It knows the keywords that such tools commonly use, and leaves other schemas to the full
//! validator.

use json::{JsonCursor, JsonRef, json_pointer};
use serde_json::{Map, Value};
use tool::display_text::truncate_and_escape_debug;

use super::ArgumentError;

/// Maximum size of a value compared with those of an `enum`, in bytes.
const MAX_ENUM_VALUE_BYTES: usize = 1_024;

/// Annotation keywords, which do not affect validation.
const ANNOTATION_KEYWORDS: [&str; 7] =
    ["$schema", "title", "description", "$comment", "default", "examples", "deprecated"];

/// Error of the streaming validation: invalid, or unsupported here.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StreamingError {
    Invalid(ArgumentError),
    Unsupported,
}

type ValidationResult = Result<(), StreamingError>;

/// Validates the next value at the pointer `pointer` and advances past it.
pub(super) fn validate_next(
    schema: &Value,
    cursor: &mut JsonCursor<'_>,
    pointer: &str,
) -> ValidationResult {
    let words = match schema {
        Value::Bool(true) => {
            cursor.next_value();
            return Ok(());
        }
        Value::Object(words) => words,
        _ => return Err(StreamingError::Unsupported),
    };
    for (word, value) in words {
        match word.as_str() {
            "type" => check_type(value, cursor, pointer)?,
            "enum" => check_enum(value, cursor.clone().next_value(), pointer)?,
            "minLength" | "maxLength" if cursor.kind() == "string" => {
                check_length((word, value), cursor.clone().next_value(), pointer)?;
            }
            "minimum" | "maximum" if cursor.kind() == "number" => {
                check_range((word, value), cursor.clone().next_value(), pointer)?;
            }
            word if ANNOTATION_KEYWORDS.contains(&word) => {}
            // These apply to other types of values, or are checked below in one pass.
            "minLength"
            | "maxLength"
            | "minimum"
            | "maximum"
            | "properties"
            | "additionalProperties"
            | "required"
            | "items" => {}
            _ => return Err(StreamingError::Unsupported),
        }
    }
    let has = |word: &&str| words.contains_key(*word);
    match (cursor.kind(), words.get("items")) {
        ("object", _) if ["properties", "additionalProperties", "required"].iter().any(has) => {
            check_members(words, cursor, pointer)
        }
        ("array", Some(schema)) => check_items(schema, cursor, pointer),
        _ => {
            cursor.next_value();
            Ok(())
        }
    }
}

fn invalid_value(at: &str, message: String) -> ValidationResult {
    Err(StreamingError::Invalid(ArgumentError { pointer: at.to_owned(), message }))
}

fn check_type(wanted: &Value, pass: &JsonCursor<'_>, at: &str) -> ValidationResult {
    let is = |kind: &Value| match (kind.as_str(), pass.kind()) {
        (Some("integer"), "number") => {
            let text = pass.clone().next_value().as_str();
            text.parse::<f64>().is_ok_and(|number| number.fract() == 0.0)
        }
        (Some(kind), found) => kind == found,
        (None, _) => false,
    };
    let fine = match wanted {
        Value::Array(kinds) => kinds.iter().any(is),
        kind => is(kind),
    };
    if fine {
        Ok(())
    } else {
        invalid_value(at, format!("{} is not of type {wanted}", pass.kind()))
    }
}

fn check_enum(values: &Value, text: JsonRef<'_>, at: &str) -> ValidationResult {
    let short = text.as_str().len() <= MAX_ENUM_VALUE_BYTES;
    let found: Option<Value> = serde_json::from_str(text.as_str()).ok().filter(|_| short);
    let fine = found.is_some_and(|it| values.as_array().is_some_and(|all| all.contains(&it)));
    if fine { Ok(()) } else { invalid_value(at, format!("it is not one of {values}")) }
}

fn check_length((word, bound): (&str, &Value), text: JsonRef<'_>, at: &str) -> ValidationResult {
    let (Some(bound), Some(found)) = (bound.as_u64(), text.string_value()) else {
        return Err(StreamingError::Unsupported);
    };
    let bound = usize::try_from(bound).unwrap_or(usize::MAX);
    // Counts no more characters than needed.
    let counted = found.chars().take(bound.saturating_add(1)).count();
    match word {
        "minLength" if counted < bound => {
            invalid_value(at, format!("it is shorter than {bound} characters"))
        }
        "maxLength" if counted > bound => {
            invalid_value(at, format!("it is longer than {bound} characters"))
        }
        _ => Ok(()),
    }
}

fn check_range((word, bound): (&str, &Value), text: JsonRef<'_>, at: &str) -> ValidationResult {
    let (Some(bound), Ok(found)) = (bound.as_f64(), text.as_str().parse::<f64>()) else {
        return Err(StreamingError::Unsupported);
    };
    match word {
        "minimum" if found < bound => {
            invalid_value(at, format!("{found} is less than the minimum of {bound}"))
        }
        "maximum" if found > bound => {
            invalid_value(at, format!("{found} is greater than the maximum of {bound}"))
        }
        _ => Ok(()),
    }
}

/// Checks the members of an object, and that no required one is missing.
fn check_members(
    words: &Map<String, Value>,
    pass: &mut JsonCursor<'_>,
    at: &str,
) -> ValidationResult {
    let known = words.get("properties").and_then(Value::as_object);
    let others = words.get("additionalProperties");
    let required = words.get("required").and_then(Value::as_array);
    let mut missing: Vec<_> = required.into_iter().flatten().filter_map(Value::as_str).collect();
    pass.for_each_member(|pass, key| {
        missing.retain(|name| **name != *key);
        let own = known.and_then(|known| known.get(&*key));
        match own.or(others) {
            None => Ok(()),
            Some(Value::Bool(false)) => {
                let shown = truncate_and_escape_debug(&key, 80);
                invalid_value(at, format!("unknown parameter `{shown}`"))
            }
            Some(schema) => validate_next(schema, pass, "").map_err(|trouble| {
                trouble.with_pointer_prefix(&json_pointer::child_pointer(at, &key))
            }),
        }
    })?;
    match missing.first() {
        Some(name) => invalid_value(at, format!("\"{name}\" is a required property")),
        None => Ok(()),
    }
}

fn check_items(schema: &Value, pass: &mut JsonCursor<'_>, at: &str) -> ValidationResult {
    pass.for_each_element(|pass, place| {
        validate_next(schema, pass, "")
            .map_err(|trouble| trouble.with_pointer_prefix(&format!("{at}/{place}")))
    })
}

impl StreamingError {
    /// Adds a pointer prefix; it is built only for reported errors.
    fn with_pointer_prefix(self, at: &str) -> Self {
        match self {
            Self::Invalid(fault) => {
                Self::Invalid(ArgumentError { pointer: format!("{at}{}", fault.pointer), ..fault })
            }
            Self::Unsupported => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use json::JsonCursor;
    use serde_json::{Value, json};
    use tool::Json;

    use super::{StreamingError, validate_next};

    fn told(schema: &Value, args: &Value) -> Result<(), StreamingError> {
        let text = Json::encode(args);
        validate_next(schema, &mut JsonCursor::from_json(&text), "")
    }

    /// Wherever it is sure, it says what the validator says.
    #[test]
    fn it_says_what_the_validator_says() {
        let row = json!({"type": "object"});
        let tables =
            json!({"type": "object", "additionalProperties": {"type": "array", "items": row}});
        let schema = json!({"type": "object", "required": ["query"], "additionalProperties": false,
            "properties": {"query": {"type": "string", "minLength": 1, "maxLength": 3}, "tables": tables,
                "n": {"type": "integer", "minimum": 1, "maximum": 9}, "w": {"enum": ["a", 1]}, "any": true}});
        let validator = jsonschema::validator_for(&schema).unwrap();
        let mut refused = 0;
        for args in [
            json!({"query": "ab"}),
            json!({"query": ""}),
            json!({"query": "größe"}),
            json!({"query": "gr\n"}),
            json!({}),
            json!([]),
            json!({"query": 1}),
            json!({"query": "a", "more": 1}),
            json!({"query": "a", "tables": {"t/~": [{}, {"a": [1]}]}}),
            json!({"query": "a", "tables": {"t/~": [{}, 1]}}),
            json!({"query": "a", "tables": {"t": {}}}),
            json!({"query": "a", "tables": []}),
            json!({"query": "a", "n": 9}),
            json!({"query": "a", "n": 10}),
            json!({"query": "a", "n": 0}),
            json!({"query": "a", "n": 2.0}),
            json!({"query": "a", "n": 2.5}),
            json!({"query": "a", "w": "a"}),
            json!({"query": "a", "w": 1}),
            json!({"query": "a", "w": "b"}),
            json!({"query": "a", "any": [null, {}]}),
        ] {
            let told = told(&schema, &args);
            assert_eq!(told.is_ok(), validator.is_valid(&args), "{args}: {told:?}");
            refused += usize::from(told.is_err());
        }
        assert_eq!(refused, 13);
        let Err(StreamingError::Invalid(fault)) =
            told(&schema, &json!({"query": "a", "tables": {"t/~": [{}, 1]}}))
        else {
            panic!()
        };
        assert_eq!(fault.to_string(), r#"`/tables/t~1~0/1`: number is not of type "object""#);
    }

    #[test]
    fn what_it_does_not_know_it_leaves() {
        for word in ["pattern", "anyOf", "format", "$ref"] {
            let schema = json!({"properties": {"a": {word: "x"}}});
            assert_eq!(
                told(&schema, &json!({"a": "b"})),
                Err(StreamingError::Unsupported),
                "{word}"
            );
            assert_eq!(told(&schema, &json!({"b": "b"})), Ok(()), "{word}");
        }
    }
}
