//! Values and consent for a published MCP server that is added as a source.

use clap::Args;
use config_edit::{
    ImportError, ImportErrorKind, InputAnswers, ServerDocument, ServerInput, ServerVariant,
};
use serde_json::{Map, Value};

use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::{Printer, sanitize_line, sanitize_text};

use super::server_lookup::FoundServer;

/// Characters of a document's text in a question or a note.
const MAX_SHOWN_CHARS: usize = 120;

/// Flags of a published MCP server.
#[derive(Debug, Default, Args)]
pub(super) struct ServerImportArgs {
    /// Name of the source of a published server [default: the last part of the server's name].
    #[arg(long = "name", value_name = "NAME")]
    source_name: Option<String>,
    /// Value that a published server needs: NAME=VALUE, or NAME for the environment variable of the
    /// server with this name. For a secret: NAME=${VARIABLE} or NAME. Can be repeated.
    #[arg(long, value_name = "NAME[=VALUE]")]
    set: Vec<String>,
    /// How to use a published server that offers several ways [default: the first that is offered:
    /// remote, npm, pypi].
    #[arg(long = "use", value_enum, value_name = "WAY")]
    variant: Option<UseWord>,
    /// MCP Registry in which a server is found by its name [default:
    /// https://registry.modelcontextprotocol.io].
    #[arg(long, value_name = "URL")]
    pub(super) registry: Option<String>,
    /// Version of a server in the registry [default: latest].
    #[arg(long, value_name = "VERSION")]
    pub(super) server_version: Option<String>,
    /// Entry of a host's AI catalog that names several servers.
    #[arg(long, value_name = "IDENTIFIER")]
    pub(super) entry: Option<String>,
    /// Add a published server that starts a program without asking. Programs have all rights of
    /// the server.
    #[arg(long)]
    yes: bool,
}

/// A way to use a published server.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum UseWord {
    /// Its streamable HTTP endpoint.
    Remote,
    /// Its npm package, with `npx`.
    Npm,
    /// Its PyPI package, with `uvx`.
    Pypi,
}

/// The MCP server of an entry, as its keys in the configuration.
#[derive(Debug)]
pub(super) struct ImportedServer {
    pub(super) mcp: Map<String, Value>,
    pub(super) starts_program: bool,
}

impl ServerImportArgs {
    /// Checks that no flag of a published server stands beside another origin.
    pub(super) fn check_unused(&self) -> Result<(), CommandError> {
        let Self { source_name, set, variant, registry, server_version, entry, yes: _ } = self;
        let given = [
            ("--name", source_name.is_some()),
            ("--set", !set.is_empty()),
            ("--use", variant.is_some()),
            ("--registry", registry.is_some()),
            ("--server-version", server_version.is_some()),
            ("--entry", entry.is_some()),
        ];
        let Some((flag, _)) = given.into_iter().find(|(_, is_given)| *is_given) else {
            return Ok(());
        };
        let message = format!("`{flag}` requires a published server");
        Err(CommandError::new(ExitStatus::UsageError, message)
            .with_help("remove it, or pass a `server.json`, a registry name or a host alone"))
    }

    /// The name of the source: the given one, else one of the server's name.
    pub(super) fn source_name(&self, server: &ServerDocument) -> String {
        self.source_name.clone().unwrap_or_else(|| server.source_name())
    }

    /// Builds the entry of a server. Missing values are asked for on a terminal.
    ///
    /// # Errors
    /// The server cannot be used; a value is missing or does not fit.
    pub(super) async fn import_entry(
        &self,
        found: &FoundServer,
        source_name: &str,
        ui: &mut Printer,
    ) -> Result<ImportedServer, CommandError> {
        let server = &found.document;
        let plan = server.plan(self.variant.map(UseWord::variant)).map_err(import_error)?;
        let version = sanitize_line(server.version(), MAX_SHOWN_CHARS);
        let about = sanitize_line(server.description(), MAX_SHOWN_CHARS);
        ui.print_note(&format!("note: {} {version}: {about}", server.name()));
        let mut answers = InputAnswers::default();
        for text in &self.set {
            answers.add_text(text).map_err(import_error)?;
        }
        for input in plan.inputs().iter().filter(|input| input.is_missing) {
            if !answers.has(&input.key) {
                ask_value(input, &mut answers, ui)?;
            }
        }
        let mut entry = plan.source_entry(source_name, &answers).map_err(import_error)?;
        let mcp = match entry.remove("mcp") {
            Some(Value::Object(mcp)) => mcp,
            _ => Map::new(),
        };
        if let Some(url) = mcp.get("url").and_then(Value::as_str) {
            found.check_endpoint(url).await?;
        }
        Ok(ImportedServer { mcp, starts_program: plan.starts_program() })
    }

    /// Asks whether a program of a document may be started.
    ///
    /// # Errors
    /// The answer is no, or there is no terminal and no `--yes`.
    pub(super) fn confirm_program(
        &self,
        lines: &str,
        ui: &mut Printer,
    ) -> Result<(), CommandError> {
        if self.yes {
            return Ok(());
        }
        ui.print_note(&sanitize_text(lines));
        let question = "Add this source? Its program runs with all rights of the server.";
        match ui.ask_confirmation(question) {
            Some(true) => Ok(()),
            Some(false) => Err(CommandError::new(ExitStatus::Failed, "the source was not added")),
            None => {
                let message = "the server starts a program, which must be confirmed";
                Err(CommandError::new(ExitStatus::UsageError, message)
                    .with_help("check the command above, then pass `--yes`"))
            }
        }
    }
}

impl UseWord {
    fn variant(self) -> ServerVariant {
        match self {
            Self::Remote => ServerVariant::Remote,
            Self::Npm => ServerVariant::Npm,
            Self::Pypi => ServerVariant::Pypi,
        }
    }
}

/// Asks for a missing value. Of a secret, only the name of its environment variable is asked for.
fn ask_value(
    input: &ServerInput,
    answers: &mut InputAnswers,
    ui: &mut Printer,
) -> Result<(), CommandError> {
    let (key, about) = (
        sanitize_line(&input.key, MAX_SHOWN_CHARS),
        sanitize_line(&input.description, MAX_SHOWN_CHARS),
    );
    if !input.is_secret {
        if let Some(value) = ui.ask_line(&format!("{key} ({about})")) {
            answers.add_value(&input.key, value);
        }
        return Ok(());
    }
    let question = format!("{key} ({about}): environment variable of the server that contains it");
    match ui.ask_line(&question) {
        Some(variable) => answers.add_variable(&input.key, &variable).map_err(import_error),
        None => Ok(()),
    }
}

/// Converts an error of an import to one of the command.
pub(super) fn import_error(error: ImportError) -> CommandError {
    let ImportError { kind, message, help } = error;
    let exit = match kind {
        ImportErrorKind::InvalidInput => ExitStatus::UsageError,
        ImportErrorKind::InvalidDocument | ImportErrorKind::Unsupported => ExitStatus::Failed,
    };
    let failure = CommandError::new(exit, message);
    match help {
        Some(help) => failure.with_help(help),
        None => failure,
    }
}
