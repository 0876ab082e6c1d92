//! Implements `toolkeep role`: commands for roles.

use clap::{Args, Subcommand};
use identity::Right;
use serde_json::{Value, json};
use tool::PermissionLevel;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::{Printer, format_table};
use cli_core::rest_client::RequestPath;

/// Create, list and revoke roles, which give rights and a maximum level to keys. Requires the right
/// `keys:write`.
#[derive(Debug, Subcommand)]
pub(crate) enum RoleCommand {
    Set(RoleSetArgs),
    List(RoleListArgs),
    Revoke(RoleRevokeArgs),
}

/// Create or change a role. Changes apply to its keys at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep role set ops --level admin --right records:read")]
pub(crate) struct RoleSetArgs {
    /// Name of the role.
    #[arg(value_name = "NAME")]
    name: String,
    /// Description of the role.
    #[arg(long, value_name = "TEXT", default_value = "")]
    description: String,
    /// Maximum level of its keys: guest, user, admin [default: no maximum].
    #[arg(long, value_name = "LEVEL")]
    level: Option<PermissionLevel>,
    /// Right of its keys besides calling tools. Can be repeated.
    #[arg(long = "right", value_name = "RIGHT")]
    rights: Vec<Right>,
}

/// List all roles of the server.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep role list")]
pub(crate) struct RoleListArgs {}

/// Revoke a role. Keys that have it can no longer be used.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep role revoke ops")]
pub(crate) struct RoleRevokeArgs {
    /// Name of the role.
    #[arg(value_name = "NAME")]
    name: String,
}

impl RoleCommand {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let session = context.connect().await?;
        let client = &session.client;
        let answer = match &self {
            Self::Set(RoleSetArgs { name, description, level, rights }) => {
                let body = json!({"description": description, "level": level, "rights": rights});
                client.put_json(&RequestPath::from_segments("/v1/roles", &[name]), &body).await
            }
            Self::List(RoleListArgs {}) => {
                client.get_json(&RequestPath::from_segments("/v1/roles", &[])).await
            }
            Self::Revoke(RoleRevokeArgs { name }) => {
                client.delete_json(&RequestPath::from_segments("/v1/roles", &[name])).await
            }
        };
        session.close().await?;
        let answer: Value = answer?;
        let one = std::slice::from_ref(&answer);
        let roles = if matches!(self, Self::List(_)) {
            json_fields::field_items(&answer, "roles")
        } else {
            one
        };
        ui.print_result(&answer, || format_roles(roles))?;
        Ok(ExitStatus::Success)
    }
}

fn format_roles(roles: &[Value]) -> String {
    let row = |role: &Value| {
        [
            json_fields::field_line(role, "name", 64),
            json_fields::field_line(role, "level", 8),
            json_fields::field_line(role, "rights", 60),
            json_fields::field_line(role, "keys", 8),
            json_fields::field_line(role, "revoked", 24),
            json_fields::field_line(role, "description", 60),
        ]
    };
    let rows: Vec<_> = roles.iter().map(row).collect();
    format_table(["ROLE", "CAP", "RIGHTS", "KEYS", "REVOKED", "DESCRIPTION"], &rows)
}
