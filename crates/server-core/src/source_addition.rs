//! Addition of sources to the configuration file: planned, tried, and written.

use identity::{Principal, Right};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tool::{ErrorCode, Org};

use crate::authorization_checks::require_right;
use crate::configuration_file::{PlannedSource, SourceEntry, TriedSource};
use crate::error::ApiError;
use crate::server_state::ServerState;

/// A source that was tried and not added.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SourceTrialReply {
    /// The lines that would add it.
    pub planned: PlannedSource,
    /// What it listed; absent for a source that may not be started over this interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listed: Option<TriedSource>,
    /// Why it was not started, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_started: Option<String>,
}

/// Shows the lines that would add a source, and lists its tools without adding it.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right; [`ErrorCode::InvalidConfig`] for an entry that the
/// configuration does not allow.
pub async fn try_source(
    state: &ServerState,
    principal: &Principal,
    entry: SourceEntry,
) -> Result<SourceTrialReply, ApiError> {
    require_source_admin(principal)?;
    let configuration = state.components.require_configuration()?;
    let planned = configuration.plan_source(entry.clone()).await?;
    if let Err(refused) = check_local(configuration.allows_local_sources(), &entry) {
        let message = format!("{}: {}", refused.message(), refused.help().unwrap_or_default());
        return Ok(SourceTrialReply { planned, listed: None, not_started: Some(message) });
    }
    let listed = configuration.try_source(entry).await?;
    Ok(SourceTrialReply { planned, listed: Some(listed), not_started: None })
}

/// Adds a source to the configuration file.
///
/// # Errors
/// As [`try_source`], and for a source of this machine unless the configuration allows it.
pub async fn add_source(
    state: &ServerState,
    principal: &Principal,
    entry: SourceEntry,
) -> Result<PlannedSource, ApiError> {
    require_source_admin(principal)?;
    let configuration = state.components.require_configuration()?;
    check_local(configuration.allows_local_sources(), &entry)?;
    configuration.add_source(entry, principal.caller().clone()).await
}

/// Checks the right to add sources, and to turn them off. They belong to the installation.
///
/// # Errors
/// [`ErrorCode::Forbidden`].
pub(crate) fn require_source_admin(principal: &Principal) -> Result<(), ApiError> {
    require_right(principal, Right::SourcesWrite)?;
    if *principal.org() == Org::default() {
        return Ok(());
    }
    let message = "sources belong to the installation, not to an organisation";
    Err(ApiError::new(ErrorCode::Forbidden, message)
        .with_help("use a key of the organisation `default`"))
}

/// Keys of an entry that concern nothing of this machine.
const REMOTE_KEYS: [&str; 31] = [
    "name",
    "module",
    "mcp",
    "url",
    "headers",
    "oauth",
    "grant",
    "client_id",
    "client_secret",
    "client_metadata",
    "scopes",
    "issuer",
    "token_endpoint",
    "credential",
    "bearer",
    "trust",
    "trust_annotations",
    "timeout",
    "startup_timeout",
    "start",
    "idle_stop",
    "max_message",
    "slow",
    "retry",
    "durability",
    "defer",
    "read_only",
    "idempotent",
    "destructive",
    "disabled_tools",
    "extensions",
];

/// Refuses a source that starts a program, reads a file or takes a variable of the server, unless the
/// configuration allows it: a program has all rights of the server, and a file or a variable would be
/// sent to an address that the entry names.
fn check_local(is_allowed: bool, entry: &SourceEntry) -> Result<(), ApiError> {
    let mcp = entry.get("mcp").and_then(Value::as_object);
    let has_address =
        entry.contains_key("module") || mcp.is_some_and(|mcp| mcp.contains_key("url"));
    if is_allowed || (has_address && is_remote_object(entry)) {
        return Ok(());
    }
    let message = "a source that starts a program, reads a file or takes a variable of the server is not \
                   added over this interface";
    Err(ApiError::new(ErrorCode::Forbidden, message).with_help(
        "write its lines into the configuration file, or set `server.add_local_sources: true`",
    ))
}

/// Whether every key is known to be remote. Header names are the server's own.
fn is_remote_object(entry: &SourceEntry) -> bool {
    entry.iter().all(|(key, value)| match value {
        Value::Object(headers) if key == "headers" => headers.values().all(is_remote_value),
        value => REMOTE_KEYS.contains(&key.as_str()) && is_remote_value(value),
    })
}

fn is_remote_value(value: &Value) -> bool {
    match value {
        // A variable of the environment.
        Value::String(text) => !text.contains("${"),
        Value::Array(items) => items.iter().all(is_remote_value),
        Value::Object(inner) => is_remote_object(inner),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::check_local;

    #[test]
    fn only_a_source_that_is_surely_elsewhere_needs_no_permission() {
        for (entry, is_remote) in [
            (json!({"name": "a", "mcp": {"url": "https://h.example"}}), true),
            (json!({"name": "a", "module": "https://h.example"}), true),
            (json!({"name": "a", "tools": "t.yaml"}), false),
            (json!({"name": "a", "mcp": {"command": "sh"}}), false),
            (json!({"name": "a", "mcp": {"url": "https://h.example", "command": "sh"}}), false),
            (json!({"name": "a", "module": "https://h.example", "tools": "t.yaml"}), false),
            (json!({"name": "a", "mcp": "servers.json"}), false),
            (
                json!({"name": "a", "trust": "review", "mcp": {"url": "https://h.example",
                    "headers": {"X-File": "b"}, "oauth": {"client_id": "c", "scopes": ["d"]}}}),
                true,
            ),
            (
                json!({"name": "a", "mcp": {"url": "https://h.example", "headers": {"X": "${HOME}"}}}),
                false,
            ),
            (json!({"name": "a", "mcp": {"url": "https://h.example/${HOME}"}}), false),
            (
                json!({"name": "a", "module": "https://h.example", "credential": {"bearer_env": "A"}}),
                false,
            ),
            (
                json!({"name": "a", "mcp": {"url": "https://h.example",
                    "oauth": {"client_secret_file": "/etc/passwd"}}}),
                false,
            ),
            (
                json!({"name": "a", "mcp": {"url": "https://h.example", "oauth": {"scopes": ["${A}"]}}}),
                false,
            ),
            (json!({"name": "a", "mcp_servers": "servers.json"}), false),
            (json!({}), false),
        ] {
            let entry = entry.as_object().unwrap();
            assert_eq!(check_local(false, entry).is_ok(), is_remote, "{entry:?}");
            assert!(check_local(true, entry).is_ok());
        }
    }
}
