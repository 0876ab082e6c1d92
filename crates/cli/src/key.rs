//! Implements `toolkeep key`: commands for API keys.

mod create;
mod list;
mod recover;
mod revoke;

use clap::Subcommand;
use serde_json::Value;

use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::{Ui, table};
use cli_core::value;

/// Make, list, revoke and recover keys. Needs a key with the right `keys:write`, as owner.key has it; any key may
/// make narrower ones of itself.
#[derive(Debug, Subcommand)]
pub(crate) enum Key {
    Create(create::Create),
    List(list::List),
    Revoke(revoke::Revoke),
    Recover(recover::Recover),
}

impl Key {
    pub(crate) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        match self {
            Self::Create(command) => command.run(context, ui).await,
            Self::List(command) => command.run(context, ui).await,
            Self::Revoke(command) => command.run(context, ui).await,
            Self::Recover(recover::Recover {}) => recover::Recover::run(context, ui).await,
        }
    }
}

/// Formats keys as a table.
fn text(keys: &[Value]) -> String {
    let row = |key: &Value| {
        let holder = match key.get("agent").and_then(Value::as_bool) {
            Some(false) => "person",
            _ => "agent",
        };
        let revoked = value::line(key, "revoked", 24);
        let expires = value::line(key, "expires", 24);
        let over = value::line(key, "over", 24);
        let until = match (revoked.is_empty(), expires.is_empty()) {
            (false, _) => format!("revoked {revoked}"),
            // Invalid because of its parent key, its user or its organization.
            _ if !over.is_empty() => over,
            (true, false) => expires,
            (true, true) => "for ever".to_owned(),
        };
        [
            value::line(key, "id", 32),
            value::line(key, "subject", 24),
            value::line(key, "level", 8),
            holder.to_owned(),
            value::line(key, "rights", 60),
            value::line(key, "created", 24),
            until,
            value::line(key, "label", 40),
        ]
    };
    let rows: Vec<_> = keys.iter().map(row).collect();
    let head = ["ID", "SUBJECT", "LEVEL", "HOLDER", "RIGHTS", "CREATED", "UNTIL", "LABEL"];
    table(head, &rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::text;

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
        assert_eq!(text(&keys), expected);
    }
}
