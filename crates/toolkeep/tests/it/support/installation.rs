//! An installation: a folder with configuration, data directory and server log.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A tool whose calls count as effects, so that their intents are synced, and nothing more.
pub(crate) const TOOL_FILE: &str = "\
version: 1
tools:
  - name: save
    description: Stands for something that writes.
    parameters: { type: object }
    side_effects: [modifies_files]
    implementation: { type: mock, mock_response: { saved: true } }
";

/// One installation. Gone when dropped; the server in it must be gone before.
#[derive(Debug)]
pub(crate) struct Installation {
    folder: TempDir,
}

impl Installation {
    /// With this configuration.
    pub(crate) fn new(config: &str) -> Self {
        let home = Self { folder: tempfile::tempdir().unwrap() };
        home.write("toolkeep.yaml", config);
        home
    }

    /// Creates an installation with the tool file [`TOOL_FILE`] only.
    pub(crate) fn with_tools() -> Self {
        let home = Self::new("version: 1\nsources:\n  - { name: local, tools: ./tools.yaml }\n");
        home.write("tools.yaml", TOOL_FILE);
        home
    }

    /// Writes a file into the configuration's folder.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Returns the path of a file or folder next to the configuration.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.path("toolkeep.yaml")
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path("data")
    }

    pub(crate) fn records(&self) -> PathBuf {
        self.data().join("records")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path("log.txt")
    }
}

/// The end of a log, for the text of a failure.
pub(crate) fn log_tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}
