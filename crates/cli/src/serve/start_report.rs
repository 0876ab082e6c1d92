//! The report that a server prints after its start.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;

use cli_core::data_dir::{
    DataDir, FirstKey, KeyState, RECOVER, ServerDescriptor, describe_configuration,
};
use cli_core::server_launcher::RunningServer;
use config::ConfigErrors;

/// The report of a started server.
#[derive(Debug, Serialize)]
pub(super) struct StartReport {
    address: String,
    /// The address of the web console, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    console: Option<String>,
    data: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    configuration: Option<PathBuf>,
    /// The file of the owner's key, if its key is valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner_key: Option<String>,
    /// The file of the agent's key, if its key is valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_key: Option<String>,
    #[serde(rename = "open")]
    allows_anonymous: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    grpc: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "plain")]
    plaintext_grpc: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "old_nodes")]
    legacy_nodes: Option<String>,
    #[serde(rename = "faults")]
    config_errors: ConfigErrors,
}

impl StartReport {
    pub(super) fn new(
        (running, server): (&RunningServer, &ServerDescriptor),
        data_dir: &DataDir,
        is_open: bool,
        errors: ConfigErrors,
    ) -> Self {
        let is_valid = |key| running.invalid_keys.iter().all(|(invalid, _)| *invalid != key);
        let file = |key| is_valid(key).then(|| data_dir.key_file(key).display().to_string());
        Self {
            address: format!("http://{}", server.address),
            console: running.has_console.then(|| format!("http://{}/ui", server.address)),
            data: data_dir.path().display().to_string(),
            configuration: server.configuration.clone(),
            owner_key: file(FirstKey::Owner),
            agent_key: file(FirstKey::Agent),
            allows_anonymous: is_open,
            grpc: running.extra_addresses.grpc.map(|address| address.to_string()),
            plaintext_grpc: running
                .extra_addresses
                .plaintext_grpc
                .map(|address| address.to_string()),
            nodes: running.extra_addresses.nodes.map(|address| address.to_string()),
            legacy_nodes: running.extra_addresses.legacy_nodes.map(|address| address.to_string()),
            config_errors: errors,
        }
    }

    /// Formats the report for people.
    pub(super) fn format_text(&self, data_dir: &DataDir, running: &RunningServer) -> String {
        let Self { address, data, .. } = self;
        let mut text = format!(
            "toolkeep {} listens on {address}\n\
             \n  config {}\
             \n  data   {data}\
             \n  owner  {}\
             \n  agent  {}\n",
            env!("CARGO_PKG_VERSION"),
            describe_configuration(self.configuration.as_deref()),
            key_line(FirstKey::Owner, data_dir, running),
            key_line(FirstKey::Agent, data_dir, running),
        );
        if let Some(grpc) = &self.grpc {
            let _infallible = write!(text, "\ngRPC listens on {grpc}.\n");
        }
        if let Some(plain) = &self.plaintext_grpc {
            let _infallible =
                write!(text, "\nClients of {plain} have the rights of --plain-key.\n");
        }
        if let Some(nodes) = &self.nodes {
            let _infallible = write!(text, "\nNodes connect to {nodes}.\n");
        }
        if let Some(old) = &self.legacy_nodes {
            let _infallible =
                write!(text, "\nThe client of {old} is the node of --old-node-key.\n");
        }
        if self.allows_anonymous {
            text += "\nClients on this machine need no key and have the level of a user \
                     (--open).\n";
        }
        // Printed for copying: with the program as it was invoked.
        let (program, data) = (shell_quote(&program_name()), shell_quote(data));
        let _infallible =
            write!(text, "\nTry in another terminal:\n  {program} --data {data} tool list\n");
        if let Some(console) = &self.console {
            let _infallible = writeln!(text, "Or sign in with a key at {console}");
        }
        text
    }
}

/// Formats the errors of omitted parts, which may be sources or settings.
pub(super) fn format_left_out(errors: &ConfigErrors) -> String {
    format!("{errors}\n\nthe entries above are omitted; everything else is served")
}

/// Formats the line of a key: its file if its key is valid, otherwise advice.
fn key_line(key: FirstKey, data: &DataDir, running: &RunningServer) -> String {
    let path = data.key_file(key).display().to_string();
    match running.invalid_keys.iter().find(|(invalid, _)| *invalid == key).map(|(_, state)| *state)
    {
        Some(KeyState::Missing) => {
            format!("none: {path} does not exist; if you do not store the key elsewhere, {RECOVER}")
        }
        Some(KeyState::Invalid) => {
            format!("none: {path} contains an invalid key (unknown, expired or revoked); {RECOVER}")
        }
        Some(KeyState::Valid) | None if running.key_changes.made.contains(&key) => {
            let revoked = running.key_changes.revoked.join(", ");
            match (key, revoked.is_empty()) {
                (FirstKey::Owner, false) => {
                    format!("{path}  (new; it replaces {revoked}, which was revoked)")
                }
                _ => format!("{path}  (new)"),
            }
        }
        Some(KeyState::Valid) | None => path,
    }
}

/// Returns the name with which this program was invoked.
fn program_name() -> String {
    let program = std::env::args_os().next().filter(|program| !program.is_empty());
    program.map_or_else(|| "toolkeep".to_owned(), |it| it.to_string_lossy().into_owned())
}

/// Quotes a word for a shell if necessary.
fn shell_quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    if word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::{format_left_out, shell_quote};
    use config::{ConfigError, ConfigErrors};

    /// A setting of the environment is no source.
    #[test]
    fn a_faulty_setting_is_not_told_as_a_source_that_is_left_out() {
        let fault = ConfigError::for_flag("TOOL_EXECUTION_TIMEOUT", "invalid call timeout `2m`");
        let told = format_left_out(&ConfigErrors::single(fault));
        assert!(told.contains("call timeout `2m`") && !told.contains("source"), "{told}");
        assert!(told.ends_with("\n\nthe entries above are omitted; everything else is served"));
    }

    #[test]
    fn words_survive_the_shell() {
        assert_eq!(shell_quote("/a/b-c_d.e"), "/a/b-c_d.e");
        assert_eq!(shell_quote("/a b/it's"), r"'/a b/it'\''s'");
    }
}
