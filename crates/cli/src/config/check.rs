//! Implements `toolkeep config check`, which validates a configuration file.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tool::Problem;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus, format_problem, pluralize};
use cli_core::printer::Printer;
use config::{Config, LoadOptions, LoadReport};

/// The consequence of an error outside of the sources.
const NOT_STARTED: &str =
    "a server does not start with this file; see `toolkeep error invalid_config`";
/// The consequence of errors in sources.
const LEFT_OUT: &str = "a server omits the sources and tools above and serves the others; if the \
                        file itself has an error, a running server keeps its configuration";

/// Check a configuration file and report every error with its location and fix.
///
/// Loads what a server would load: variables, tool files, `mcpServers` files and plugin manifests.
/// Checks that the commands of MCP servers exist and are executable. Starts no server and no code,
/// and sends no network requests.
///
/// A server omits sources and tools with errors and serves the others. It does not start if other
/// parts have errors. Names in the policy and modules of stored personas that match nothing are
/// warnings.
///
/// Exits with 0 if there is no error, and with 1 if there is one, or a warning with `--strict`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep config check toolkeep.yaml
  toolkeep config check toolkeep.yaml --strict
  toolkeep config check toolkeep.yaml -o json")]
pub(crate) struct ConfigCheckArgs {
    /// Configuration file [default: the file of `--config`].
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Exit with 1 if there are warnings.
    #[arg(long)]
    strict: bool,
}

#[derive(Debug, Serialize)]
struct ConfigSummary {
    file: PathBuf,
    listen: String,
    data: PathBuf,
    sources: Vec<SourceSummary>,
    /// The policy rules; `None` without a policy.
    policy: Option<policy::PolicyDocument>,
    /// Notes about unused parts of the files.
    #[serde(skip_serializing_if = "no_notes")]
    notes: config::ConfigErrors,
    /// Warnings about names that match nothing.
    warnings: Vec<Problem>,
}

#[derive(Debug, Serialize)]
struct SourceSummary {
    name: String,
    kind: &'static str,
    trust: tool::SourceTrust,
}

fn no_notes(notes: &config::ConfigErrors) -> bool {
    notes.0.is_empty()
}

impl ConfigCheckArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let setting = context.load_options(None);
        let Some(file) = self.file.or_else(|| setting.file.clone()) else {
            let failure =
                CommandError::new(ExitStatus::UsageError, "no configuration file is given");
            return Err(failure.with_help("run `toolkeep config check FILE`"));
        };
        let setting = LoadOptions { file: Some(file.clone()), ..setting };
        let LoadReport { config, errors, .. } = config::load_config(&setting);
        let Some(config) = config else {
            return Err(CommandError::from_config_errors(errors).with_help(NOT_STARTED));
        };
        let review = context.launcher.review_config(&config, &context.environment).await?;
        let has_errors = !errors.0.is_empty() || !review.left_out.is_empty();
        if has_errors || (self.strict && !review.warnings.is_empty()) {
            let failure = CommandError::from_config_review(errors, review);
            return Err(if has_errors { failure.with_help(LEFT_OUT) } else { failure });
        }
        ui.print_config_notes(&config.notes);
        let summary = summarize_config(file, &config, review.warnings);
        ui.print_result(&summary, || format_summary(&summary))?;
        Ok(ExitStatus::Success)
    }
}

fn summarize_config(file: PathBuf, config: &Config, warnings: Vec<Problem>) -> ConfigSummary {
    let source = |source: &config::SourceConfig| SourceSummary {
        name: source.name.to_string(),
        kind: source.kind.as_str(),
        trust: source.trust,
    };
    let sources = config.sources.iter().map(source).collect();
    let policy = config.policy_document().cloned();
    let (listen, data) = (config.listen_address.to_string(), config.data_dir.clone());
    ConfigSummary { file, listen, data, sources, policy, notes: config.notes.clone(), warnings }
}

fn format_summary(summary: &ConfigSummary) -> String {
    let count = summary.sources.len();
    let policy = if summary.policy.is_some() { " and a policy" } else { "" };
    let file = summary.file.display();
    let mut parts =
        vec![format!("{file}: valid, with {count} {}{policy}", pluralize(count, "source"))];
    parts.extend(summary.warnings.iter().map(|problem| format_problem("warning: ", problem)));
    parts.join("\n\n")
}
