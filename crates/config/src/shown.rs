//! A configuration as it counts, in the words of its file: what was said, what the flags and the
//! environment say, and every default. No secret is in it.
//!
//! Typed values show as they serialize. Types of other crates, and values that the file writes in another form, have
//! their rendering here.

mod values;

use serde::{Serialize as _, Serializer};
use serde_json::{Map, Value, json};

use super::high::{Config, SourceConfig, SourceKind};
use values::Show;

/// What stands where a secret is.
pub const HIDDEN: &str = "***";

/// All of it. What is not set and has no default is left out.
pub fn shown(config: &Config) -> Value {
    let sources: Vec<_> = config.sources.iter().map(source).collect();
    tidy(json!({
        "version": 1,
        "listen": config.listen.to_string(),
        "data": config.data.show(),
        "server": config.server,
        "limits": config.limits,
        "approvals": config.approvals,
        "records": {
            "checkpoints": {"also": config.checkpoints_also.show()},
            "keep": config.keep.show(),
            "file": config.record_file,
        },
        "tool_packages": config.tool_packages.show(),
        "builtins": config.builtins,
        "nodes": config.nodes,
        "plugins": (!config.plugins.folders.is_empty()).then_some(&config.plugins),
        "tokens": config.tokens,
        "redis": config.redis.show(),
        "default_guest_modules": config.default_guest_modules,
        "policy": config.policy_said.then_some(config.policy.rules()),
        "sources": sources,
    }))
}

/// Bounds of an MCP server are no settings of another source.
fn source(source: &SourceConfig) -> Value {
    let mut shown = json!(source);
    let is_mcp = matches!(source.kind, SourceKind::McpCommand(_) | SourceKind::McpUrl { .. });
    if let Some(members) = shown.as_object_mut().filter(|_| !is_mcp) {
        members.remove("startup_timeout");
        members.remove("max_message");
    }
    shown
}

/// Without what is not there, and without what is empty because of that.
fn tidy(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let some = |(key, value)| {
                let value = tidy(value);
                let nothing = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                (!nothing).then_some((key, value))
            };
            Value::Object(members.into_iter().filter_map(some).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(tidy).collect()),
        other => other,
    }
}

/// For `serialize_with`: as the file writes it, without secrets.
pub(crate) fn show<T: Show, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    value.show().serialize(serializer)
}

/// The same for what may hold a secret anywhere.
pub(crate) fn hidden<T, S: Serializer>(_: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(HIDDEN)
}

/// A credential, which is a bearer token.
pub(crate) fn bearer<T: Show, S: Serializer>(token: &T, serializer: S) -> Result<S::Ok, S::Error> {
    json!({"bearer": token.show()}).serialize(serializer)
}

/// An address as it is written, without a query.
pub(crate) fn address<'a, T, S: Serializer>(text: &'a T, serializer: S) -> Result<S::Ok, S::Error>
where
    &'a T: IntoIterator<Item = &'a String>,
{
    text.into_iter().next().map(|text| values::without_query(text)).serialize(serializer)
}

/// Whether a failed call is made once more.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
pub(crate) fn once<S: Serializer>(retry: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(if *retry { "once" } else { "never" })
}

/// Whether nodes are called over TLS.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
pub(crate) fn scheme<S: Serializer>(https: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(if *https { "https" } else { "http" })
}

/// Whether tokens are asked for with the client's own credential.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
pub(crate) fn grant<S: Serializer>(alone: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(if *alone { "client_credentials" } else { "authorization_code" })
}

/// For `skip_serializing_if`.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
pub(crate) fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests;
