//! Implements `toolkeep source add`, which adds a source to the configuration file.
//!
//! The lines are inserted into the text of the file, which is then validated by the configuration
//! loader before it is written.

mod config_check;
mod yaml_entry;
mod yaml_insertion;

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use cli_core::atomic_file::replace_file;
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::{Printer, sanitize_text};

/// Add a source to the configuration file. The rest of the file stays unchanged, byte for byte.
///
/// The new file is validated before it is written; if it has an error, nothing is written and the
/// error is reported. A running server applies the change by itself. Variables such as `${NAME}`
/// are written literally and expanded when the file is read.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep source add notes --tools ./tools.yaml --config toolkeep.yaml
  toolkeep source add research --module http://127.0.0.1:8000 --bearer-env RESEARCH_TOKEN
  toolkeep source add wiki --mcp https://wiki.example/mcp --trust review
  toolkeep source add crm --mcp https://crm.example/mcp --header 'X-Team: tools' --oauth client_id=toolkeep
  toolkeep source add git --env GIT_TOKEN --env LANG=C -- git-mcp --stdio
  toolkeep source add files --dry-run -- npx -y @modelcontextprotocol/server-filesystem ./work")]
pub(crate) struct SourceAddArgs {
    /// Name of the source: letters, digits, `_`, `.` and `-`.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    kind: SourceKindArgs,
    /// Environment variable that contains the bearer token to send.
    #[arg(long, value_name = "NAME")]
    bearer_env: Option<String>,
    /// Environment variable of the program: NAME=VALUE, or NAME to pass on the server's value. Can
    /// be repeated.
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Header to send to the MCP server: `Name: value`. Use `${NAME}` instead of a literal secret.
    /// Can be repeated.
    #[arg(long, value_name = "HEADER")]
    header: Vec<String>,
    /// OAuth setting of the MCP server: client_id=…, client_secret_env=…, grant=client_credentials,
    /// scopes=a,b, issuer=… or another key of `oauth` in the configuration. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    oauth: Vec<String>,
    /// Trust in the source's tool definitions: full, first_use, review.
    #[arg(long, value_name = "WORD")]
    trust: Option<String>,
    /// Trust the annotations of an MCP server, such as read-only hints. Without this option, a
    /// terminal asks and the default is false.
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    trust_annotations: Option<bool>,
    /// Timeout of a call, such as 30s, 500ms or 2m.
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// Print the new lines and their location, without writing the file.
    #[arg(long)]
    dry_run: bool,
}

/// Origin of the source's tools. Exactly one is required.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct SourceKindArgs {
    /// Tool file, relative to the directory of the configuration file.
    #[arg(long, value_name = "FILE")]
    tools: Option<String>,
    /// URL of an HTTP module.
    #[arg(long, value_name = "URL")]
    module: Option<String>,
    /// URL of an MCP server.
    #[arg(long, value_name = "URL")]
    mcp: Option<String>,
    /// Program of an MCP server and its arguments, after `--`.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The question about an MCP server, because only the strict default is safe for all.
const TRUST_QUESTION: &str = "Trust the annotations of this server's tools? Tools that it marks as \
                        read-only are then treated as read-only.";

impl SourceKindArgs {
    fn is_mcp(&self) -> bool {
        self.mcp.is_some() || !self.command.is_empty()
    }
}

impl SourceAddArgs {
    pub(super) fn run(
        mut self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let setting = context.load_options(None);
        let Some(file) = setting.file.clone() else {
            let failure =
                CommandError::new(ExitStatus::UsageError, "no configuration file is given");
            return Err(failure.with_help("pass `--config FILE`, or set TOOLKEEP_CONFIG"));
        };
        let file: PathBuf = setting.current_dir.join(file);
        let before = config_check::load_valid_config(&setting, &file)?;
        config_check::check_name_is_free(&before, &self.name)?;
        let text = read_config_text(&file)?;
        if self.trust_annotations.is_none() && self.kind.is_mcp() {
            self.trust_annotations = ui.ask_confirmation(TRUST_QUESTION);
        }
        let lines = yaml_entry::render_entry(&self)?;
        let inserted = yaml_insertion::insert_entry(&text, &lines)
            .map_err(|fault| fault.into_command_error(&file, &lines))?;
        config_check::check_new_text(&setting, &file, &before, &inserted.text, &self.name)?;
        if !self.dry_run {
            // Do not overwrite concurrent changes.
            if read_config_text(&file)? != text {
                let message = format!("`{}` has changed in the meantime", display_path(&file));
                return Err(CommandError::new(ExitStatus::Failed, message)
                    .with_help("run the command again"));
            }
            replace_file(&file, inserted.text.as_bytes())
                .map_err(|error| file_error(&file, "written", &error))?;
        }
        let answer = json!({ "file": file, "line": inserted.line, "lines": inserted.lines,
            "source": self.name, "written": !self.dry_run });
        ui.print_result(&answer, || {
            let done = if self.dry_run { "would be added" } else { "added" };
            let place = format!("{}:{}", display_path(&file), inserted.line);
            format!("{done} at {place}:\n{}", sanitize_text(&inserted.lines))
        })?;
        Ok(ExitStatus::Success)
    }
}

fn read_config_text(file: &std::path::Path) -> Result<String, CommandError> {
    std::fs::read_to_string(file).map_err(|error| file_error(file, "read", &error))
}

fn file_error(file: &std::path::Path, how: &str, error: &std::io::Error) -> CommandError {
    CommandError::new(
        ExitStatus::Failed,
        format!("`{}` cannot be {how}: {error}", display_path(file)),
    )
}

fn display_path(file: &std::path::Path) -> String {
    sanitize_text(&file.display().to_string())
}

#[cfg(test)]
mod tests;
