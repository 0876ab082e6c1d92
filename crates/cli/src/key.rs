//! Implements `toolkeep key`: commands for API keys.

mod create;
mod list;
mod recover;
mod revoke;

use clap::Subcommand;
use serde_json::Value;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::{Printer, format_table};

/// Create, list, revoke and recover API keys. Requires the right `keys:write`, as owner.key has it;
/// any key can create narrower keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    Create(Box<create::KeyCreateArgs>),
    List(list::KeyListArgs),
    Revoke(revoke::KeyRevokeArgs),
    Recover(recover::KeyRecoverArgs),
}

impl KeyCommand {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        match self {
            Self::Create(command) => command.run(context, ui).await,
            Self::List(command) => command.run(context, ui).await,
            Self::Revoke(command) => command.run(context, ui).await,
            Self::Recover(recover::KeyRecoverArgs {}) => {
                recover::KeyRecoverArgs::run(context, ui).await
            }
        }
    }
}

/// Formats keys as a table.
fn format_keys(keys: &[Value]) -> String {
    let row = |key: &Value| {
        let holder = match key.get("agent").and_then(Value::as_bool) {
            Some(false) => "person",
            _ => "agent",
        };
        let revoked = json_fields::field_line(key, "revoked", 24);
        let expires = json_fields::field_line(key, "expires", 24);
        let over = json_fields::field_line(key, "over", 24);
        let until = match (revoked.is_empty(), expires.is_empty()) {
            (false, _) => format!("revoked {revoked}"),
            // Invalid because of its parent key, its user or its organization.
            _ if !over.is_empty() => over,
            (true, false) => expires,
            (true, true) => "for ever".to_owned(),
        };
        [
            json_fields::field_line(key, "id", 32),
            json_fields::field_line(key, "subject", 24),
            json_fields::field_line(key, "level", 8),
            holder.to_owned(),
            json_fields::field_line(key, "rights", 60),
            json_fields::field_line(key, "created", 24),
            until,
            json_fields::field_line(key, "label", 40),
        ]
    };
    let rows: Vec<_> = keys.iter().map(row).collect();
    let head = ["ID", "SUBJECT", "LEVEL", "HOLDER", "RIGHTS", "CREATED", "UNTIL", "LABEL"];
    format_table(head, &rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::format_keys;

    #[test]
    fn a_key_is_shown_with_its_end() {
        let key = |revoked: Option<&str>, expires: Option<&str>| {
            json!({ "id": "k", "subject": "ann", "level": "user", "agent": true, "rights": [],
                "created": "C", "expires": expires, "revoked": revoked, "label": "" })
        };
        let keys = [key(None, None), key(None, Some("E")), key(Some("R"), Some("E"))];
        let expected = "\
ID  SUBJECT  LEVEL  HOLDER  RIGHTS  CREATED  UNTIL      LABEL
k   ann      user   agent           C        for ever
k   ann      user   agent           C        E
k   ann      user   agent           C        revoked R";
        assert_eq!(format_keys(&keys), expected);
    }
}
