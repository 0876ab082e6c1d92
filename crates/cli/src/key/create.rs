//! Implements `toolkeep key create`, which creates or delegates a key.

use std::time::Duration;

use clap::Args;
use identity::Right;
use serde_json::{Value, json};

use cli_core::client::Path;
use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;
use cli_core::value;

/// Make a key. It is shown once and not kept.
///
/// Without `--person` it is an agent's: such a key never approves and never makes keys. No key can
/// give more than it has itself. With `--delegate` it is a narrower key of the one that asks, which any
/// key may make: it ends when that one ends, is revoked or is lowered.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep key create --subject assistant --expires-in 90d
  toolkeep key create --subject ann --person --level admin --right approve
  toolkeep key create --subject guest --level guest --module notes --module web
  toolkeep key create --delegate --allow 'notes.*' --read-only --expires-in 1h
  toolkeep key create --delegate --act-as ann")]
pub(crate) struct Create {
    /// The user it stands for, as it will be on record.
    #[arg(long, value_name = "NAME", required_unless_present = "delegate")]
    subject: Option<String>,
    /// Its level: guest, user, admin, owner [default: user, or with `--delegate` that of the key].
    #[arg(long, value_name = "LEVEL")]
    level: Option<tool::Level>,
    #[command(flatten)]
    hand: Hand,
    /// Whether a person holds it, rather than an agent.
    #[arg(long)]
    person: bool,
    #[arg(long = "right", value_name = "RIGHT", help = rights_help())]
    rights: Vec<Right>,
    /// A source whose tools it may use; no other's. May be given several times.
    #[arg(long = "module", value_name = "SOURCE")]
    modules: Vec<String>,
    /// A role it has. May be given several times.
    #[arg(long = "role", value_name = "NAME", conflicts_with = "delegate")]
    roles: Vec<String>,
    /// A line for people.
    #[arg(long, value_name = "TEXT", default_value = "")]
    label: String,
    /// When it ends by itself, such as 12h or 90d [default: never, or with `--delegate` in a day].
    #[arg(long = "expires-in", alias = "expires", value_name = "TIME", value_parser = lifetime)]
    expires: Option<Duration>,
}

/// What a narrower key is.
#[derive(Debug, Args)]
struct Hand {
    /// Make a narrower key of the one that asks.
    #[arg(long, conflicts_with = "subject")]
    delegate: bool,
    /// The user to act for, at the lesser of both; needs the right `act_as`.
    #[arg(long, value_name = "NAME", requires = "delegate")]
    act_as: Option<String>,
    /// A pattern or a group of the tools that stay; no others do. May be given several times.
    #[arg(long, value_name = "PATTERN", requires = "delegate")]
    allow: Vec<String>,
    /// A pattern or a group of tools that are taken away. May be given several times.
    #[arg(long, value_name = "PATTERN", requires = "delegate")]
    deny: Vec<String>,
    /// Take away all tools with effects.
    #[arg(long, requires = "delegate")]
    read_only: bool,
    /// Take away all tools that reach the network.
    #[arg(long, requires = "delegate")]
    no_web: bool,
}

impl Create {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let path = if self.hand.delegate { "/v1/keys/delegate" } else { "/v1/keys" };
        let body = self.body();
        let session = context.connect().await?;
        let answer = session.client.post(&Path::new(path, &[]), &body).await;
        session.end().await?;
        let answer: Value = answer?;
        ui.answer(&answer, || value::text(&answer, "key"))?;
        ui.note(&format!("the key {} is shown this once", value::line(&answer, "id", 32)));
        Ok(Exit::Done)
    }

    fn body(self) -> Value {
        let Self { subject, level, hand, person, rights, modules, roles, label, expires } = self;
        let (modules, expires) = (given(modules), expires.map(|time| time.as_secs()));
        let body = if hand.delegate {
            json!({
                "level": level, "rights": rights, "person": person, "label": label,
                "modules": modules, "expires_in": expires, "act_as": hand.act_as,
                "allow": given(hand.allow), "deny": hand.deny,
                "read_only": hand.read_only, "no_web": hand.no_web,
            })
        } else {
            json!({
                "subject": subject, "level": level.unwrap_or(tool::Level::User), "person": person,
                "rights": rights, "roles": given(roles), "label": label, "modules": modules, "expires_in": expires,
            })
        };
        without_nulls(body)
    }
}

/// Returns the help text with all rights that a key can have, except that of invitations, which
/// only `toolkeep node invite` creates.
fn rights_help() -> String {
    let rights = Right::ALL.iter().filter(|right| **right != Right::NodesJoin);
    let rights: Vec<_> = rights.map(|right| right.as_str()).collect();
    format!("A right beside calling tools: {}. May be given several times", rights.join(", "))
}

fn given(list: Vec<String>) -> Option<Vec<String>> {
    (!list.is_empty()).then_some(list)
}

fn without_nulls(mut body: Value) -> Value {
    if let Some(members) = body.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    body
}

/// Parses a whole number of minutes, hours or days.
fn lifetime(text: &str) -> Result<Duration, String> {
    let advice = "write a number and its unit, such as `30m`, `12h` or `90d`";
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or(advice)?;
    let number: u64 = number.parse().map_err(|_| advice)?;
    let minutes = match unit {
        "m" => 1,
        "h" => 60,
        "d" => 24 * 60,
        _ => return Err(advice.to_owned()),
    };
    match number.checked_mul(minutes * 60) {
        Some(seconds @ 1..) => Ok(Duration::from_secs(seconds)),
        _ => Err(advice.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::lifetime;

    #[test]
    fn lifetimes() {
        assert_eq!(lifetime("90d"), Ok(Duration::from_hours(90 * 24)));
        assert_eq!(lifetime("12h"), Ok(Duration::from_hours(12)));
        for bad in [
            "",
            "90",
            "d",
            "0d",
            "-1d",
            "1.5h",
            "5é",
            "99999999999999999999d",
            "9999999999999999999d",
        ] {
            assert!(lifetime(bad).is_err(), "{bad}");
        }
    }
}
