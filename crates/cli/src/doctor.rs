//! Implements `toolkeep doctor`, which checks everything a server needs, and the running server.
//! Changes nothing; starts only trials of the sandbox and of an installed language model.

mod cage;
mod checks;
mod descriptors;
mod keys;
mod model;
mod record;
mod redis;
mod running;

use std::path::Path;
use std::sync::Arc;

use builtins::Cages;
use clap::Args;
use host::descriptors::Shares;
use serde::Serialize;

use cli_core::context::Context;
use cli_core::data::{DataDir, Server};
use cli_core::failure::{Exit, Failure};
use cli_core::launch::launcher;
use cli_core::ui::Ui;
use config::{Config, Reading, Setting};

/// Check the configuration, the data directory, the keys, the record, the server that runs and the cage for
/// code; print what is wrong and what to do.
///
/// Where a server holds the data directory, its own configuration and sources are checked. Otherwise the tool
/// files and names are checked as by `toolkeep config check`. Every record is read, as by `toolkeep record
/// verify`. Changes nothing but a file in the data directory that it writes and removes, and starts nothing but
/// attempts to get out of a cage, and an installed language model in one. Exits with 1 where something is wrong.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep doctor
  toolkeep doctor --config toolkeep.yaml -o json")]
pub(crate) struct Doctor {}

/// The level of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Good,
    /// It works, but deserves attention.
    Doubtful,
    Wrong,
}

/// The result of one check.
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
    pub(crate) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let (setting, reading, server) = configured(context);
        let mut findings = checks::configuration((&setting, context), server.as_ref(), &reading);
        if let Some(config) = usable(&setting, &reading) {
            let config = &config;
            findings.extend(of_data(config, context).await);
            if server.is_none() && reading.config.is_some() {
                findings.extend(checks::reviewed(config, context).await);
            }
            findings.extend(redis::finding(config.redis.as_ref()).await);
            findings.extend(cage::findings(config.server.cage).await);
            findings.push(descriptors::finding(Shares::here(), config.sources.len()));
            let cages = Arc::new(Cages::new(launcher(), None, config.server.cage));
            findings.push(model::finding(&DataDir::at(config.data.clone()), &cages).await);
        }
        let wrong = findings.iter().any(|finding| finding.state == State::Wrong);
        let findings = Findings { version: env!("CARGO_PKG_VERSION"), findings };
        ui.answer(&findings, || text(&findings))?;
        Ok(if wrong { Exit::Failed } else { Exit::Done })
    }
}

/// The configuration; if its file has errors, the default one, so that everything else is still
/// checked.
fn usable(setting: &Setting, reading: &Reading) -> Option<Config> {
    let without_file = || config::read(&Setting { file: None, ..setting.clone() }).config;
    reading.config.clone().or_else(without_file)
}

/// The configuration to check: if a server holds the data directory and no file was named, that of
/// the server, which is returned too.
fn configured(context: &Context<'_>) -> (Setting, Reading, Option<Server>) {
    let setting = context.setting(None);
    let reading = config::read(&setting);
    let data = usable(&setting, &reading).map(|config| DataDir::at(config.data));
    let held = data.and_then(|data| Some((data.running_server()?, data)));
    let Some((server, data)) = held else { return (setting, reading, None) };
    let is_named = context.is_configuration_named();
    let file = if is_named { setting.file.clone() } else { server.configuration.clone() };
    let setting = Setting { file, data: Some(data.path().to_owned()), ..setting };
    let reading = config::read(&setting);
    (setting, reading, Some(server))
}

async fn of_data(config: &Config, context: &Context<'_>) -> Vec<Finding> {
    let data = DataDir::at(config.data.clone());
    let mut findings = checks::directory(&data);
    if !Path::new(data.path()).exists() {
        return findings;
    }
    findings.extend(keys::files(&data));
    findings.extend(record::kept(&data, config.keep));
    findings.extend(record::verified(&data).await);
    if data.is_held() {
        findings.extend(running::findings(&data, context).await);
    } else {
        findings.push(Finding::good("server", "none runs; commands do the work themselves"));
        findings.extend(checks::store(&data));
        findings.extend(keys::offline(&data).await);
    }
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

#[cfg(test)]
mod tests;
