//! Implements `toolkeep plugin new`, which creates a plugin from a template.

use std::io::ErrorKind;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use plugins::PluginTemplate;
use serde_json::json;

use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;

/// Create a plugin: a directory with a manifest, code, and examples that `plugin test` runs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep plugin new greeter
  toolkeep plugin new greeter --kind command --in ./plugins")]
pub(crate) struct PluginNewArgs {
    /// Name of the plugin: lower-case letters, digits and `_`.
    #[arg(value_name = "NAME")]
    name: String,
    /// How the plugin runs.
    #[arg(long, value_enum, default_value_t = PluginKind::Python)]
    kind: PluginKind,
    /// Directory to create the plugin in.
    #[arg(long = "in", value_name = "FOLDER", default_value = "plugins")]
    folder: PathBuf,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PluginKind {
    /// Python module with functions.
    Python,
    /// Program that reads and writes JSON lines.
    Command,
    /// MCP server over standard input and output.
    Mcp,
}

impl PluginNewArgs {
    pub(super) fn run(self, ui: &mut Printer) -> Result<ExitStatus, CommandError> {
        let template = match self.kind {
            PluginKind::Python => PluginTemplate::Python,
            PluginKind::Command => PluginTemplate::Command,
            PluginKind::Mcp => PluginTemplate::Mcp,
        };
        let files =
            plugins::create_plugin(&self.folder, &self.name, template).map_err(|error| {
                let exit = if error.kind() == ErrorKind::InvalidInput {
                    ExitStatus::UsageError
                } else {
                    ExitStatus::Failed
                };
                CommandError::new(exit, format!("cannot create the plugin: {error}"))
            })?;
        let folder = self.folder.join(&self.name);
        let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
        ui.print_result(&json!({"plugin": self.name, "files": files}), || files.join("\n"))?;
        ui.print_note(&format!(
            "test it with `toolkeep plugin test {}`; a server loads it with `plugins: {{ folders: \
             [{}] }}` in its configuration",
            folder.display(),
            self.folder.display()
        ));
        Ok(ExitStatus::Success)
    }
}
