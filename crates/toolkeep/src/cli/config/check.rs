//! `toolkeep config check`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::cli::context::Context;
use crate::cli::failure::{Exit, Failure, plural};
use crate::cli::ui::Ui;
use crate::config::{self, Config, Setting};

/// Check a configuration file: every fault with its place and what to do.
///
/// Reads the file as a server would, variables and the files it names included; starts nothing.
/// Exits with 1 where there is a fault.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep config check toolkeep.yaml
  toolkeep config check toolkeep.yaml -o json")]
pub(in crate::cli) struct Check {
    /// The file [default: the one of `--config`].
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Summary {
    file: PathBuf,
    listen: String,
    data: PathBuf,
    sources: Vec<Source>,
    /// The rules; `None` where there are none.
    policy: Option<policy::Rules>,
    /// What the files say that is not used.
    #[serde(skip_serializing_if = "no_notes")]
    notes: config::Faults,
}

#[derive(Debug, Serialize)]
struct Source {
    name: String,
    kind: &'static str,
    trust: tool::Trust,
}

fn no_notes(notes: &config::Faults) -> bool {
    notes.0.is_empty()
}

impl Check {
    pub(super) fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let setting = context.setting(None);
        let Some(file) = self.file.or_else(|| setting.file.clone()) else {
            let failure = Failure::new(Exit::Usage, "no configuration file is named");
            return Err(failure.fix("`toolkeep config check FILE`"));
        };
        let setting = Setting { file: Some(file.clone()), ..setting };
        let reading = config::read(&setting);
        let served = reading.config.as_ref().map(|config| config.sources.len());
        let config =
            reading.whole().map_err(|faults| left_out(Failure::of_faults(faults), served))?;
        ui.notes(&config.notes);
        let summary = summary(file, &config);
        ui.answer(&summary, || text(&summary))?;
        Ok(Exit::Done)
    }
}

/// A server starts without the sources that have a fault, where nothing else has one.
fn left_out(failure: Failure, served: Option<usize>) -> Failure {
    let Some(served) = served else { return failure };
    let sources = match served {
        1 => "the 1 other source".to_owned(),
        count => format!("the {count} other sources"),
    };
    failure.fix(format!("`serve` would leave out the sources above and serve {sources}"))
}

fn summary(file: PathBuf, config: &Config) -> Summary {
    let source = |source: &config::SourceConfig| Source {
        name: source.name.to_string(),
        kind: source.kind.as_str(),
        trust: source.trust,
    };
    let sources = config.sources.iter().map(source).collect();
    let policy = config.rules().cloned();
    let (listen, data) = (config.listen.to_string(), config.data.clone());
    Summary { file, listen, data, sources, policy, notes: config.notes.clone() }
}

fn text(summary: &Summary) -> String {
    let count = summary.sources.len();
    let policy = if summary.policy.is_some() { " and a policy" } else { "" };
    format!("{}: good, with {count} {}{policy}", summary.file.display(), plural(count, "source"))
}
