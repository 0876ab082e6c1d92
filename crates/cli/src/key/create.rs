//! Implements `toolkeep key create`, which creates or delegates a key.

use std::time::Duration;

use clap::Args;
use identity::Right;
use serde_json::{Value, json};

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::Printer;
use cli_core::rest_client::RequestPath;

/// Create an API key. The key is printed once and cannot be shown again.
///
/// Without `--person`, the key is an agent's: it cannot approve calls, and can only create
/// delegated keys. A new key cannot have more rights than the key that creates it. With
/// `--delegate`, any key can create a narrower key of itself. A delegated key becomes invalid when
/// its parent expires or is revoked, and loses the rights its parent loses.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep key create --subject assistant --expires-in 90d
  toolkeep key create --subject ann --person --level admin --right approve
  toolkeep key create --subject guest --level guest --module notes --module web
  toolkeep key create --delegate --allow 'notes.*' --read-only --expires-in 1h
  toolkeep key create --delegate --act-as ann")]
pub(crate) struct KeyCreateArgs {
    /// User that the key stands for, as shown in the record.
    #[arg(long, value_name = "NAME", required_unless_present = "delegate")]
    subject: Option<String>,
    /// Level of the key: guest, user, admin, owner [default: user; with `--delegate`, the level of
    /// the creating key].
    #[arg(long, value_name = "LEVEL")]
    level: Option<tool::PermissionLevel>,
    #[command(flatten)]
    delegation: DelegationArgs,
    /// Create the key for a person instead of an agent.
    #[arg(long)]
    person: bool,
    #[arg(long = "right", value_name = "RIGHT", help = rights_help())]
    rights: Vec<Right>,
    /// Source whose tools the key may use; all others are excluded. Can be repeated.
    #[arg(long = "module", value_name = "SOURCE")]
    modules: Vec<String>,
    /// Role of the key. Can be repeated.
    #[arg(long = "role", value_name = "NAME", conflicts_with = "delegate")]
    roles: Vec<String>,
    /// Toolset to which the key is bound: nothing else exists for it, and it has no rights.
    #[arg(long, value_name = "NAME", conflicts_with = "rights")]
    toolset: Option<String>,
    /// Description of the key.
    #[arg(long, value_name = "TEXT", default_value = "")]
    label: String,
    /// Lifetime of the key, such as 12h or 90d [default: unlimited; with `--delegate`, one day].
    #[arg(long = "expires-in", alias = "expires", value_name = "TIME", value_parser = lifetime)]
    expires: Option<Duration>,
}

/// Restrictions of a delegated key.
#[derive(Debug, Args)]
struct DelegationArgs {
    /// Create a narrower key of the key that sends the request.
    #[arg(long, conflicts_with = "subject")]
    delegate: bool,
    /// User to act for, with the lesser rights of both; requires the right `act_as`.
    #[arg(long, value_name = "NAME", requires = "delegate")]
    act_as: Option<String>,
    /// Pattern or group of tools to allow; all others are excluded. Can be repeated.
    #[arg(long, value_name = "PATTERN", requires = "delegate")]
    allow: Vec<String>,
    /// Pattern or group of tools to exclude. Can be repeated.
    #[arg(long, value_name = "PATTERN", requires = "delegate")]
    deny: Vec<String>,
    /// Exclude all tools with side effects.
    #[arg(long, requires = "delegate")]
    read_only: bool,
    /// Exclude all tools that reach the network.
    #[arg(long, requires = "delegate")]
    no_web: bool,
}

impl KeyCreateArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let path = if self.delegation.delegate { "/v1/keys/delegate" } else { "/v1/keys" };
        let body = self.request_body();
        let session = context.connect().await?;
        let answer = session.client.post_json(&RequestPath::from_segments(path, &[]), &body).await;
        session.close().await?;
        let answer: Value = answer?;
        ui.print_result(&answer, || json_fields::field_text(&answer, "key"))?;
        ui.print_note(&format!(
            "key {} was created; it is printed only once",
            json_fields::field_line(&answer, "id", 32)
        ));
        Ok(ExitStatus::Success)
    }

    fn request_body(self) -> Value {
        let Self {
            subject,
            level,
            delegation: hand,
            person,
            rights,
            modules,
            roles,
            toolset,
            label,
            expires,
        } = self;
        let (modules, expires) = (non_empty(modules), expires.map(|time| time.as_secs()));
        let body = if hand.delegate {
            json!({
                "level": level, "rights": rights, "person": person, "label": label,
                "modules": modules, "expires_in": expires, "act_as": hand.act_as,
                "allow": non_empty(hand.allow), "deny": hand.deny,
                "read_only": hand.read_only, "no_web": hand.no_web, "toolset": toolset,
            })
        } else {
            json!({
                "subject": subject, "level": level.unwrap_or(tool::PermissionLevel::User), "person": person,
                "rights": rights, "roles": non_empty(roles), "label": label, "modules": modules, "expires_in": expires,
                "toolset": toolset,
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
    format!("Right besides calling tools: {}. Can be repeated", rights.join(", "))
}

fn non_empty(list: Vec<String>) -> Option<Vec<String>> {
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
    let advice = "use a number with a unit, such as `30m`, `12h` or `90d`";
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

    use clap::Parser;

    use super::{KeyCreateArgs, lifetime};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: KeyCreateArgs,
    }

    /// Left out of a request, the toolset would leave the key unbound.
    #[test]
    fn a_new_and_a_delegated_key_are_bound_to_the_toolset() {
        for kind in [&["--subject", "a"][..], &["--delegate"]] {
            let line = [&["create"], kind, &["--toolset", "team"]].concat();
            let body = Line::try_parse_from(line).unwrap().args.request_body();
            assert_eq!(body["toolset"], "team", "{kind:?}");
        }
        let both = ["create", "--subject", "a", "--toolset", "t", "--right", "approve"];
        assert!(Line::try_parse_from(both).is_err());
    }

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
