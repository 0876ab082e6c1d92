//! Headers of 2026-07-28 that say again what the body says: `Mcp-Method`, `Mcp-Name` and, for the
//! arguments a tool's schema marks with `x-mcp-header`, `Mcp-Param-*`.

use std::collections::HashSet;

use http::{HeaderName, HeaderValue};
use serde_json::Value;
use tool::Json;

use super::request::{Outgoing, Params};

/// The keyword in a schema.
const MARK: &str = "x-mcp-header";
/// Headers of one tool.
const MOST: usize = 64;

/// A header and its value.
pub(super) type Header = (HeaderName, HeaderValue);

/// The headers every request has.
pub(super) fn standard(request: &Outgoing<'_>) -> Vec<Header> {
    let mut headers = Vec::with_capacity(4);
    if let Some(value) = encoded(request.method) {
        headers.push((HeaderName::from_static("mcp-method"), value));
    }
    let named = match (&request.params, request.method) {
        (Params::Tool(name, _), _) => name.read::<String>().ok(),
        (Params::Whole(params), "prompts/get") => text(params, "name"),
        (Params::Whole(params), "resources/read") => text(params, "uri"),
        (Params::Whole(_), _) => None,
    };
    if let Some(value) = named.and_then(|name| encoded(&name)) {
        headers.push((HeaderName::from_static("mcp-name"), value));
    }
    headers
}

fn text(params: &Json, key: &str) -> Option<String> {
    params.get(key)?.read().ok()
}

/// The arguments of one tool that stand in headers too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Mirrored(Vec<(Vec<String>, HeaderName)>);

impl Mirrored {
    /// Of a tool's input schema.
    ///
    /// # Errors
    /// What is wrong with a mark; such a tool is not to be called (2026-07-28).
    pub(super) fn of(schema: &Json) -> Result<Self, String> {
        if !schema.as_str().contains(MARK) {
            return Ok(Self::default());
        }
        let schema = schema.value();
        if stray(&schema, true) {
            return Err(format!("`{MARK}` stands where no property of the arguments is"));
        }
        let mut found = Vec::new();
        collect(&schema, &mut Vec::new(), &mut found)?;
        let mut names = HashSet::new();
        if let Some((_, twice)) = found.iter().find(|(_, name)| !names.insert(name.clone())) {
            return Err(format!("`{MARK}` names `{twice}` twice"));
        }
        if found.len() > MOST {
            return Err(format!("`{MARK}` marks more than {MOST} properties"));
        }
        Ok(Self(found))
    }

    /// Adds the headers for these arguments.
    pub(super) fn add_to(&self, headers: &mut Vec<Header>, args: &Json) {
        for (path, name) in &self.0 {
            let found = path.iter().try_fold(args.clone(), |json, key| json.get(key));
            let Some(found) = found else { continue };
            let value = match found.kind() {
                "string" => found.read::<String>().ok(),
                "number" | "boolean" => Some(found.as_str().trim().to_owned()),
                _ => None,
            };
            if let Some(value) = value.and_then(|value| encoded(&value)) {
                headers.push((name.clone(), value));
            }
        }
    }
}

fn collect(
    schema: &Value,
    path: &mut Vec<String>,
    found: &mut Vec<(Vec<String>, HeaderName)>,
) -> Result<(), String> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Ok(());
    };
    for (key, schema) in properties {
        path.push(key.clone());
        if let Some(mark) = schema.get(MARK) {
            found.push((path.clone(), header(mark, schema)?));
        }
        collect(schema, path, found)?;
        path.pop();
    }
    Ok(())
}

fn header(mark: &Value, schema: &Value) -> Result<HeaderName, String> {
    let name = mark.as_str().filter(|name| !name.is_empty());
    let name = name.and_then(|name| HeaderName::try_from(format!("mcp-param-{name}")).ok());
    let name = name.ok_or_else(|| {
        format!(
            "`{MARK}` is `{}`, no name of a header",
            super::wording::shown(&mark.to_string(), 60)
        )
    })?;
    match schema.get("type").and_then(Value::as_str) {
        Some("string" | "integer" | "boolean") => Ok(name),
        _ => Err(format!("`{MARK}` marks what is neither a string, an integer nor a boolean")),
    }
}

/// Whether a mark stands anywhere but at a property that is reached by `properties` alone.
fn stray(schema: &Value, chained: bool) -> bool {
    let Value::Object(schema) = schema else {
        return schema.as_array().is_some_and(|all| all.iter().any(|one| stray(one, false)));
    };
    let each = |map: &Value, chained: bool| {
        map.as_object().is_some_and(|map| map.values().any(|schema| stray_at(schema, chained)))
    };
    schema.iter().any(|(key, value)| match key.as_str() {
        MARK => true,
        "properties" => each(value, chained),
        "$defs" | "definitions" | "dependentSchemas" | "patternProperties" => each(value, false),
        // Data, no schemas.
        "default" | "const" | "enum" | "examples" => false,
        _ => stray(value, false),
    })
}

fn stray_at(schema: &Value, chained: bool) -> bool {
    match schema {
        Value::Object(members) if chained => {
            let mut members = members.clone();
            members.remove(MARK);
            stray(&Value::Object(members), true)
        }
        other => stray(other, false),
    }
}

/// As it travels: plain where a header can carry it, or else as `=?base64?…?=`.
fn encoded(value: &str) -> Option<HeaderValue> {
    let blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let bytes = value.as_bytes();
    let visible = bytes.iter().all(|byte| (0x20..=0x7e).contains(byte));
    let marked = value.starts_with("=?base64?") && value.ends_with("?=");
    if !visible || marked || blank(bytes.first()) || blank(bytes.last()) {
        return HeaderValue::try_from(format!("=?base64?{}?=", base64(bytes))).ok();
    }
    HeaderValue::from_str(value).ok()
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for part in bytes.chunks(3) {
        let all = part.iter().fold(0_u32, |all, byte| all << 8 | u32::from(*byte));
        let all = all << (8 * (3 - part.len()));
        for place in 0..4 {
            let letter = LETTERS.get((all >> (18 - 6 * place)) as usize & 63);
            let padded = place > part.len();
            text.push(letter.filter(|_| !padded).map_or('=', |letter| char::from(*letter)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::Json;

    use super::{Mirrored, base64, encoded};

    fn of(schema: &serde_json::Value) -> Result<Mirrored, String> {
        Mirrored::of(&Json::of(schema))
    }

    #[test]
    fn marked_arguments_stand_in_headers() {
        let marked = |kind, name| json!({"type": kind, "x-mcp-header": name});
        let schema = json!({"type": "object", "properties": {
            "region": marked("string", "Region"), "n": marked("integer", "N"), "plain": {"type": "string"},
            "in": {"type": "object", "properties": {"flag": marked("boolean", "Flag"), "gone": marked("string", "Gone")}},
            "enum": {"enum": [{"x-mcp-header": "data"}]},
        }});
        let mut headers = Vec::new();
        let args = json!({"region": " é", "n": 12_345_678_901_234_567_u64, "plain": "x", "in": {"flag": true}});
        of(&schema).unwrap().add_to(&mut headers, &Json::of(&args));
        let told: Vec<_> =
            headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(
            told,
            [
                ("mcp-param-region", "=?base64?IMOp?="),
                ("mcp-param-n", "12345678901234567"),
                ("mcp-param-flag", "true")
            ]
        );
    }

    #[test]
    fn marks_that_do_not_hold_are_refused() {
        let property = |schema| json!({"properties": {"a": schema}});
        for (schema, part) in [
            (json!({"x-mcp-header": "A"}), "no property"),
            (property(json!({"type": "string", "x-mcp-header": ""})), "no name"),
            (property(json!({"type": "string", "x-mcp-header": 7})), "no name"),
            (property(json!({"type": "string", "x-mcp-header": "a b"})), "no name"),
            (property(json!({"type": "number", "x-mcp-header": "A"})), "neither a string"),
            (property(json!({"items": {"type": "string", "x-mcp-header": "A"}})), "no property"),
            (json!({"$defs": {"d": {"x-mcp-header": "A"}}}), "no property"),
            (
                json!({"properties": {"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}}}),
                "twice",
            ),
        ] {
            let error = of(&schema).unwrap_err();
            assert!(error.contains(part), "{schema}: {error}");
        }
        assert_eq!(of(&json!({"type": "object"})), Ok(Mirrored::default()));
    }

    #[test]
    fn values_travel_plain_where_they_can() {
        for (value, header) in [
            ("a b", "a b"),
            ("", ""),
            ("a ", "=?base64?YSA=?="),
            ("\n", "=?base64?Cg==?="),
            ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
        ] {
            assert_eq!(encoded(value).unwrap(), header, "{value:?}");
        }
        assert_eq!(base64(b"foobar"), "Zm9vYmFy");
    }
}
