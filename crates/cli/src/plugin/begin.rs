//! Implements `toolkeep plugin new`, which creates a plugin from a template.

use std::io::ErrorKind;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use plugins::Template;
use serde_json::json;

use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;

/// Begin a plugin: a folder with a manifest, code, and examples that `plugin test` runs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep plugin new greeter
  toolkeep plugin new greeter --kind command --in ./plugins")]
pub(crate) struct New {
    /// Its name: small letters, digits and `_`.
    #[arg(value_name = "NAME")]
    name: String,
    /// How it is run.
    #[arg(long, value_enum, default_value_t = Kind::Python)]
    kind: Kind,
    /// The folder that it is made in.
    #[arg(long = "in", value_name = "FOLDER", default_value = "plugins")]
    folder: PathBuf,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// Functions of a Python module.
    Python,
    /// A program that speaks JSON lines.
    Command,
    /// An MCP server over standard input and output.
    Mcp,
}

impl New {
    pub(super) fn run(self, ui: &mut Ui) -> Result<Exit, Failure> {
        let template = match self.kind {
            Kind::Python => Template::Python,
            Kind::Command => Template::Command,
            Kind::Mcp => Template::Mcp,
        };
        let files = plugins::written(&self.folder, &self.name, template).map_err(|error| {
            let exit =
                if error.kind() == ErrorKind::InvalidInput { Exit::Usage } else { Exit::Failed };
            Failure::new(exit, format!("the plugin is not begun: {error}"))
        })?;
        let folder = self.folder.join(&self.name);
        let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
        ui.answer(&json!({"plugin": self.name, "files": files}), || files.join("\n"))?;
        ui.note(&format!(
            "try it: `toolkeep plugin test {}`; a server takes it where `plugins: {{ folders: [{}] }}` \
             is in its configuration",
            folder.display(),
            self.folder.display()
        ));
        Ok(Exit::Done)
    }
}
