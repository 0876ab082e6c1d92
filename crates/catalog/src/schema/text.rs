//! Validates large arguments against simple schemas without building a tree.
//!
//! It knows the keywords that such tools commonly use, and leaves other schemas to the full
//! validator.

use json::{Look, Pass};
use serde_json::{Map, Value};

use super::ArgumentFault;

/// Maximum size of a value compared with those of an `enum`, in bytes.
const SHORT: usize = 1_024;

/// Annotation keywords, which do not affect validation.
const SAYS_NOTHING: [&str; 7] =
    ["$schema", "title", "description", "$comment", "default", "examples", "deprecated"];

/// Error of the streaming validation: invalid, or unsupported here.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    Fault(ArgumentFault),
    Unsure,
}

type Fits = Result<(), Trouble>;

/// Validates the next value at the pointer `at` and advances past it.
pub(super) fn fits(schema: &Value, pass: &mut Pass<'_>, at: &str) -> Fits {
    let words = match schema {
        Value::Bool(true) => {
            pass.value();
            return Ok(());
        }
        Value::Object(words) => words,
        _ => return Err(Trouble::Unsure),
    };
    for (word, value) in words {
        match word.as_str() {
            "type" => kind(value, pass, at)?,
            "enum" => among(value, pass.clone().value(), at)?,
            "minLength" | "maxLength" if pass.kind() == "string" => {
                length((word, value), pass.clone().value(), at)?;
            }
            "minimum" | "maximum" if pass.kind() == "number" => {
                number((word, value), pass.clone().value(), at)?;
            }
            word if SAYS_NOTHING.contains(&word) => {}
            // These apply to other types of values, or are checked below in one pass.
            "minLength"
            | "maxLength"
            | "minimum"
            | "maximum"
            | "properties"
            | "additionalProperties"
            | "required"
            | "items" => {}
            _ => return Err(Trouble::Unsure),
        }
    }
    let has = |word: &&str| words.contains_key(*word);
    match (pass.kind(), words.get("items")) {
        ("object", _) if ["properties", "additionalProperties", "required"].iter().any(has) => {
            members(words, pass, at)
        }
        ("array", Some(schema)) => items(schema, pass, at),
        _ => {
            pass.value();
            Ok(())
        }
    }
}

fn fault(at: &str, message: String) -> Fits {
    Err(Trouble::Fault(ArgumentFault { at: at.to_owned(), message }))
}

fn kind(wanted: &Value, pass: &Pass<'_>, at: &str) -> Fits {
    let is = |kind: &Value| match (kind.as_str(), pass.kind()) {
        (Some("integer"), "number") => {
            let text = pass.clone().value().as_str();
            text.parse::<f64>().is_ok_and(|number| number.fract() == 0.0)
        }
        (Some(kind), found) => kind == found,
        (None, _) => false,
    };
    let fine = match wanted {
        Value::Array(kinds) => kinds.iter().any(is),
        kind => is(kind),
    };
    if fine { Ok(()) } else { fault(at, format!("{} is not of type {wanted}", pass.kind())) }
}

fn among(values: &Value, text: Look<'_>, at: &str) -> Fits {
    let short = text.as_str().len() <= SHORT;
    let found: Option<Value> = serde_json::from_str(text.as_str()).ok().filter(|_| short);
    let fine = found.is_some_and(|it| values.as_array().is_some_and(|all| all.contains(&it)));
    if fine { Ok(()) } else { fault(at, format!("it is not one of {values}")) }
}

fn length((word, bound): (&str, &Value), text: Look<'_>, at: &str) -> Fits {
    let (Some(bound), Some(found)) = (bound.as_u64(), text.text()) else {
        return Err(Trouble::Unsure);
    };
    let bound = usize::try_from(bound).unwrap_or(usize::MAX);
    // Counts no more characters than needed.
    let counted = found.chars().take(bound.saturating_add(1)).count();
    match word {
        "minLength" if counted < bound => {
            fault(at, format!("it is shorter than {bound} characters"))
        }
        "maxLength" if counted > bound => {
            fault(at, format!("it is longer than {bound} characters"))
        }
        _ => Ok(()),
    }
}

fn number((word, bound): (&str, &Value), text: Look<'_>, at: &str) -> Fits {
    let (Some(bound), Ok(found)) = (bound.as_f64(), text.as_str().parse::<f64>()) else {
        return Err(Trouble::Unsure);
    };
    match word {
        "minimum" if found < bound => {
            fault(at, format!("{found} is less than the minimum of {bound}"))
        }
        "maximum" if found > bound => {
            fault(at, format!("{found} is greater than the maximum of {bound}"))
        }
        _ => Ok(()),
    }
}

/// Checks the members of an object, and that no required one is missing.
fn members(words: &Map<String, Value>, pass: &mut Pass<'_>, at: &str) -> Fits {
    let known = words.get("properties").and_then(Value::as_object);
    let others = words.get("additionalProperties");
    let required = words.get("required").and_then(Value::as_array);
    let mut missing: Vec<_> = required.into_iter().flatten().filter_map(Value::as_str).collect();
    pass.members(|pass, key| {
        missing.retain(|name| **name != *key);
        let own = known.and_then(|known| known.get(&*key));
        match own.or(others) {
            None => Ok(()),
            Some(Value::Bool(false)) => {
                let shown: String = key.chars().take(80).flat_map(char::escape_debug).collect();
                fault(at, format!("there is no parameter `{shown}`"))
            }
            Some(schema) => fits(schema, pass, "").map_err(|trouble| {
                let key = key.replace('~', "~0").replace('/', "~1");
                trouble.below(&format!("{at}/{key}"))
            }),
        }
    })?;
    match missing.first() {
        Some(name) => fault(at, format!("\"{name}\" is a required property")),
        None => Ok(()),
    }
}

fn items(schema: &Value, pass: &mut Pass<'_>, at: &str) -> Fits {
    pass.elements(|pass, place| {
        fits(schema, pass, "").map_err(|trouble| trouble.below(&format!("{at}/{place}")))
    })
}

impl Trouble {
    /// Adds a pointer prefix; it is built only for reported errors.
    fn below(self, at: &str) -> Self {
        match self {
            Self::Fault(fault) => {
                Self::Fault(ArgumentFault { at: format!("{at}{}", fault.at), ..fault })
            }
            Self::Unsure => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use json::Pass;
    use serde_json::{Value, json};
    use tool::Json;

    use super::{Trouble, fits};

    fn told(schema: &Value, args: &Value) -> Result<(), Trouble> {
        let text = Json::of(args);
        fits(schema, &mut Pass::over(&text), "")
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
        let Err(Trouble::Fault(fault)) =
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
            assert_eq!(told(&schema, &json!({"a": "b"})), Err(Trouble::Unsure), "{word}");
            assert_eq!(told(&schema, &json!({"b": "b"})), Ok(()), "{word}");
        }
    }
}
