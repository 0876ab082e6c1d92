//! Implements `toolkeep policy diff`, which compares two policies.

use std::path::PathBuf;

use clap::Args;
use policy::PolicyChange;

use super::check::load_policy;
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::{Printer, sanitize_text};

/// Compare the policies of two configuration files, rule by rule.
///
/// The order of list items has no meaning and is ignored. Exits with 1 if the policies differ.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep policy diff toolkeep.yaml toolkeep.new.yaml")]
pub(crate) struct PolicyDiffArgs {
    /// Previous configuration file.
    #[arg(value_name = "A")]
    before: PathBuf,
    /// New configuration file.
    #[arg(value_name = "B")]
    after: PathBuf,
}

impl PolicyDiffArgs {
    pub(super) fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let (before, after) =
            (load_policy(context, &self.before)?, load_policy(context, &self.after)?);
        let changes = policy::diff_documents(before.document(), after.document());
        ui.print_result(&changes, || format_policy_changes(&changes))?;
        Ok(if changes.is_empty() { ExitStatus::Success } else { ExitStatus::Failed })
    }
}

fn format_policy_changes(changes: &[PolicyChange]) -> String {
    if changes.is_empty() {
        return "the policies are equal".to_owned();
    }
    let line = |change: &PolicyChange| {
        let PolicyChange { path, before: was, after: is } = change;
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
    sanitize_text(&changes.iter().map(line).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use policy::PolicyChange;

    use super::format_policy_changes;

    #[test]
    fn what_came_went_and_changed_is_told() {
        let change = |path: &str, was: Option<&str>, is: Option<&str>| PolicyChange {
            path: path.to_owned(),
            before: was.map(str::to_owned),
            after: is.map(str::to_owned),
        };
        let changes = [
            change("deny[a]", None, Some("a")),
            change("roles.r.safety_limit", Some("safe"), Some("cautious")),
            change("scopes.shell.requires_approval", Some("false"), None),
        ];
        let expected = "+ deny[a]\n~ roles.r.safety_limit safe -> cautious\n- scopes.shell.requires_approval false";
        assert_eq!(format_policy_changes(&changes), expected);
        assert_eq!(format_policy_changes(&[]), "the policies are equal");
    }
}
