//! Implements `toolkeep policy check`, which validates a policy and its examples.

use std::path::PathBuf;

use clap::Args;
use policy::{Layer, Policy, Rules};
use serde::Serialize;

use cli_core::context::Context;
use cli_core::failure::{Exit, Failure, plural};
use cli_core::ui::Ui;
use config::Setting;

/// Check the policy of a configuration file: every fault with its place, every example tried.
///
/// Sources are not looked at. Exits with 1 where there is a fault.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep policy check toolkeep.yaml")]
pub(crate) struct Check {
    /// The configuration file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, Serialize)]
struct Summary {
    file: PathBuf,
    /// SHA-256 of the rules, as named in records.
    policy: String,
    layers: usize,
    rules: usize,
    examples: usize,
    /// Warnings about valid but possibly unintended rules.
    warnings: Vec<String>,
}

impl Check {
    pub(super) fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let policy = read(context, &self.file)?;
        let summary = summary(self.file, &policy);
        ui.answer(&summary, || text(&summary))?;
        Ok(Exit::Done)
    }
}

/// Loads the policy of a file, ignoring errors of its sources.
pub(super) fn read(context: &Context<'_>, file: &std::path::Path) -> Result<Policy, Failure> {
    let setting = Setting { file: Some(file.to_owned()), ..context.setting(None) };
    let reading = config::read(&setting);
    let faults = reading.faults;
    reading.config.map(|config| config.policy).ok_or_else(|| Failure::of_faults(faults))
}

fn summary(file: PathBuf, policy: &Policy) -> Summary {
    let Rules { global, orgs, roles, personas, tasks, .. } = policy.rules();
    let named = [orgs, roles, personas, tasks].into_iter().flat_map(|layers| layers.values());
    let layers: Vec<&Layer> = std::iter::once(global).chain(named).collect();
    let rules: Vec<_> = layers.iter().flat_map(|layer| &layer.rules).collect();
    let untried = rules.iter().filter(|rule| rule.when.is_some() && rule.examples.is_empty());
    let untried = untried.map(|rule| {
        format!("{}: the rule `{}` has no example to try its condition on", rule.at, rule.name)
    });
    Summary {
        file,
        policy: policy.digest().to_string(),
        layers: layers.len(),
        rules: rules.len(),
        examples: rules.iter().map(|rule| rule.examples.len()).sum(),
        warnings: untried.collect(),
    }
}

fn text(summary: &Summary) -> String {
    let Summary { file, layers, rules, examples, warnings, .. } = summary;
    let count = |number: usize, what| format!("{number} {}", plural(number, what));
    let good = format!(
        "{}: good, with {}, {} and {}",
        file.display(),
        count(*layers, "layer"),
        count(*rules, "rule"),
        count(*examples, "example"),
    );
    let warnings = warnings.iter().map(|warning| format!("warning: {warning}"));
    std::iter::once(good).chain(warnings).collect::<Vec<_>>().join("\n")
}
