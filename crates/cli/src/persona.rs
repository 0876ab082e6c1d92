//! Implements `toolkeep persona`: commands for personas.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::{Printer, format_table};
use cli_core::rest_client::RequestPath;

/// Create, list and change personas, which define the sources a user may use. Requires the right
/// `keys:write`.
#[derive(Debug, Subcommand)]
pub(crate) enum PersonaCommand {
    Create(PersonaCreateArgs),
    List(PersonaListArgs),
    Set(PersonaSetArgs),
    Default(PersonaDefaultArgs),
}

impl PersonaCommand {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        match self {
            Self::Create(PersonaCreateArgs { name, modules }) => {
                let body = json!({ "name": name, "allowed_modules": modules });
                post_persona(context, ui, &RequestPath::from_segments("/v1/personas", &[]), &body)
                    .await
            }
            Self::List(command) => command.run(context, ui).await,
            Self::Set(PersonaSetArgs { name, modules }) => {
                let body = json!({ "allowed_modules": modules });
                post_persona(
                    context,
                    ui,
                    &RequestPath::from_segments("/v1/personas", &[&name]),
                    &body,
                )
                .await
            }
            Self::Default(PersonaDefaultArgs { name }) => {
                let body = json!({ "default": true });
                post_persona(
                    context,
                    ui,
                    &RequestPath::from_segments("/v1/personas", &[&name]),
                    &body,
                )
                .await
            }
        }
    }
}

/// Create a persona that may use the named sources.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep persona create coder --modules research,code_executor,builtin")]
pub(crate) struct PersonaCreateArgs {
    /// Name of the persona.
    #[arg(value_name = "NAME")]
    name: String,
    /// Sources whose tools the persona may use, separated by commas; `builtin` stands for the
    /// built-in tools [default: none].
    #[arg(long, value_name = "SOURCES", value_delimiter = ',')]
    modules: Vec<String>,
}

/// Set the sources of a persona. The change applies to its users at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep persona set coder --modules research,file_manager")]
pub(crate) struct PersonaSetArgs {
    /// Name of the persona.
    #[arg(value_name = "NAME")]
    name: String,
    /// New sources of the persona, separated by commas.
    #[arg(long, value_name = "SOURCES", value_delimiter = ',', required = true)]
    modules: Vec<String>,
}

/// Set the default persona, which applies to all users without one, except the owner.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep persona default coder")]
pub(crate) struct PersonaDefaultArgs {
    /// Name of the persona.
    #[arg(value_name = "NAME")]
    name: String,
}

async fn post_persona(
    context: &CommandContext<'_>,
    ui: &mut Printer,
    path: &RequestPath,
    body: &Value,
) -> Result<ExitStatus, CommandError> {
    let session = context.connect().await?;
    let answer = session.client.post_json(path, body).await;
    session.close().await?;
    let answer: Value = answer?;
    ui.print_result(&answer, || format_personas(std::slice::from_ref(&answer)))?;
    let unknown = json_fields::field_line(&answer, "unknown_modules", 400);
    if !unknown.is_empty() {
        ui.print_note(&format!(
            "no source is named {unknown}, so the entry allows no tools yet; run `toolkeep source \
             list` to see the names"
        ));
    }
    Ok(ExitStatus::Success)
}

/// List the personas with their sources.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep persona list")]
pub(crate) struct PersonaListArgs {}

impl PersonaListArgs {
    async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let session = context.connect().await?;
        let answer =
            session.client.get_json(&RequestPath::from_segments("/v1/personas", &[])).await;
        session.close().await?;
        let answer = answer?;
        ui.print_result(&answer, || {
            format_personas(json_fields::field_items(&answer, "personas"))
        })?;
        Ok(ExitStatus::Success)
    }
}

fn format_personas(personas: &[Value]) -> String {
    let row = |persona: &Value| {
        let default = persona.get("default").and_then(Value::as_bool) == Some(true);
        [
            json_fields::field_line(persona, "name", 40),
            if default { "yes" } else { "" }.to_owned(),
            json_fields::field_line(persona, "allowed_modules", 120),
        ]
    };
    let rows: Vec<_> = personas.iter().map(row).collect();
    format_table(["PERSONA", "DEFAULT", "MODULES"], &rows)
}
