//! Implements `toolkeep policy check`, which validates a policy and its examples.

use std::path::PathBuf;

use clap::Args;
use policy::{Policy, PolicyDocument, PolicyLayer};
use serde::Serialize;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus, pluralize};
use cli_core::printer::Printer;
use config::LoadOptions;

/// Check the policy of a configuration file: report every error with its location and run every
/// example.
///
/// Sources are not checked. Exits with 1 if there is an error.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep policy check toolkeep.yaml")]
pub(crate) struct PolicyCheckArgs {
    /// Configuration file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, Serialize)]
struct PolicySummary {
    file: PathBuf,
    /// SHA-256 of the rules, as named in records.
    policy: String,
    layers: usize,
    rules: usize,
    examples: usize,
    /// Warnings about valid but possibly unintended rules.
    warnings: Vec<String>,
}

impl PolicyCheckArgs {
    pub(super) fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let policy = load_policy(context, &self.file)?;
        let summary = summarize_policy(self.file, &policy);
        ui.print_result(&summary, || format_summary(&summary))?;
        Ok(ExitStatus::Success)
    }
}

/// Loads the policy of a file, ignoring errors of its sources.
pub(super) fn load_policy(
    context: &CommandContext<'_>,
    file: &std::path::Path,
) -> Result<Policy, CommandError> {
    let setting = LoadOptions { file: Some(file.to_owned()), ..context.load_options(None) };
    let reading = config::load_config(&setting);
    let faults = reading.errors;
    reading
        .config
        .map(|config| config.policy)
        .ok_or_else(|| CommandError::from_config_errors(faults))
}

fn summarize_policy(file: PathBuf, policy: &Policy) -> PolicySummary {
    let PolicyDocument { global, orgs, roles, personas, task_layers: tasks, .. } =
        policy.document();
    let named = [orgs, roles, personas, tasks].into_iter().flat_map(|layers| layers.values());
    let layers: Vec<&PolicyLayer> = std::iter::once(global).chain(named).collect();
    let rules: Vec<_> = layers.iter().flat_map(|layer| &layer.rules).collect();
    let untried = rules.iter().filter(|rule| rule.condition.is_some() && rule.examples.is_empty());
    let untried = untried.map(|rule| {
        format!(
            "{}: the rule `{}` has no example that tests its condition",
            rule.position, rule.name
        )
    });
    PolicySummary {
        file,
        policy: policy.digest().to_string(),
        layers: layers.len(),
        rules: rules.len(),
        examples: rules.iter().map(|rule| rule.examples.len()).sum(),
        warnings: untried.collect(),
    }
}

fn format_summary(summary: &PolicySummary) -> String {
    let PolicySummary { file, layers, rules, examples, warnings, .. } = summary;
    let count = |number: usize, what| format!("{number} {}", pluralize(number, what));
    let good = format!(
        "{}: valid, with {}, {} and {}",
        file.display(),
        count(*layers, "layer"),
        count(*rules, "rule"),
        count(*examples, "example"),
    );
    let warnings = warnings.iter().map(|warning| format!("warning: {warning}"));
    std::iter::once(good).chain(warnings).collect::<Vec<_>>().join("\n")
}
