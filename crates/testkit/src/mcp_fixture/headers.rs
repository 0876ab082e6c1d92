//! Validation of modern-era headers that repeat the body and must equal it.

use http::HeaderMap;
use serde_json::Value;

use super::json_rpc::{FixtureRequest, RpcError};

/// Returns a header as text.
pub(super) fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
}

/// Checks `Mcp-Method` against the method of the request.
///
/// # Errors
/// Returns an error if `Mcp-Method` differs from the method.
pub(super) fn check_method(headers: &HeaderMap, method: &str) -> Result<(), RpcError> {
    match header_text(headers, "mcp-method") {
        Some(said) if said == method => Ok(()),
        Some(said) => {
            Err(RpcError::header_mismatch(format!("`Mcp-Method` is `{said}`, not `{method}`")))
        }
        None => Err(RpcError::header_mismatch("`Mcp-Method` is missing")),
    }
}

/// Checks `Mcp-Name` against the name in the request.
///
/// # Errors
/// Returns an error if `Mcp-Name` differs from the name in the request.
pub(super) fn check_name(headers: &HeaderMap, request: &FixtureRequest) -> Result<(), RpcError> {
    let member = match request.method.as_str() {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return Ok(()),
    };
    let Some(name) = request.params.get(member).and_then(Value::as_str) else { return Ok(()) };
    let said = header_text(headers, "mcp-name")
        .ok_or_else(|| RpcError::header_mismatch("`Mcp-Name` is missing"))?;
    let said =
        decode_value(said).ok_or_else(|| RpcError::header_mismatch("`Mcp-Name` is no base64"))?;
    if said == name {
        return Ok(());
    }
    Err(RpcError::header_mismatch(format!("`Mcp-Name` is `{said}`, not `{name}`")))
}

/// Checks the mirrored arguments against their `Mcp-Param` headers.
///
/// # Errors
/// Returns an error if a mirrored argument differs from its header.
pub(super) fn check_params(
    headers: &HeaderMap,
    request: &FixtureRequest,
    tool: &Value,
) -> Result<(), RpcError> {
    let properties = tool["inputSchema"]["properties"].as_object();
    for (key, schema) in properties.into_iter().flatten() {
        let Some(name) = schema.get("x-mcp-header").and_then(Value::as_str) else { continue };
        let header = format!("mcp-param-{}", name.to_ascii_lowercase());
        let argument = request.params.get("arguments").and_then(|all| all.get(key));
        let wanted = match argument {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(other) => Some(other.to_string()),
        };
        let said = match header_text(headers, &header) {
            None => None,
            Some(said) => {
                let wrong =
                    || RpcError::header_mismatch(format!("`{header}` is no base64: `{said}`"));
                Some(decode_value(said).ok_or_else(wrong)?)
            }
        };
        if said != wanted {
            let (said, wanted) = (said.unwrap_or_default(), wanted.unwrap_or_default());
            return Err(RpcError::header_mismatch(format!(
                "`{header}` is `{said}`, not `{wanted}`"
            )));
        }
    }
    Ok(())
}

/// Decodes a header value that may be encoded, because headers cannot hold every character.
fn decode_value(value: &str) -> Option<String> {
    let wrapped = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    match wrapped {
        None => Some(value.to_owned()),
        Some(wrapped) => String::from_utf8(decode_base64(wrapped)?).ok(),
    }
}

/// Strict base64 decoding: only the alphabet and the padding.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let bare = text.trim_end_matches('=');
    if text.len() - bare.len() > 2 {
        return None;
    }
    let (mut bytes, mut held, mut bits) = (Vec::new(), 0_u32, 0);
    for letter in bare.bytes() {
        let value = LETTERS.iter().position(|known| *known == letter)?;
        held = held << 6 | u32::try_from(value).ok()?;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits & 0xff).ok()?);
        }
    }
    Some(bytes)
}
