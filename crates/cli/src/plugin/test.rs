//! Implements `toolkeep plugin test`, which runs the examples of a plugin.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use egress::{EgressClient, EgressOptions};
use plugins::{PluginRuntimeConfig, PluginTestReport};

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus, pluralize};
use cli_core::printer::{Printer, sanitize_text};
use host::clock::SystemClock;

/// Test a plugin: load it in its sandbox, with the access that the configuration grants, and run
/// its examples.
///
/// Exits with 1 if the plugin does not load or an example fails.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep plugin test plugins/greeter")]
pub(crate) struct PluginTestArgs {
    /// Directory of the plugin.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

impl PluginTestArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let config = config::load_config(&context.load_options(None));
        let config =
            config.config.ok_or_else(|| CommandError::from_config_errors(config.errors))?;
        let failed = |why: String| CommandError::new(ExitStatus::Failed, sanitize_text(&why));
        let folder = self.folder.canonicalize();
        let folder = folder
            .map_err(|error| failed(format!("cannot read `{}`: {error}", self.folder.display())))?;
        let own = std::env::temp_dir().join(format!("toolkeep-{}", uuid::Uuid::new_v4().simple()));
        let egress = EgressClient::new(EgressOptions::default());
        let means = PluginRuntimeConfig {
            launcher: cli_core::process_launcher::child_launcher(),
            min_sandbox_tier: config.server.min_sandbox_level,
            egress: Some(egress.map_err(|error| failed(error.to_string()))?),
            clock: Arc::new(SystemClock::default()),
            copies_dir: own.join("copies"),
            settings_dir: own.join("settings"),
            python_path: config.plugins.python_path.clone(),
            startup_timeout: Duration::from_secs(10),
        };
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let grant = config.plugins.grants.get(&name).cloned().unwrap_or_default();
        let trial = plugins::test_examples(&folder, means, &grant).await;
        // Temporary files; a failure to remove them is ignored.
        let _left = std::fs::remove_dir_all(&own);
        let trial = trial.map_err(failed)?;
        ui.print_result(&trial, || format_trial(&trial))?;
        Ok(if trial.has_passed() { ExitStatus::Success } else { ExitStatus::Failed })
    }
}

fn format_trial(trial: &PluginTestReport) -> String {
    let problems = trial.problems.iter().map(|problem| {
        let fix = problem.help.as_deref().map(|fix| format!("\n    help: {}", sanitize_text(fix)));
        format!(
            "{}: {}{}",
            sanitize_text(&problem.location),
            sanitize_text(&problem.message),
            fix.unwrap_or_default()
        )
    });
    let wrong = trial.examples.iter().filter_map(|one| {
        let wrong = sanitize_text(one.error.as_deref()?);
        Some(format!("{} example {}: {wrong}", one.tool_name, one.example_number))
    });
    let lines: Vec<_> = problems.chain(wrong).collect();
    let count = trial.examples.len();
    let good = trial.examples.iter().filter(|one| one.error.is_none()).count();
    let summary = format!("{good} of {count} {} passed", pluralize(count, "example"));
    if lines.is_empty() { summary } else { format!("{}\n\n{summary}", lines.join("\n")) }
}
