//! The effective configuration as JSON, in the keys of the file: file, flags, environment and defaults combined. Secrets
//! are redacted.
//!
//! Sections derive their rendering. Types of other crates, and values with another form in the file, have theirs here.

mod redacted_json;

use serde_json::{Map, Value, json};

use super::config::Config;
use super::sections::{CheckpointsConfig, RecordsConfig};
pub(crate) use redacted_json::{RedactedJson, redact_query};

/// The text in place of a secret.
pub const REDACTED: &str = "***";

/// Renders the effective configuration as JSON. A value that is not set and has no default is omitted.
pub fn render_config(config: &Config) -> Value {
    let checkpoints = CheckpointsConfig { mirror: config.checkpoint_mirror.clone() };
    let records = RecordsConfig {
        checkpoints,
        retention: config.retention,
        segment_bytes: config.segment_bytes,
    };
    remove_empty(json!({
        "version": 1,
        "listen": config.listen_address.to_string(),
        "data": config.data_dir.to_redacted_json(),
        "server": config.server.to_redacted_json(),
        "limits": config.limits.to_redacted_json(),
        "approvals": config.approvals.to_redacted_json(),
        "records": records.to_redacted_json(),
        "tool_packages": config.tool_packages.to_redacted_json(),
        "builtins": config.builtins.to_redacted_json(),
        "nodes": config.nodes.to_redacted_json(),
        "plugins": (!config.plugins.folders.is_empty()).then(|| config.plugins.to_redacted_json()),
        "tokens": config.access_tokens.to_redacted_json(),
        "redis": config.redis_url.to_redacted_json(),
        "default_guest_modules": config.default_guest_modules,
        "policy": config.has_policy_section.then_some(config.policy.document()),
        "toolsets": config.toolsets.to_redacted_json(),
        "sources": config.sources.to_redacted_json(),
    }))
}

/// Removes nulls, and objects that are empty without them.
fn remove_empty(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let non_empty = |(key, value)| {
                let value = remove_empty(value);
                let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                (!is_empty).then_some((key, value))
            };
            Value::Object(members.into_iter().filter_map(non_empty).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(remove_empty).collect()),
        other => other,
    }
}

/// Adds a member. The members of a value under `..` are added themselves.
pub(crate) fn insert_member(members: &mut Map<String, Value>, key: &str, value: Value) {
    match value {
        Value::Object(flattened) if key == ".." => members.extend(flattened),
        value => drop(members.insert(key.to_owned(), value)),
    }
}

#[cfg(test)]
mod tests;
