//! `toolkeep key create`.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::client::Path;
use crate::cli::context::Context;
use crate::cli::failure::{Exit, Failure};
use crate::cli::ui::Ui;
use crate::cli::value;

/// Make a key. It is shown once and not kept.
///
/// Without `--person` it is an agent's: such a key never approves and never makes keys. No key can
/// give more than it has itself.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep key create --subject assistant --expires 90d
  toolkeep key create --subject ann --person --level admin --right approve
  toolkeep key create --subject guest --level guest --module notes --module web")]
pub(in crate::cli) struct Create {
    /// The user it stands for, as it will be on record.
    #[arg(long, value_name = "NAME")]
    subject: String,
    /// Its level: guest, user, admin, owner.
    #[arg(long, value_name = "LEVEL", default_value = "user")]
    level: tool::Level,
    /// Whether a person holds it, rather than an agent.
    #[arg(long)]
    person: bool,
    /// A right beside calling tools: approve, keys:write, pins:write, records:read, sources:refresh. May be
    /// given several times.
    #[arg(long = "right", value_name = "RIGHT")]
    rights: Vec<identity::Right>,
    /// A source whose tools it may use; no other's. May be given several times.
    #[arg(long = "module", value_name = "SOURCE")]
    modules: Vec<String>,
    /// A line for people.
    #[arg(long, value_name = "TEXT", default_value = "")]
    label: String,
    /// When it ends by itself, such as 12h or 90d; never where it is left out.
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    expires: Option<Duration>,
}

impl Create {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let mut body = json!({
            "subject": self.subject,
            "level": self.level,
            "agent": !self.person,
            "rights": self.rights,
            "label": self.label,
        });
        if let Some(fields) = body.as_object_mut() {
            if !self.modules.is_empty() {
                fields.insert("persona_modules".to_owned(), json!(self.modules));
            }
            if let Some(time) = self.expires {
                fields.insert("expires_in".to_owned(), json!(time.as_secs()));
            }
        }
        let session = context.connect().await?;
        let answer = session.client.post(&Path::new("/v1/keys", &[]), &body).await;
        session.end().await?;
        let answer: Value = answer?;
        ui.answer(&answer, || value::text(&answer, "key"))?;
        ui.note(&format!("the key {} is shown this once", value::line(&answer, "id", 32)));
        Ok(Exit::Done)
    }
}

/// A whole number of minutes, hours or days.
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
