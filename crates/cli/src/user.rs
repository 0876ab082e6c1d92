//! Implements `toolkeep user`: commands for users.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tool::PermissionLevel;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::paged_list;
use cli_core::printer::{Printer, format_table};
use cli_core::rest_client::RequestPath;

/// Create, list, promote, enable and disable users, the owners of API keys. Requires the right
/// `keys:write`.
#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    Create(UserCreateArgs),
    List(UserListArgs),
    Promote(UserPromoteArgs),
    Disable(UserDisableArgs),
    Enable(UserEnableArgs),
}

impl UserCommand {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        match self {
            Self::Create(command) => command.run(context, ui).await,
            Self::List(command) => command.run(context, ui).await,
            Self::Promote(command) => command.run(context, ui).await,
            Self::Disable(UserDisableArgs { subject }) => {
                let session = context.connect().await?;
                let answer = session
                    .client
                    .delete_json(&RequestPath::from_segments("/v1/users", &[&subject]))
                    .await;
                session.close().await?;
                print_user(ui, &answer?)
            }
            Self::Enable(UserEnableArgs { subject }) => {
                let path = RequestPath::from_segments("/v1/users", &[&subject, "enable"]);
                let session = context.connect().await?;
                let answer = session.client.post_json(&path, &json!({})).await;
                session.close().await?;
                print_user(ui, &answer?)
            }
        }
    }
}

/// Parses a level that a user may have: nobody can be made an owner.
fn level_of_user(word: &str) -> Result<PermissionLevel, String> {
    let fix = "use one of guest, user, admin";
    match word.parse::<PermissionLevel>() {
        Ok(PermissionLevel::Owner) => Err(format!("nobody can be made an owner; {fix}")),
        Ok(level) => Ok(level),
        Err(_) => Err(format!("unknown permission level `{}`; {fix}", word.escape_debug())),
    }
}

fn print_user(ui: &mut Printer, user: &Value) -> Result<ExitStatus, CommandError> {
    ui.print_result(user, || format_users(std::slice::from_ref(user)))?;
    Ok(ExitStatus::Success)
}

/// Disable a user. Its keys become invalid.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep user disable ann")]
pub(crate) struct UserDisableArgs {
    /// Name of the user.
    #[arg(value_name = "NAME")]
    subject: String,
}

/// Enable a disabled user.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep user enable ann")]
pub(crate) struct UserEnableArgs {
    /// Name of the user.
    #[arg(value_name = "NAME")]
    subject: String,
}

/// Create a user and a key, which is printed once and cannot be shown again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep user create ann
  toolkeep user create ann --level user --persona coder")]
pub(crate) struct UserCreateArgs {
    /// Name of the user, as shown in the record.
    #[arg(value_name = "NAME")]
    subject: String,
    /// Level of the user: guest, user, admin.
    #[arg(long, value_name = "LEVEL", default_value = "guest", value_parser = level_of_user)]
    level: PermissionLevel,
    /// Persona of the user, which defines the sources it may use.
    #[arg(long, value_name = "NAME")]
    persona: Option<String>,
    /// Role of the user and its key. Can be repeated.
    #[arg(long = "role", value_name = "NAME")]
    roles: Vec<String>,
    /// Create the key for a person instead of an agent.
    #[arg(long)]
    person: bool,
}

impl UserCreateArgs {
    async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let body = json!({
            "subject": self.subject, "level": self.level, "persona": self.persona,
            "person": self.person, "roles": self.roles,
        });
        let session = context.connect().await?;
        let answer =
            session.client.post_json(&RequestPath::from_segments("/v1/users", &[]), &body).await;
        session.close().await?;
        let answer: Value = answer?;
        ui.print_result(&answer, || json_fields::field_text(&answer, "key"))?;
        ui.print_note(&format!(
            "key {} was created; it is printed only once",
            json_fields::field_line(&answer, "id", 32)
        ));
        Ok(ExitStatus::Success)
    }
}

/// List the users with their level and persona.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep user list")]
pub(crate) struct UserListArgs {}

impl UserListArgs {
    async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let session = context.connect().await?;
        let answer = paged_list::fetch_all_pages(&session.client, "/v1/users", "users").await;
        session.close().await?;
        let answer = answer?;
        ui.print_result(&answer, || format_users(json_fields::field_items(&answer, "users")))?;
        Ok(ExitStatus::Success)
    }
}

/// Set the level of a user and of its keys that do not have a lower one. No user can become an
/// owner.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep user promote ann --level admin")]
pub(crate) struct UserPromoteArgs {
    /// Name of the user.
    #[arg(value_name = "NAME")]
    subject: String,
    /// New level of the user: guest, user, admin.
    #[arg(long, value_name = "LEVEL", value_parser = level_of_user)]
    level: PermissionLevel,
}

impl UserPromoteArgs {
    async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let path = RequestPath::from_segments("/v1/users", &[&self.subject, "level"]);
        let session = context.connect().await?;
        let answer = session.client.post_json(&path, &json!({ "level": self.level })).await;
        session.close().await?;
        let answer: Value = answer?;
        ui.print_result(&answer, || format_users(std::slice::from_ref(&answer)))?;
        Ok(ExitStatus::Success)
    }
}

fn format_users(users: &[Value]) -> String {
    let row = |user: &Value| {
        [
            json_fields::field_line(user, "subject", 40),
            json_fields::field_line(user, "level", 8),
            json_fields::field_line(user, "persona", 40),
            json_fields::field_line(user, "roles", 40),
            json_fields::field_line(user, "keys", 8),
            json_fields::field_line(user, "disabled", 24),
        ]
    };
    let rows: Vec<_> = users.iter().map(row).collect();
    format_table(["USER", "LEVEL", "PERSONA", "ROLES", "KEYS", "DISABLED"], &rows)
}

#[cfg(test)]
mod tests {
    use tool::PermissionLevel;

    use super::level_of_user;

    #[test]
    fn a_level_of_a_user_is_none_of_the_owner_and_the_words_are_told_without_it() {
        assert_eq!(level_of_user("admin"), Ok(PermissionLevel::Admin));
        let fix = "use one of guest, user, admin";
        assert_eq!(level_of_user("owner"), Err(format!("nobody can be made an owner; {fix}")));
        assert_eq!(level_of_user("root"), Err(format!("unknown permission level `root`; {fix}")));
    }
}
