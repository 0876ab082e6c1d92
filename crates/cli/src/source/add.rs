//! Implements `toolkeep source add`, which adds a source to the configuration file: from the flags,
//! or from the document of a published MCP server.
//!
//! The lines are inserted into the text of the file, which is then validated by the configuration
//! loader before it is written.

mod server_import;
mod server_lookup;
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
///
/// Without --tools, --module, --mcp and a command, the argument is a published MCP server: a
/// `server.json` file, its URL, its name in the MCP Registry, or a host that publishes an AI catalog.
/// Secrets are written as references to environment variables, never as values.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep source add notes --tools ./tools.yaml --config toolkeep.yaml
  toolkeep source add research --module http://127.0.0.1:8000 --bearer-env RESEARCH_TOKEN
  toolkeep source add wiki --mcp https://wiki.example/mcp --trust review
  toolkeep source add crm --mcp https://crm.example/mcp --header 'X-Team: tools' --oauth client_id=toolkeep
  toolkeep source add git --env GIT_TOKEN --env LANG=C -- git-mcp --stdio
  toolkeep source add files --dry-run -- npx -y @modelcontextprotocol/server-filesystem ./work
  toolkeep source add ./server.json --set BRAVE_API_KEY --yes
  toolkeep source add io.github.user/weather --name weather --set city=Oslo
  toolkeep source add tools.example.com")]
pub(crate) struct SourceAddArgs {
    /// Name of the source: letters, digits, `_`, `.` and `-`. Or a published MCP server: FILE, URL,
    /// NAMESPACE/NAME in a registry, or HOST.
    #[arg(value_name = "NAME|SERVER")]
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
    #[command(flatten)]
    import: server_import::ServerImportArgs,
}

/// Origin of the source's tools. At most one is given; without one, a published server is added.
#[derive(Debug, Args)]
#[group(multiple = false)]
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
    fn is_given(&self) -> bool {
        self.tools.is_some() || self.module.is_some() || self.is_mcp()
    }

    fn is_mcp(&self) -> bool {
        self.mcp.is_some() || !self.command.is_empty()
    }
}

impl SourceAddArgs {
    pub(super) async fn run(
        mut self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let edit = ConfigEdit::open(context.load_options(None)).map_err(edit_error)?;
        let imported = if self.kind.is_given() {
            self.import.check_unused()?;
            None
        } else {
            let server = server_lookup::find_server(&self.name, &self.import).await?;
            self.name = self.import.source_name(&server.document);
            Some(server)
        };
        edit.check_name(&self.name).map_err(edit_error)?;
        let imported = match imported {
            Some(server) => Some(self.import.import_entry(&server, &self.name, ui).await?),
            None => None,
        };
        if self.trust_annotations.is_none() && (self.kind.is_mcp() || imported.is_some()) {
            self.trust_annotations = ui.ask_confirmation(TRUST_QUESTION);
        }
        let starts_program = imported.as_ref().is_some_and(|entry| entry.starts_program);
        let entry = source_entry::source_entry(&self, imported.map(|entry| entry.mcp))?;
        let addition = edit.add_source(&entry).map_err(edit_error)?;
        if starts_program && !self.dry_run {
            self.import.confirm_program(&addition.lines, ui)?;
        }
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
mod import_tests;
#[cfg(test)]
mod tests;
