//! Implements `toolkeep plugin test`, which runs the examples of a plugin.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use egress::{Egress, EgressSettings};
use plugins::{Means, Trial};

use cli_core::context::Context;
use cli_core::failure::{Exit, Failure, plural};
use cli_core::ui::{Ui, clean};
use host::clock::SystemClock;

/// Load a plugin as a server would, in its cage and with what the configuration grants it, and run the
/// examples of its manifest. Exits with 1 where something is not as it should be.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep plugin test plugins/greeter")]
pub(crate) struct Test {
    /// The plugin's folder.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

impl Test {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let config = config::read(&context.setting(None));
        let config = config.config.ok_or_else(|| Failure::of_faults(config.faults))?;
        let failed = |why: String| Failure::new(Exit::Failed, clean(&why));
        let folder = self.folder.canonicalize();
        let folder = folder.map_err(|error| {
            failed(format!("`{}` cannot be read: {error}", self.folder.display()))
        })?;
        let own = std::env::temp_dir().join(format!("toolkeep-{}", uuid::Uuid::new_v4().simple()));
        let egress = Egress::new(EgressSettings::default());
        let means = Means {
            launcher: cli_core::launch::launcher(),
            floor: config.server.cage,
            egress: Some(egress.map_err(|error| failed(error.to_string()))?),
            clock: Arc::new(SystemClock::default()),
            copies: own.join("copies"),
            settings: own.join("settings"),
            python: config.plugins.python.clone(),
            ready: Duration::from_secs(10),
        };
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let grant = config.plugins.grants.get(&name).cloned().unwrap_or_default();
        let trial = plugins::trial(&folder, means, &grant).await;
        // Temporary files; a failure to remove them is ignored.
        let _left = std::fs::remove_dir_all(&own);
        let trial = trial.map_err(failed)?;
        ui.answer(&trial, || text(&trial))?;
        Ok(if trial.good() { Exit::Done } else { Exit::Failed })
    }
}

fn text(trial: &Trial) -> String {
    let problems = trial.problems.iter().map(|problem| {
        let fix = problem.fix.as_deref().map(|fix| format!("\n    = {}", clean(fix)));
        format!("{}: {}{}", clean(&problem.place), clean(&problem.message), fix.unwrap_or_default())
    });
    let wrong = trial.examples.iter().filter_map(|one| {
        let wrong = clean(one.wrong.as_deref()?);
        Some(format!("{} example {}: {wrong}", one.tool, one.example))
    });
    let lines: Vec<_> = problems.chain(wrong).collect();
    let count = trial.examples.len();
    let good = trial.examples.iter().filter(|one| one.wrong.is_none()).count();
    let told = format!("{good} of {count} {} as they should be", plural(count, "example"));
    if lines.is_empty() { told } else { format!("{}\n\n{told}", lines.join("\n")) }
}
