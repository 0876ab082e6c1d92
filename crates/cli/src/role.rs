//! Implements `toolkeep role`: commands for roles.

use clap::{Args, Subcommand};
use identity::Right;
use serde_json::{Value, json};
use tool::Level;

use cli_core::client::Path;
use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::{Ui, table};
use cli_core::value;

/// Make, list and revoke roles: rights and a cap on the level, for the keys that name them. Needs the right
/// `keys:write`.
#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    Set(Set),
    List(List),
    Revoke(Revoke),
}

/// Make a role, or change it. Its keys have it so at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep role set ops --level admin --right records:read")]
pub(crate) struct Set {
    /// Its name.
    #[arg(value_name = "NAME")]
    name: String,
    /// A line for people.
    #[arg(long, value_name = "TEXT", default_value = "")]
    description: String,
    /// The highest level of its keys: guest, user, admin [default: no cap].
    #[arg(long, value_name = "LEVEL")]
    level: Option<Level>,
    /// A right of its keys beside calling tools. May be given several times.
    #[arg(long = "right", value_name = "RIGHT")]
    rights: Vec<Right>,
}

/// List the roles.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep role list")]
pub(crate) struct List {}

/// Revoke a role: keys that name it may use nothing from here on.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep role revoke ops")]
pub(crate) struct Revoke {
    /// The role.
    #[arg(value_name = "NAME")]
    name: String,
}

impl Role {
    pub(crate) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let session = context.connect().await?;
        let client = &session.client;
        let answer = match &self {
            Self::Set(Set { name, description, level, rights }) => {
                let body = json!({"description": description, "level": level, "rights": rights});
                client.put(&Path::new("/v1/roles", &[name]), &body).await
            }
            Self::List(List {}) => client.get(&Path::new("/v1/roles", &[])).await,
            Self::Revoke(Revoke { name }) => client.delete(&Path::new("/v1/roles", &[name])).await,
        };
        session.end().await?;
        let answer: Value = answer?;
        let one = std::slice::from_ref(&answer);
        let roles = if matches!(self, Self::List(_)) { value::list(&answer, "roles") } else { one };
        ui.answer(&answer, || text(roles))?;
        Ok(Exit::Done)
    }
}

fn text(roles: &[Value]) -> String {
    let row = |role: &Value| {
        [
            value::line(role, "name", 64),
            value::line(role, "level", 8),
            value::line(role, "rights", 60),
            value::line(role, "keys", 8),
            value::line(role, "revoked", 24),
            value::line(role, "description", 60),
        ]
    };
    let rows: Vec<_> = roles.iter().map(row).collect();
    table(["ROLE", "CAP", "RIGHTS", "KEYS", "REVOKED", "DESCRIPTION"], &rows)
}
