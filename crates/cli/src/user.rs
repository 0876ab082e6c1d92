//! Implements `toolkeep user`: commands for users.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tool::Level;

use cli_core::client::Path;
use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::pages;
use cli_core::ui::{Ui, table};
use cli_core::value;

/// Make, list, promote and disable users. A user is who keys stand for. Needs the right `keys:write`.
#[derive(Debug, Subcommand)]
pub(crate) enum User {
    Create(Create),
    List(List),
    Promote(Promote),
    Disable(Disable),
    Enable(Enable),
}

impl User {
    pub(crate) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        match self {
            Self::Create(command) => command.run(context, ui).await,
            Self::List(command) => command.run(context, ui).await,
            Self::Promote(command) => command.run(context, ui).await,
            Self::Disable(Disable { subject }) => {
                let session = context.connect().await?;
                let answer = session.client.delete(&Path::new("/v1/users", &[&subject])).await;
                session.end().await?;
                shown(ui, &answer?)
            }
            Self::Enable(Enable { subject }) => {
                let path = Path::new("/v1/users", &[&subject, "enable"]);
                let session = context.connect().await?;
                let answer = session.client.post(&path, &json!({})).await;
                session.end().await?;
                shown(ui, &answer?)
            }
        }
    }
}

/// Parses a level that a user may have: nobody can be made an owner.
fn level_of_user(word: &str) -> Result<Level, String> {
    let fix = "use one of guest, user, admin";
    match word.parse::<Level>() {
        Ok(Level::Owner) => Err(format!("nobody is made an owner; {fix}")),
        Ok(level) => Ok(level),
        Err(_) => Err(format!("unknown permission level `{}`; {fix}", word.escape_debug())),
    }
}

fn shown(ui: &mut Ui, user: &Value) -> Result<Exit, Failure> {
    ui.answer(user, || text(std::slice::from_ref(user)))?;
    Ok(Exit::Done)
}

/// Disable a user: none of its keys holds from here on.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep user disable ann")]
pub(crate) struct Disable {
    /// The user.
    #[arg(value_name = "NAME")]
    subject: String,
}

/// Enable a user again.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep user enable ann")]
pub(crate) struct Enable {
    /// The user.
    #[arg(value_name = "NAME")]
    subject: String,
}

/// Make a user, with a key that is shown once and not kept.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep user create ann
  toolkeep user create ann --level user --persona coder")]
pub(crate) struct Create {
    /// The user, as it will be on record.
    #[arg(value_name = "NAME")]
    subject: String,
    /// Its level: guest, user, admin.
    #[arg(long, value_name = "LEVEL", default_value = "guest", value_parser = level_of_user)]
    level: Level,
    /// The persona whose modules it may use.
    #[arg(long, value_name = "NAME")]
    persona: Option<String>,
    /// A role of the user and of its key. May be given several times.
    #[arg(long = "role", value_name = "NAME")]
    roles: Vec<String>,
    /// Whether a person holds the key, rather than an agent.
    #[arg(long)]
    person: bool,
}

impl Create {
    async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let body = json!({
            "subject": self.subject, "level": self.level, "persona": self.persona,
            "person": self.person, "roles": self.roles,
        });
        let session = context.connect().await?;
        let answer = session.client.post(&Path::new("/v1/users", &[]), &body).await;
        session.end().await?;
        let answer: Value = answer?;
        ui.answer(&answer, || value::text(&answer, "key"))?;
        ui.note(&format!("the key {} is shown this once", value::line(&answer, "id", 32)));
        Ok(Exit::Done)
    }
}

/// List the users: the level and the persona of each.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep user list")]
pub(crate) struct List {}

impl List {
    async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let session = context.connect().await?;
        let answer = pages::all(&session.client, "/v1/users", "users").await;
        session.end().await?;
        let answer = answer?;
        ui.answer(&answer, || text(value::list(&answer, "users")))?;
        Ok(Exit::Done)
    }
}

/// Give a user another level, with its keys that are not lower. No user becomes an owner.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep user promote ann --level admin")]
pub(crate) struct Promote {
    /// The user.
    #[arg(value_name = "NAME")]
    subject: String,
    /// Its level from now on: guest, user, admin.
    #[arg(long, value_name = "LEVEL", value_parser = level_of_user)]
    level: Level,
}

impl Promote {
    async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let path = Path::new("/v1/users", &[&self.subject, "level"]);
        let session = context.connect().await?;
        let answer = session.client.post(&path, &json!({ "level": self.level })).await;
        session.end().await?;
        let answer: Value = answer?;
        ui.answer(&answer, || text(std::slice::from_ref(&answer)))?;
        Ok(Exit::Done)
    }
}

fn text(users: &[Value]) -> String {
    let row = |user: &Value| {
        [
            value::line(user, "subject", 40),
            value::line(user, "level", 8),
            value::line(user, "persona", 40),
            value::line(user, "roles", 40),
            value::line(user, "keys", 8),
            value::line(user, "disabled", 24),
        ]
    };
    let rows: Vec<_> = users.iter().map(row).collect();
    table(["USER", "LEVEL", "PERSONA", "ROLES", "KEYS", "DISABLED"], &rows)
}

#[cfg(test)]
mod tests {
    use tool::Level;

    use super::level_of_user;

    #[test]
    fn a_level_of_a_user_is_none_of_the_owner_and_the_words_are_told_without_it() {
        assert_eq!(level_of_user("admin"), Ok(Level::Admin));
        let fix = "use one of guest, user, admin";
        assert_eq!(level_of_user("owner"), Err(format!("nobody is made an owner; {fix}")));
        assert_eq!(level_of_user("root"), Err(format!("unknown permission level `root`; {fix}")));
    }
}
