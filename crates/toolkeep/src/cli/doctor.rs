//! `toolkeep doctor`: looks at everything a server needs, changes nothing; starts only a trial of the cage.

mod cage;
mod checks;
mod descriptors;
mod model;
mod record;

use std::path::Path;

use clap::Args;
use guard::descriptors::Shares;
use serde::Serialize;

use super::context::Context;
use super::data::DataDir;
use super::failure::{Exit, Failure};
use super::ui::Ui;
use crate::config::{self, Config};

/// Look at the configuration, the data directory, the keys, the server and the cage for code, and tell
/// what is wrong and what to do.
///
/// Changes nothing, and starts nothing but attempts to get out of a cage. Exits with 1 where something is
/// wrong.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep doctor
  toolkeep doctor --config toolkeep.yaml -o json")]
pub(super) struct Doctor {}

/// How something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Good,
    /// Works, but should be looked at.
    Doubtful,
    Wrong,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    what: String,
    state: State,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl Finding {
    fn new(what: &str, state: State, detail: impl Into<String>) -> Self {
        Self { what: what.to_owned(), state, detail: detail.into(), fix: None }
    }

    fn good(what: &str, detail: impl Into<String>) -> Self {
        Self::new(what, State::Good, detail)
    }

    fn wrong(what: &str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..Self::new(what, State::Wrong, detail) }
    }

    fn doubtful(what: &str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..Self::new(what, State::Doubtful, detail) }
    }
}

#[derive(Debug, Serialize)]
struct Findings {
    version: &'static str,
    findings: Vec<Finding>,
}

impl Doctor {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let setting = context.setting(None);
        let reading = config::read(&setting);
        let mut findings = checks::configuration(setting.file.as_deref(), &reading);
        if let Some(config) = &reading.config {
            findings.extend(of_data(config, context).await);
            findings.extend(cage::findings(config.server.cage).await);
            findings.push(descriptors::finding(Shares::here(), config.sources.len()));
            findings.push(model::finding(&DataDir::at(config.data.clone())));
        }
        let wrong = findings.iter().any(|finding| finding.state == State::Wrong);
        let findings = Findings { version: env!("CARGO_PKG_VERSION"), findings };
        ui.answer(&findings, || text(&findings))?;
        Ok(if wrong { Exit::Failed } else { Exit::Done })
    }
}

async fn of_data(config: &Config, context: &Context<'_>) -> Vec<Finding> {
    let data = DataDir::at(config.data.clone());
    let mut findings = checks::directory(&data);
    if !Path::new(data.path()).exists() {
        return findings;
    }
    findings.extend(checks::keys(&data));
    findings.extend(record::kept(&data, config.keep));
    findings.extend(checks::server(&data, context).await);
    findings
}

fn text(findings: &Findings) -> String {
    let line = |finding: &Finding| {
        let mark = match finding.state {
            State::Good => "ok   ",
            State::Doubtful => "look ",
            State::Wrong => "WRONG",
        };
        let fix = finding.fix.as_ref().map(|fix| format!("\n         = {fix}")).unwrap_or_default();
        format!("{mark}  {}: {}{fix}", finding.what, finding.detail)
    };
    let lines: Vec<_> = findings.findings.iter().map(line).collect();
    format!("toolkeep {}\n\n{}", findings.version, lines.join("\n"))
}
