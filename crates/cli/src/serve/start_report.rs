//! The report that a server prints after its start.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;

use cli_core::data::{DataDir, FirstKey, KeyState, RECOVER, Server, named};
use cli_core::wiring::Running;
use config::Faults;

/// The report of a started server.
#[derive(Debug, Serialize)]
pub(super) struct Started {
    address: String,
    data: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    configuration: Option<PathBuf>,
    /// The file of the owner's key, if its key is valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner_key: Option<String>,
    /// The file of the agent's key, if its key is valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_key: Option<String>,
    open: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    grpc: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plain: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    old_nodes: Option<String>,
    faults: Faults,
}

impl Started {
    pub(super) fn new(
        (running, server): (&Running, &Server),
        data: &DataDir,
        open: bool,
        faults: Faults,
    ) -> Self {
        let is_valid = |key| running.invalid.iter().all(|(invalid, _)| *invalid != key);
        let file = |key| is_valid(key).then(|| data.key_file(key).display().to_string());
        Self {
            address: format!("http://{}", server.address),
            data: data.path().display().to_string(),
            configuration: server.configuration.clone(),
            owner_key: file(FirstKey::Owner),
            agent_key: file(FirstKey::Agent),
            open,
            grpc: running.beside.grpc.map(|address| address.to_string()),
            plain: running.beside.plain.map(|address| address.to_string()),
            nodes: running.beside.nodes.map(|address| address.to_string()),
            old_nodes: running.beside.old_nodes.map(|address| address.to_string()),
            faults,
        }
    }

    /// Formats the report for people.
    pub(super) fn text(&self, held: &DataDir, running: &Running) -> String {
        let Self { address, data, .. } = self;
        let mut text = format!(
            "toolkeep {} listens on {address}\n\
             \n  config {}\
             \n  data   {data}\
             \n  owner  {}\
             \n  agent  {}\n",
            env!("CARGO_PKG_VERSION"),
            named(self.configuration.as_deref()),
            key_line(FirstKey::Owner, held, running),
            key_line(FirstKey::Agent, held, running),
        );
        if let Some(grpc) = &self.grpc {
            let _infallible = write!(text, "\ngRPC is spoken on {grpc}.\n");
        }
        if let Some(plain) = &self.plain {
            let _infallible =
                write!(text, "\nOn {plain} whoever comes has the rights of --plain-key.\n");
        }
        if let Some(nodes) = &self.nodes {
            let _infallible = write!(text, "\nNodes connect to {nodes}.\n");
        }
        if let Some(old) = &self.old_nodes {
            let _infallible =
                write!(text, "\nOn {old} whoever comes is the node of --old-node-key.\n");
        }
        if self.open {
            text += "\nWithout a key everyone on this machine is a user: --open.\n";
        }
        // Printed for copying: with the program as it was invoked.
        let (program, data) = (quoted(&program()), quoted(data));
        let _infallible =
            write!(text, "\nTry in another terminal:\n  {program} --data {data} tool list\n");
        text
    }
}

/// Formats the errors of omitted parts, which may be sources or settings.
pub(super) fn left_out(faults: &Faults) -> String {
    format!("{faults}\n\nthe above is left out; the rest is served")
}

/// Formats the line of a key: its file if its key is valid, otherwise advice.
fn key_line(key: FirstKey, data: &DataDir, running: &Running) -> String {
    let path = data.key_file(key).display().to_string();
    match running.invalid.iter().find(|(invalid, _)| *invalid == key).map(|(_, state)| *state) {
        Some(KeyState::Missing) => {
            format!("none: {path} is not there; if you do not keep it elsewhere, {RECOVER}")
        }
        Some(KeyState::Invalid) => {
            format!("none: the key in {path} is not valid (unknown, expired or revoked); {RECOVER}")
        }
        Some(KeyState::Valid) | None if running.keys.made.contains(&key) => {
            let revoked = running.keys.revoked.join(", ");
            match (key, revoked.is_empty()) {
                (FirstKey::Owner, false) => {
                    format!("{path}  (new; it replaces {revoked}, which is revoked)")
                }
                _ => format!("{path}  (new)"),
            }
        }
        Some(KeyState::Valid) | None => path,
    }
}

/// Returns the name with which this program was invoked.
fn program() -> String {
    let program = std::env::args_os().next().filter(|program| !program.is_empty());
    program.map_or_else(|| "toolkeep".to_owned(), |it| it.to_string_lossy().into_owned())
}

/// Quotes a word for a shell if necessary.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    if word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::{left_out, quoted};
    use config::{Fault, Faults};

    /// A setting of the environment is no source.
    #[test]
    fn a_faulty_setting_is_not_told_as_a_source_that_is_left_out() {
        let fault = Fault::flag("TOOL_EXECUTION_TIMEOUT", "`2m` is no time for a call");
        let told = left_out(&Faults::one(fault));
        assert!(told.contains("`2m` is no time") && !told.contains("source"), "{told}");
        assert!(told.ends_with("\n\nthe above is left out; the rest is served"));
    }

    #[test]
    fn words_survive_the_shell() {
        assert_eq!(quoted("/a/b-c_d.e"), "/a/b-c_d.e");
        assert_eq!(quoted("/a b/it's"), r"'/a b/it'\''s'");
    }
}
