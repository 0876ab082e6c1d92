//! Implements `toolkeep config check`, which validates a configuration file.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tool::Problem;

use cli_core::context::Context;
use cli_core::failure::{Exit, Failure, paragraph, plural};
use cli_core::ui::Ui;
use config::{Config, Reading, Setting};

/// The consequence of an error outside of the sources.
const NOT_STARTED: &str =
    "a server does not start with this file; `toolkeep error invalid_config` tells more";
/// The consequence of errors in sources.
const LEFT_OUT: &str = "a server leaves out the sources and tools above and serves the others; a running server keeps \
                        its configuration while a fault is in the file itself";

/// Check a configuration file: every fault with its place and what to do.
///
/// Loads what a server would load: variables, tool files, `mcpServers` files and manifests of plugins. Looks whether
/// the commands of MCP servers are there and may be executed. Starts no server, no MCP server and no code, and
/// asks nothing over the network. A server leaves out a source or a tool that has a fault and serves the others;
/// with a fault elsewhere it does not start. A name in the policy, or a module of a persona in the data
/// directory, that matches nothing is a warning.
///
/// Exits with 0 where there is no fault, warnings or not; with 1 where there is one, or with `--strict` a
/// warning.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep config check toolkeep.yaml
  toolkeep config check toolkeep.yaml --strict
  toolkeep config check toolkeep.yaml -o json")]
pub(crate) struct Check {
    /// The file [default: the one of `--config`].
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Exit with 1 where there are warnings, too.
    #[arg(long)]
    strict: bool,
}

#[derive(Debug, Serialize)]
struct Summary {
    file: PathBuf,
    listen: String,
    data: PathBuf,
    sources: Vec<Source>,
    /// The policy rules; `None` without a policy.
    policy: Option<policy::Rules>,
    /// Notes about unused parts of the files.
    #[serde(skip_serializing_if = "no_notes")]
    notes: config::Faults,
    /// Warnings about names that match nothing.
    warnings: Vec<Problem>,
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
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let setting = context.setting(None);
        let Some(file) = self.file.or_else(|| setting.file.clone()) else {
            let failure = Failure::new(Exit::Usage, "no configuration file is named");
            return Err(failure.fix("`toolkeep config check FILE`"));
        };
        let setting = Setting { file: Some(file.clone()), ..setting };
        let Reading { config, faults, .. } = config::read(&setting);
        let Some(config) = config else {
            return Err(Failure::of_faults(faults).fix(NOT_STARTED));
        };
        let review = context.wiring.review(&config, &context.environment).await?;
        let has_faults = !faults.0.is_empty() || !review.left_out.is_empty();
        if has_faults || (self.strict && !review.warnings.is_empty()) {
            let failure = Failure::of_review(faults, review);
            return Err(if has_faults { failure.fix(LEFT_OUT) } else { failure });
        }
        ui.notes(&config.notes);
        let summary = summary(file, &config, review.warnings);
        ui.answer(&summary, || text(&summary))?;
        Ok(Exit::Done)
    }
}

fn summary(file: PathBuf, config: &Config, warnings: Vec<Problem>) -> Summary {
    let source = |source: &config::SourceConfig| Source {
        name: source.name.to_string(),
        kind: source.kind.as_str(),
        trust: source.trust,
    };
    let sources = config.sources.iter().map(source).collect();
    let policy = config.rules().cloned();
    let (listen, data) = (config.listen.to_string(), config.data.clone());
    Summary { file, listen, data, sources, policy, notes: config.notes.clone(), warnings }
}

fn text(summary: &Summary) -> String {
    let count = summary.sources.len();
    let policy = if summary.policy.is_some() { " and a policy" } else { "" };
    let file = summary.file.display();
    let mut parts = vec![format!("{file}: good, with {count} {}{policy}", plural(count, "source"))];
    parts.extend(summary.warnings.iter().map(|problem| paragraph("warning: ", problem)));
    parts.join("\n\n")
}
