//! Implements `toolkeep org`: commands for organizations.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use cli_core::client::Path;
use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::{Ui, table};
use cli_core::value;

/// Make, list and disable organisations, and say which tools they may use. Needs the right `orgs:write`.
#[derive(Debug, Subcommand)]
pub(crate) enum Org {
    Create(Create),
    List(List),
    Tools(Tools),
    Disable(Disable),
    Enable(Enable),
}

/// Make an organisation, with the key of its owner, which is shown once and not kept.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep org create acme")]
pub(crate) struct Create {
    /// Its name.
    #[arg(value_name = "NAME")]
    name: String,
    /// A line for people.
    #[arg(long, value_name = "TEXT", default_value = "")]
    description: String,
}

/// List the organisations.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep org list")]
pub(crate) struct List {}

/// Show the tools an organisation may use, or say which.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep org tools acme
  toolkeep org tools acme --set 'notes.*,web_search'
  toolkeep org tools acme --none")]
pub(crate) struct Tools {
    /// The organisation.
    #[arg(value_name = "NAME")]
    name: String,
    /// Patterns and groups of its tools from now on, with commas.
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    set: Vec<String>,
    /// Allow it no tool at all.
    #[arg(long, conflicts_with = "set")]
    none: bool,
}

/// Disable an organisation: none of its keys holds from here on.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep org disable acme")]
pub(crate) struct Disable {
    /// The organisation.
    #[arg(value_name = "NAME")]
    name: String,
}

/// Enable an organisation again.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep org enable acme")]
pub(crate) struct Enable {
    /// The organisation.
    #[arg(value_name = "NAME")]
    name: String,
}

impl Org {
    pub(crate) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let session = context.connect().await?;
        session.list_sources(None, ui).await;
        let client = &session.client;
        let answer = match &self {
            Self::Create(Create { name, description }) => {
                let body = json!({"name": name, "description": description});
                client.post(&Path::new("/v1/orgs", &[]), &body).await
            }
            Self::List(List {}) => client.get(&Path::new("/v1/orgs", &[])).await,
            Self::Tools(Tools { name, set, none }) => {
                let path = Path::new("/v1/orgs", &[name, "tools"]);
                if set.is_empty() && !none {
                    client.get(&path).await
                } else {
                    client.put(&path, &json!({"tools": set})).await
                }
            }
            Self::Disable(Disable { name }) => client.delete(&Path::new("/v1/orgs", &[name])).await,
            Self::Enable(Enable { name }) => {
                client.post(&Path::new("/v1/orgs", &[name, "enable"]), &json!({})).await
            }
        };
        session.end().await?;
        let answer: Value = answer?;
        ui.answer(&answer, || self.text(&answer))?;
        if matches!(self, Self::Create(_)) {
            ui.note(&format!("the key {} is shown this once", value::line(&answer, "id", 32)));
        }
        Ok(Exit::Done)
    }

    fn text(&self, answer: &Value) -> String {
        match self {
            Self::Create(_) => value::text(answer, "key"),
            Self::List(_) => text(value::list(answer, "orgs")),
            Self::Tools(_) => tools(answer),
            Self::Disable(_) | Self::Enable(_) => text(std::slice::from_ref(answer)),
        }
    }
}

fn tools(answer: &Value) -> String {
    let rows: Vec<_> = value::list(answer, "tools")
        .iter()
        .map(|pattern| [pattern.as_str().unwrap_or_default().escape_debug().to_string()])
        .collect();
    table(["TOOLS"], &rows)
}

fn text(orgs: &[Value]) -> String {
    let row = |org: &Value| {
        [
            value::line(org, "org", 64),
            value::line(org, "keys", 8),
            value::line(org, "tools", 8),
            value::line(org, "disabled", 24),
            value::line(org, "description", 60),
        ]
    };
    let rows: Vec<_> = orgs.iter().map(row).collect();
    table(["ORG", "KEYS", "TOOLS", "DISABLED", "DESCRIPTION"], &rows)
}
