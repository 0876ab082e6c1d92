//! Headers that repeat arguments, as required by `x-mcp-header` in the tool's schema.

use serde_json::Value;

/// The header names and values for a call of a tool with this schema.
pub(super) fn mirrored_headers(schema: &Value, arguments: &Value) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let Some(name) = property["x-mcp-header"].as_str() else { continue };
        let value = match &arguments[key] {
            Value::String(text) => text.clone(),
            value @ (Value::Bool(_) | Value::Number(_)) => value.to_string(),
            _ => continue,
        };
        headers.push((format!("mcp-param-{name}"), encode_value(&value)));
    }
    headers
}

/// Encodes a value for a header.
fn encode_value(value: &str) -> String {
    let printable = value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if printable && value.trim() == value && !value.starts_with("=?base64?") {
        return value.to_owned();
    }
    format!("=?base64?{}?=", encode_base64(value.as_bytes()))
}

/// Base64 with padding (RFC 4648, section 4).
pub(crate) fn encode_base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut three = [0; 4];
        three[1..=chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes(three);
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::encode_value;

    #[test]
    fn what_a_header_cannot_hold_is_wrapped() {
        assert_eq!(encode_value("us west 1"), "us west 1");
        assert_eq!(encode_value(" a"), "=?base64?IGE=?=");
        assert_eq!(encode_value("Hello, 世界"), "=?base64?SGVsbG8sIOS4lueVjA==?=");
        assert_eq!(encode_value("a\nbc"), "=?base64?YQpiYw==?=");
    }
}
