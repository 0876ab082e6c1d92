//! Implements `toolkeep persona`: commands for personas.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use cli_core::client::Path;
use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::{Ui, table};
use cli_core::value;

/// Make, list and change personas: which sources' tools belong to each. Needs the right `keys:write`.
#[derive(Debug, Subcommand)]
pub(crate) enum Persona {
    Create(Create),
    List(List),
    Set(Set),
    Default(Default),
}

impl Persona {
    pub(crate) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        match self {
            Self::Create(Create { name, modules }) => {
                let body = json!({ "name": name, "allowed_modules": modules });
                one(context, ui, &Path::new("/v1/personas", &[]), &body).await
            }
            Self::List(command) => command.run(context, ui).await,
            Self::Set(Set { name, modules }) => {
                let body = json!({ "allowed_modules": modules });
                one(context, ui, &Path::new("/v1/personas", &[&name]), &body).await
            }
            Self::Default(Default { name }) => {
                let body = json!({ "default": true });
                one(context, ui, &Path::new("/v1/personas", &[&name]), &body).await
            }
        }
    }
}

/// Make a persona.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep persona create coder --modules research,code_executor,builtin")]
pub(crate) struct Create {
    /// Its name.
    #[arg(value_name = "NAME")]
    name: String,
    /// The sources whose tools belong to it, with commas; `builtin` are the built-in tools. None
    /// where it is left out.
    #[arg(long, value_name = "SOURCES", value_delimiter = ',')]
    modules: Vec<String>,
}

/// Give a persona other modules. Its users have them at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep persona set coder --modules research,file_manager")]
pub(crate) struct Set {
    /// The persona.
    #[arg(value_name = "NAME")]
    name: String,
    /// The sources whose tools belong to it from now on, with commas.
    #[arg(long, value_name = "SOURCES", value_delimiter = ',', required = true)]
    modules: Vec<String>,
}

/// Make a persona that of all who have none, the owner apart.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep persona default coder")]
pub(crate) struct Default {
    /// The persona.
    #[arg(value_name = "NAME")]
    name: String,
}

async fn one(
    context: &Context<'_>,
    ui: &mut Ui,
    path: &Path,
    body: &Value,
) -> Result<Exit, Failure> {
    let session = context.connect().await?;
    let answer = session.client.post(path, body).await;
    session.end().await?;
    let answer: Value = answer?;
    ui.answer(&answer, || text(std::slice::from_ref(&answer)))?;
    let unknown = value::line(&answer, "unknown_modules", 400);
    if !unknown.is_empty() {
        ui.note(&format!(
            "no source is called {unknown} now, so it allows nothing yet; \
             see `toolkeep source list` for the names"
        ));
    }
    Ok(Exit::Done)
}

/// List the personas and their modules.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep persona list")]
pub(crate) struct List {}

impl List {
    async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let session = context.connect().await?;
        let answer = session.client.get(&Path::new("/v1/personas", &[])).await;
        session.end().await?;
        let answer = answer?;
        ui.answer(&answer, || text(value::list(&answer, "personas")))?;
        Ok(Exit::Done)
    }
}

fn text(personas: &[Value]) -> String {
    let row = |persona: &Value| {
        let default = persona.get("default").and_then(Value::as_bool) == Some(true);
        [
            value::line(persona, "name", 40),
            if default { "yes" } else { "" }.to_owned(),
            value::line(persona, "allowed_modules", 120),
        ]
    };
    let rows: Vec<_> = personas.iter().map(row).collect();
    table(["PERSONA", "DEFAULT", "MODULES"], &rows)
}
