//! Implements `toolkeep doctor`, which checks everything a server needs, and the running server.
//! Changes nothing; starts only trials of the sandbox and of an installed language model.

mod checks;
mod descriptors;
mod keys;
mod model;
mod record;
mod redis;
mod running_server;
mod sandbox_check;

use std::path::Path;
use std::sync::Arc;

use clap::Args;
use host::descriptors::DescriptorShares;
use serde::Serialize;

use crate::sandbox_tiers::sandbox_provider;
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::data_dir::{DataDir, ServerDescriptor};
use cli_core::printer::Printer;
use config::{Config, LoadOptions, LoadReport};

/// Check the configuration, data directory, keys, record, running server and code sandbox, and
/// print how to fix problems.
///
/// If a server uses the data directory, its configuration and sources are checked. Otherwise, tool
/// files and names are checked as by `toolkeep config check`. Every record is read, as by `toolkeep
/// record verify`.
///
/// Writes and removes one file in the data directory and changes nothing else. Starts only sandbox
/// tests and, inside a sandbox, an installed language model. Exits with 1 if something is wrong.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep doctor
  toolkeep doctor --config toolkeep.yaml -o json")]
pub(crate) struct DoctorArgs {}

/// The level of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum FindingLevel {
    #[serde(rename = "good")]
    Ok,
    /// It works, but deserves attention.
    #[serde(rename = "doubtful")]
    Warning,
    #[serde(rename = "wrong")]
    Error,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct CheckFinding {
    #[serde(rename = "what")]
    subject: String,
    #[serde(rename = "state")]
    level: FindingLevel,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "fix")]
    help: Option<String>,
}

impl CheckFinding {
    fn new(what: &str, state: FindingLevel, detail: impl Into<String>) -> Self {
        Self { subject: what.to_owned(), level: state, detail: detail.into(), help: None }
    }

    fn ok(what: &str, detail: impl Into<String>) -> Self {
        Self::new(what, FindingLevel::Ok, detail)
    }

    fn error(what: &str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { help: Some(fix.into()), ..Self::new(what, FindingLevel::Error, detail) }
    }

    fn warning(what: &str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { help: Some(fix.into()), ..Self::new(what, FindingLevel::Warning, detail) }
    }
}

#[derive(Debug, Serialize)]
struct CheckReport {
    version: &'static str,
    findings: Vec<CheckFinding>,
}

impl DoctorArgs {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let (setting, reading, server) = load_checked_config(context);
        let mut findings = checks::config_findings((&setting, context), server.as_ref(), &reading);
        if let Some(config) = usable_config(&setting, &reading) {
            let config = &config;
            findings.extend(data_dir_findings(config, context).await);
            if server.is_none() && reading.config.is_some() {
                findings.extend(checks::review_findings(config, context).await);
            }
            findings.extend(redis::redis_finding(config.redis_url.as_ref()).await);
            findings.extend(sandbox_check::sandbox_findings(config.server.min_sandbox_level).await);
            findings.push(descriptors::descriptor_finding(
                DescriptorShares::from_hard_limit(),
                config.sources.len(),
            ));
            let sandboxes = Arc::new(sandbox_provider(config.server.min_sandbox_level));
            findings.push(
                model::model_finding(&DataDir::new(config.data_dir.clone()), &sandboxes).await,
            );
        }
        let wrong = findings.iter().any(|finding| finding.level == FindingLevel::Error);
        let findings = CheckReport { version: env!("CARGO_PKG_VERSION"), findings };
        ui.print_result(&findings, || format_report(&findings))?;
        Ok(if wrong { ExitStatus::Failed } else { ExitStatus::Success })
    }
}

/// The configuration; if its file has errors, the default one, so that everything else is still
/// checked.
fn usable_config(setting: &LoadOptions, reading: &LoadReport) -> Option<Config> {
    let without_file =
        || config::load_config(&LoadOptions { file: None, ..setting.clone() }).config;
    reading.config.clone().or_else(without_file)
}

/// The configuration to check: if a server holds the data directory and no file was named, that of
/// the server, which is returned too.
fn load_checked_config(
    context: &CommandContext<'_>,
) -> (LoadOptions, LoadReport, Option<ServerDescriptor>) {
    let setting = context.load_options(None);
    let reading = config::load_config(&setting);
    let data = usable_config(&setting, &reading).map(|config| DataDir::new(config.data_dir));
    let held = data.and_then(|data| Some((data.find_running_server()?, data)));
    let Some((server, data)) = held else { return (setting, reading, None) };
    let is_named = context.is_config_file_named();
    let file = if is_named { setting.file.clone() } else { server.configuration.clone() };
    let setting = LoadOptions { file, data_dir: Some(data.path().to_owned()), ..setting };
    let reading = config::load_config(&setting);
    (setting, reading, Some(server))
}

async fn data_dir_findings(config: &Config, context: &CommandContext<'_>) -> Vec<CheckFinding> {
    let data = DataDir::new(config.data_dir.clone());
    let mut findings = checks::directory_findings(&data);
    if !Path::new(data.path()).exists() {
        return findings;
    }
    findings.extend(keys::key_file_findings(&data));
    findings.extend(record::retention_findings(&data, config.retention));
    findings.extend(record::verification_findings(&data).await);
    if data.is_locked() {
        findings.extend(running_server::server_findings(&data, context).await);
    } else {
        findings.push(CheckFinding::ok("server", "not running; commands run without one"));
        findings.extend(checks::store_findings(&data));
        findings.extend(keys::stored_key_findings(&data).await);
    }
    findings
}

fn format_report(findings: &CheckReport) -> String {
    let line = |finding: &CheckFinding| {
        let mark = match finding.level {
            FindingLevel::Ok => "ok   ",
            FindingLevel::Warning => "warn ",
            FindingLevel::Error => "ERROR",
        };
        let fix =
            finding.help.as_ref().map(|fix| format!("\n         help: {fix}")).unwrap_or_default();
        format!("{mark}  {}: {}{fix}", finding.subject, finding.detail)
    };
    let lines: Vec<_> = findings.findings.iter().map(line).collect();
    format!("toolkeep {}\n\n{}", findings.version, lines.join("\n"))
}

#[cfg(test)]
mod tests;
