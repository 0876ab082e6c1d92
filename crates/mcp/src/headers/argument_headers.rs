//! Tool arguments that an input schema maps to headers with `x-mcp-header`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{PARAM_PREFIX, decode_value, encode_value};

/// Schema keyword that maps an argument to a header.
const ANNOTATION: &str = "x-mcp-header";
/// Maximum nesting depth of properties that is searched.
const MAX_DEPTH: usize = 32;

/// The arguments of one tool that are repeated in headers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArgumentHeaders {
    arguments: Vec<ArgumentHeader>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ArgumentHeader {
    /// Path of property names from the root of the arguments.
    path: Vec<String>,
    /// Full header name in lower case.
    header: String,
}

/// Error: a header does not match the body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HeaderMismatch(pub String);

impl ArgumentHeaders {
    /// Reads the annotations of an input schema.
    ///
    /// # Errors
    /// Describes the first invalid annotation; a tool with an invalid annotation must not be
    /// offered.
    pub fn from_schema(schema: &Value) -> Result<Self, String> {
        let mut argument_headers = Self::default();
        let Value::Object(root) = schema else { return Ok(argument_headers) };
        if root.contains_key(ANNOTATION) {
            return Err(format!("`{ANNOTATION}` is only allowed at a property, not at the root"));
        }
        if has_misplaced_annotation(root, true, MAX_DEPTH) {
            return Err(format!(
                "`{ANNOTATION}` is only allowed at arguments that are reachable through \
                 `properties`"
            ));
        }
        argument_headers.collect_annotations(root, &mut Vec::new())?;
        let mut seen = BTreeSet::new();
        match argument_headers.arguments.iter().find(|param| !seen.insert(&param.header)) {
            Some(twice) => Err(format!("two arguments use the header `{}`", twice.header)),
            None => Ok(argument_headers),
        }
    }

    /// Returns whether no argument is mapped to a header.
    pub fn is_empty(&self) -> bool {
        self.arguments.is_empty()
    }

    /// Returns the headers of a call: lower-case names and encoded values. Absent and null
    /// arguments have none.
    pub fn to_headers(&self, args: &Value) -> Vec<(String, String)> {
        let header = |param: &ArgumentHeader| {
            let value = scalar_text(param.find_value(args)?)?;
            Some((param.header.clone(), encode_value(&value).into_owned()))
        };
        self.arguments.iter().filter_map(header).collect()
    }

    /// Verifies that the headers of a call agree with its arguments. `header` looks up a header by
    /// its lower-case name.
    ///
    /// # Errors
    /// [`HeaderMismatch`] that names the header.
    pub fn verify_headers<'h>(
        &self,
        args: &Value,
        header: impl Fn(&str) -> Result<Option<&'h str>, HeaderMismatch>,
    ) -> Result<(), HeaderMismatch> {
        for param in &self.arguments {
            let name = &param.header;
            let mismatch = |what: &str| Err(HeaderMismatch(format!("the header `{name}` {what}")));
            let expected = param.find_value(args).and_then(scalar_text);
            match (header(name)?, expected) {
                (None, None) => {}
                (None, Some(_)) => return mismatch("is missing"),
                (Some(_), None) => return mismatch("belongs to an argument that is missing"),
                (Some(found), Some(wanted)) => match decode_value(found) {
                    None => return mismatch("is not valid Base64"),
                    Some(found) if !is_equal_value(&found, &wanted, param.find_value(args)) => {
                        return mismatch("does not match the arguments");
                    }
                    Some(_) => {}
                },
            }
        }
        Ok(())
    }

    fn collect_annotations(
        &mut self,
        schema: &Map<String, Value>,
        path: &mut Vec<String>,
    ) -> Result<(), String> {
        let Some(Value::Object(properties)) = schema.get("properties") else { return Ok(()) };
        for (name, property) in properties {
            let Value::Object(property) = property else { continue };
            path.push(name.clone());
            if let Some(mark) = property.get(ANNOTATION) {
                let header = parse_header_name(mark, property)
                    .map_err(|why| format!("`{ANNOTATION}` of `{}` {why}", path.join(".")))?;
                self.arguments.push(ArgumentHeader { path: path.clone(), header });
            }
            if path.len() < MAX_DEPTH {
                self.collect_annotations(property, path)?;
            }
            path.pop();
        }
        Ok(())
    }
}

impl ArgumentHeader {
    fn find_value<'a>(&self, args: &'a Value) -> Option<&'a Value> {
        self.path.iter().try_fold(args, |value, key| value.get(key))
    }
}

fn parse_header_name(
    annotation: &Value,
    property: &Map<String, Value>,
) -> Result<String, &'static str> {
    let Value::String(mark) = annotation else { return Err("is not a string") };
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if mark.is_empty() || mark.len() > 128 || !mark.bytes().all(token) {
        return Err("is not a valid header name");
    }
    match property.get("type").and_then(Value::as_str) {
        Some("string" | "integer" | "boolean") => {
            Ok(format!("{PARAM_PREFIX}{}", mark.to_ascii_lowercase()))
        }
        _ => Err("is only allowed at an argument of the type string, integer or boolean"),
    }
}

/// Returns whether the annotation occurs anywhere except on a chain of `properties` from the root.
fn has_misplaced_annotation(schema: &Map<String, Value>, on_chain: bool, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    let in_value = |value: &Value, on_chain: bool| match value {
        Value::Object(inner) => has_misplaced_annotation(inner, on_chain, depth),
        Value::Array(items) => items
            .iter()
            .filter_map(Value::as_object)
            .any(|inner| has_misplaced_annotation(inner, false, depth)),
        _ => false,
    };
    let in_each = |map: &Value, on_chain: bool| {
        map.as_object().is_some_and(|map| map.values().any(|value| in_value(value, on_chain)))
    };
    schema.iter().any(|(key, value)| match key.as_str() {
        ANNOTATION => !on_chain,
        "properties" => in_each(value, on_chain),
        "$defs" | "definitions" | "dependentSchemas" | "patternProperties" => in_each(value, false),
        // These keywords hold data, not schemas.
        "default" | "const" | "enum" | "examples" => false,
        _ => in_value(value, false),
    })
}

fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    }
}

/// Compares numbers by value: `42.0` equals `42`.
fn is_equal_value(found: &str, expected: &str, value: Option<&Value>) -> bool {
    let number = value.and_then(Value::as_f64).zip(found.parse::<f64>().ok());
    found == expected || number.is_some_and(|(a, b)| a.total_cmp(&b).is_eq())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{ArgumentHeaders, HeaderMismatch};

    fn schema(properties: &Value) -> Value {
        json!({"type": "object", "properties": properties})
    }

    #[test]
    fn annotated_arguments_become_headers() {
        let mirror = ArgumentHeaders::from_schema(&schema(&json!({
            "region": {"type": "string", "x-mcp-header": "Region"},
            "n": {"type": "integer", "x-mcp-header": "N"},
            "on": {"type": "boolean", "x-mcp-header": "On"},
            "in": {"type": "object", "properties": {"x": {"type": "string", "x-mcp-header": "X"}}},
            "plain": {"type": "string"},
        })))
        .unwrap();
        let args = json!({"region": "é", "n": 42, "on": null, "in": {"x": "a b"}, "plain": "p"});
        let headers = mirror.to_headers(&args);
        let expected = [
            ("mcp-param-region", "=?base64?w6k=?="),
            ("mcp-param-n", "42"),
            ("mcp-param-x", "a b"),
        ];
        assert_eq!(headers, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
        let sent = |name: &str| {
            Ok(headers.iter().find(|(sent, _)| sent == name).map(|(_, value)| value.as_str()))
        };
        assert_eq!(mirror.verify_headers(&args, sent), Ok(()));
    }

    #[test]
    fn what_disagrees_is_told() {
        let mirror = ArgumentHeaders::from_schema(&schema(
            &json!({"n": {"type": "integer", "x-mcp-header": "N"}}),
        ));
        let mirror = mirror.unwrap();
        let check = |args: &Value, header: Option<&'static str>| {
            mirror.verify_headers(args, |_| Ok(header)).map_err(|HeaderMismatch(why)| why)
        };
        assert_eq!(check(&json!({"n": 42}), Some("42.0")), Ok(()));
        assert_eq!(check(&json!({"n": null}), None), Ok(()));
        let told = |what: &str| Err(format!("the header `mcp-param-n` {what}"));
        assert_eq!(check(&json!({"n": 1}), None), told("is missing"));
        assert_eq!(check(&json!({"n": 1}), Some("2")), told("does not match the arguments"));
        assert_eq!(check(&json!({}), Some("2")), told("belongs to an argument that is missing"));
        assert_eq!(check(&json!({"n": 1}), Some("=?base64?%?=")), told("is not valid Base64"));
    }

    #[test]
    fn annotations_that_do_not_hold_are_refused() {
        let text = json!({"type": "string", "x-mcp-header": "A"});
        for bad in [
            schema(&json!({"a": {"type": "string", "x-mcp-header": ""}})),
            schema(&json!({"a": {"type": "string", "x-mcp-header": "a b"}})),
            schema(&json!({"a": {"type": "string", "x-mcp-header": "a\r\nX: 1"}})),
            schema(&json!({"a": {"type": "string", "x-mcp-header": 7}})),
            schema(&json!({"a": {"type": "object", "x-mcp-header": "A"}})),
            schema(&json!({"a": {"x-mcp-header": "A"}})),
            schema(&json!({"a": {"type": "number", "x-mcp-header": "A"}})),
            schema(&json!({"a": text, "b": {"type": "string", "x-mcp-header": "a"}})),
            schema(&json!({"a": {"type": "array", "items": text}})),
            schema(&json!({"a": {"anyOf": [text]}})),
            json!({"type": "object", "$defs": {"a": text}}),
            json!({"type": "object", "x-mcp-header": "A"}),
        ] {
            assert!(ArgumentHeaders::from_schema(&bad).is_err(), "{bad}");
        }
        let data = schema(&json!({"a": {"type": "object", "default": {"x-mcp-header": "A"}}}));
        assert!(ArgumentHeaders::from_schema(&data).unwrap().is_empty());
        assert!(ArgumentHeaders::from_schema(&json!(true)).unwrap().is_empty());
    }
}
