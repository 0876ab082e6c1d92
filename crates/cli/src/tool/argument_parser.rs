//! Parsing of typed arguments: `key=value` by the type in the tool's schema, and `key:=JSON`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::sanitize_text;

/// Maximum number of keys named in an error.
const MAX_NAMED_KEYS: usize = 12;
/// Maximum depth to which references in a schema are followed.
const MAX_REFERENCE_DEPTH: usize = 16;

/// Parses the typed arguments into one JSON object.
pub(super) fn parse_arguments(
    assignments: &[String],
    schema: &Value,
) -> Result<Value, CommandError> {
    let mut arguments = Map::new();
    for word in assignments {
        let (key, value) = parse_argument(word, schema)?;
        if arguments.insert(key.to_owned(), value).is_some() {
            return Err(usage_error(format!("`{key}` is given twice")));
        }
    }
    Ok(Value::Object(arguments))
}

fn parse_argument<'a>(word: &'a str, schema: &Value) -> Result<(&'a str, Value), CommandError> {
    let Some((key, text)) = word.split_once('=').filter(|(key, _)| !matches!(*key, "" | ":"))
    else {
        let message = format!("`{word}` is not an argument");
        return Err(usage_error(message).with_help(usage_help(schema)));
    };
    if let Some(key) = key.strip_suffix(':') {
        return Ok((key, parse_json(key, text, "JSON")?));
    }
    let property = schema.get("properties").and_then(|all| all.get(key));
    let mut kinds = BTreeSet::new();
    if let Some(property) = property {
        collect_types(property, schema, MAX_REFERENCE_DEPTH, &mut kinds);
    }
    // A key without a known type is a string.
    if kinds.is_empty() || kinds.contains("string") {
        return Ok((key, Value::String(text.to_owned())));
    }
    let expected = kinds.iter().copied().collect::<Vec<_>>().join(" or ");
    let value = parse_json(key, text, &expected)?;
    if kinds.iter().any(|kind| has_type(&value, kind)) {
        return Ok((key, value));
    }
    Err(usage_error(format!("`{key}` must be {expected}, and `{text}` is not")))
}

/// Explains the argument syntax and the keys of this tool.
fn usage_help(schema: &Value) -> String {
    let form = "use `key=value`, `key:=JSON`, or `--arguments JSON`";
    let all = schema.get("properties").and_then(Value::as_object);
    let keys: Vec<_> = all.into_iter().flat_map(Map::keys).take(MAX_NAMED_KEYS).collect();
    let keys: Vec<_> = keys.iter().map(|key| format!("`{}`", sanitize_text(key))).collect();
    if keys.is_empty() { form.to_owned() } else { format!("{form}; keys: {}", keys.join(", ")) }
}

fn parse_json(key: &str, text: &str, expected: &str) -> Result<Value, CommandError> {
    serde_json::from_str(text).map_err(|_| {
        let failure = usage_error(format!("`{key}` must be {expected}, and `{text}` is not"));
        // A number or boolean contains nothing that a shell changes.
        let is_plain = expected.split(" or ").all(|kind| SHELL_SAFE_TYPES.contains(&kind));
        if is_plain {
            failure
        } else {
            failure.with_help("quote JSON for the shell: `key='[1, 2]'`")
        }
    })
}

/// Types whose values need no shell quoting.
const SHELL_SAFE_TYPES: [&str; 4] = ["boolean", "integer", "null", "number"];

fn usage_error(message: String) -> CommandError {
    CommandError::new(ExitStatus::UsageError, message)
}

/// Collects the types that a schema allows, through references and alternatives.
fn collect_types<'a>(
    schema: &'a Value,
    root: &'a Value,
    depth: usize,
    kinds: &mut BTreeSet<&'a str>,
) {
    if depth == 0 {
        return;
    }
    match schema.get("type") {
        Some(Value::String(kind)) => {
            kinds.insert(kind);
        }
        Some(Value::Array(all)) => kinds.extend(all.iter().filter_map(Value::as_str)),
        _ => {}
    }
    let written = schema
        .get("const")
        .into_iter()
        .chain(schema.get("enum").and_then(Value::as_array).into_iter().flatten());
    for value in written {
        kinds.insert(json_type(value));
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        let parts = schema.get(key).and_then(Value::as_array).into_iter().flatten();
        for part in parts {
            collect_types(part, root, depth - 1, kinds);
        }
    }
    let reference = schema.get("$ref").and_then(Value::as_str).and_then(|at| at.strip_prefix('#'));
    if let Some(target) = reference.and_then(|pointer| root.pointer(pointer)) {
        collect_types(target, root, depth - 1, kinds);
    }
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn has_type(value: &Value, kind: &str) -> bool {
    match kind {
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        kind => json_type(value) == kind,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::parse_arguments;

    fn schema() -> Value {
        json!({
            "properties": {
                "text": { "type": "string" },
                "count": { "type": "integer" },
                "ratio": { "type": "number" },
                "on": { "type": "boolean" },
                "list": { "type": "array" },
                "map": { "type": "object" },
                "maybe": { "type": ["integer", "null"] },
                "either": { "anyOf": [{ "type": "string" }, { "type": "integer" }] },
                "linked": { "$ref": "#/$defs/Linked" },
                "loop": { "$ref": "#/properties/loop" },
                "word": { "enum": ["a", "b"] },
                "any": {},
            },
            "$defs": { "Linked": { "oneOf": [{ "type": "integer" }, { "type": "boolean" }] } },
        })
    }

    fn typed(word: &str) -> Result<Value, String> {
        let (key, _) = word.split_once(['=', ':']).unwrap();
        let mut all = parse_arguments(&[word.to_owned()], &schema())
            .map_err(|failure| failure.to_string())?;
        Ok(all[key].take())
    }

    #[test]
    fn values_take_the_kind_that_the_schema_says() {
        for (word, value) in [
            ("text=5", json!("5")),
            ("text=a=b", json!("a=b")),
            ("text=", json!("")),
            ("count=5", json!(5)),
            ("count=-3", json!(-3)),
            ("ratio=0.5", json!(0.5)),
            ("on=true", json!(true)),
            ("list=[1, 2]", json!([1, 2])),
            ("map={\"a\": 1}", json!({ "a": 1 })),
            ("maybe=null", json!(null)),
            ("either=5", json!("5")),
            ("either:=5", json!(5)),
            ("linked=true", json!(true)),
            ("linked=7", json!(7)),
            ("word=a", json!("a")),
            ("any=5", json!("5")),
            ("any:={\"a\":[]}", json!({ "a": [] })),
            ("unknown=5", json!("5")),
            ("loop=5", json!("5")),
        ] {
            assert_eq!(typed(word).unwrap(), value, "{word}");
        }
    }

    /// With `b=x` for a number, quotes were advised that change nothing.
    #[test]
    fn quotes_are_advised_where_a_shell_would_change_what_was_typed_and_nowhere_else() {
        let schema = json!({ "properties": {
            "a": { "type": "integer" }, "b": { "type": "integer" }, "on": { "type": "boolean" },
            "ratio": { "type": ["number", "null"] }, "list": { "type": "array" },
            "map": { "type": ["object", "integer"] },
        } });
        let told =
            |word: &str| parse_arguments(&[word.to_owned()], &schema).unwrap_err().render_text();
        assert_eq!(told("b=x"), "error: `b` must be integer, and `x` is not");
        for (word, advises) in [
            ("b=x", false),
            ("on=yes", false),
            ("ratio=much", false),
            ("list=a,b", true),
            ("map={a:1}", true),
            ("b:={x}", true),
        ] {
            assert_eq!(told(word).contains("quote JSON for the shell"), advises, "{word}");
        }
    }

    #[test]
    fn what_does_not_fit_is_told() {
        for (word, message) in [
            ("count=many", "`count` must be integer, and `many` is not"),
            ("count=1.5", "`count` must be integer, and `1.5` is not"),
            ("on=yes", "`on` must be boolean, and `yes` is not"),
            ("list=a,b", "`list` must be array, and `a,b` is not"),
            ("linked=x", "`linked` must be boolean or integer, and `x` is not"),
            ("any:=x", "`any` must be JSON, and `x` is not"),
        ] {
            assert_eq!(typed(word).unwrap_err(), message, "{word}");
        }
        for word in ["text", "=x", ":=x"] {
            assert!(parse_arguments(&[word.to_owned()], &schema()).is_err(), "{word}");
        }
        let twice = ["text=a".to_owned(), "text=b".to_owned()];
        assert_eq!(
            parse_arguments(&twice, &schema()).unwrap_err().to_string(),
            "`text` is given twice"
        );
    }
}
