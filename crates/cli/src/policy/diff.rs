//! Implements `toolkeep policy diff`, which compares two policies.

use std::path::PathBuf;

use clap::Args;
use policy::Change;

use super::check::read;
use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::{Ui, clean};

/// Compare the policies of two configuration files, rule by rule.
///
/// The order within a list means nothing, and is not compared. Exits with 1 where they differ.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep policy diff toolkeep.yaml toolkeep.new.yaml")]
pub(crate) struct Diff {
    /// The file as it was.
    #[arg(value_name = "A")]
    before: PathBuf,
    /// The file as it is.
    #[arg(value_name = "B")]
    after: PathBuf,
}

impl Diff {
    pub(super) fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let (before, after) = (read(context, &self.before)?, read(context, &self.after)?);
        let changes = policy::diff(before.rules(), after.rules());
        ui.answer(&changes, || text(&changes))?;
        Ok(if changes.is_empty() { Exit::Done } else { Exit::Failed })
    }
}

fn text(changes: &[Change]) -> String {
    if changes.is_empty() {
        return "the policies are the same".to_owned();
    }
    let line = |change: &Change| {
        let Change { path, was, is } = change;
        // A list member is its own name.
        let shown = |value: &String| {
            let member = path.ends_with(&format!("[{value}]"));
            if member { String::new() } else { format!(" {value}") }
        };
        match (was, is) {
            (None, Some(is)) => format!("+ {path}{}", shown(is)),
            (Some(was), None) => format!("- {path}{}", shown(was)),
            (was, is) => {
                let (was, is) =
                    (was.as_deref().unwrap_or_default(), is.as_deref().unwrap_or_default());
                format!("~ {path} {was} -> {is}")
            }
        }
    };
    clean(&changes.iter().map(line).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use policy::Change;

    use super::text;

    #[test]
    fn what_came_went_and_changed_is_told() {
        let change = |path: &str, was: Option<&str>, is: Option<&str>| Change {
            path: path.to_owned(),
            was: was.map(str::to_owned),
            is: is.map(str::to_owned),
        };
        let changes = [
            change("deny[a]", None, Some("a")),
            change("roles.r.safety_limit", Some("safe"), Some("cautious")),
            change("scopes.shell.requires_approval", Some("false"), None),
        ];
        let expected = "+ deny[a]\n~ roles.r.safety_limit safe -> cautious\n- scopes.shell.requires_approval false";
        assert_eq!(text(&changes), expected);
        assert_eq!(text(&[]), "the policies are the same");
    }
}
