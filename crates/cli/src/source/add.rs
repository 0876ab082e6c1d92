//! Implements `toolkeep source add`, which adds a source to the configuration file.
//!
//! The lines are inserted into the text of the file, which is then validated by the configuration
//! loader before it is written.

mod source_entry;

use clap::Args;
use config_edit::{ConfigEdit, EditError, EditErrorKind};
use serde_json::json;
use tool::ErrorCode;

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
        let edit = ConfigEdit::open(context.load_options(None)).map_err(edit_error)?;
        edit.check_name(&self.name).map_err(edit_error)?;
        if self.trust_annotations.is_none() && self.kind.is_mcp() {
            self.trust_annotations = ui.ask_confirmation(TRUST_QUESTION);
        }
        let addition = edit.add_source(&source_entry::source_entry(&self)?).map_err(edit_error)?;
        if !self.dry_run {
            addition.write().map_err(edit_error)?;
        }
        let answer = json!({ "file": addition.file, "line": addition.line,
            "lines": addition.lines, "source": self.name, "written": !self.dry_run });
        ui.print_result(&answer, || {
            let done = if self.dry_run { "would be added" } else { "added" };
            let file = sanitize_text(&addition.file.display().to_string());
            format!("{done} at {file}:{}:\n{}", addition.line, sanitize_text(&addition.lines))
        })?;
        Ok(ExitStatus::Success)
    }
}

fn edit_error(error: EditError) -> CommandError {
    let EditError { kind, message, help } = error;
    let failure = match kind {
        EditErrorKind::NoFile | EditErrorKind::InvalidEntry => {
            CommandError::new(ExitStatus::UsageError, message)
        }
        EditErrorKind::InvalidConfig => {
            CommandError::from_error_code(ErrorCode::InvalidConfig.as_str(), message)
        }
        EditErrorKind::ConfigErrors(errors) => CommandError::from_config_errors(*errors),
        EditErrorKind::Failed => CommandError::new(ExitStatus::Failed, message),
    };
    match help {
        Some(help) => failure.with_help(help),
        None => failure,
    }
}

#[cfg(test)]
mod tests;
