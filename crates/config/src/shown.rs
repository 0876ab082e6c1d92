//! A configuration as it counts, in the words of its file: what was said, what the flags and the
//! environment say, and every default. No secret is in it.
//!
//! Typed values show as they serialize. Types of other crates, and values that the file writes in another form, have
//! their rendering here.

mod values;

use serde_json::{Map, Value, json};

use super::config::Config;
use super::sections::{Checkpoints, Records};
pub(crate) use values::{Show, without_query};

/// What stands where a secret is.
pub const HIDDEN: &str = "***";

/// All of it. What is not set and has no default is left out.
pub fn shown(config: &Config) -> Value {
    let checkpoints = Checkpoints { also: config.checkpoints_also.clone() };
    let records = Records { checkpoints, keep: config.keep, file: config.record_file };
    tidy(json!({
        "version": 1,
        "listen": config.listen.to_string(),
        "data": config.data.show(),
        "server": config.server.show(),
        "limits": config.limits.show(),
        "approvals": config.approvals.show(),
        "records": records.show(),
        "tool_packages": config.tool_packages.show(),
        "builtins": config.builtins.show(),
        "nodes": config.nodes.show(),
        "plugins": (!config.plugins.folders.is_empty()).then(|| config.plugins.show()),
        "tokens": config.tokens.show(),
        "redis": config.redis.show(),
        "default_guest_modules": config.default_guest_modules,
        "policy": config.policy_said.then_some(config.policy.rules()),
        "sources": config.sources.show(),
    }))
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

/// Adds a key; the keys of a value under `..` are added themselves.
pub(crate) fn insert(members: &mut Map<String, Value>, key: &str, value: Value) {
    match value {
        Value::Object(all) if key == ".." => members.extend(all),
        value => drop(members.insert(key.to_owned(), value)),
    }
}

#[cfg(test)]
mod tests;
