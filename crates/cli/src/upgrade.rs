//! Implements `toolkeep upgrade --check`, which compares this program with a data directory and a
//! configuration before its first start there.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::data_formats::{FormatFinding, FormatState, compare_formats};
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus, format_problem};
use cli_core::data_dir::{DataDir, ServerDescriptor, describe_configuration};
use cli_core::printer::{Printer, format_table, sanitize_text};
use config::{LoadOptions, LoadReport};
use tool::Problem;

/// Check whether this program can use the data directory and the configuration, and what its first
/// start changes.
///
/// Reports the formats of the files in the data directory, which of them the first start rewrites,
/// and whether an older program can read them afterwards. Changes nothing, starts nothing, and sends
/// no network requests: it looks for no newer version. Install a new version as you installed this
/// one.
///
/// Exits with 1 if this program cannot use the data directory or the configuration.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep upgrade --check
  toolkeep upgrade --check --config toolkeep.yaml -o json")]
pub(crate) struct UpgradeArgs {
    /// Check only. Required: this command never replaces the program.
    #[arg(long, required = true)]
    check: bool,
}

/// State of a configuration, seen by this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum ConfigState {
    Valid,
    /// A server starts without the sources and tools that have errors.
    Partial,
    /// A server does not start.
    Invalid,
}

#[derive(Debug, Serialize)]
struct ConfigurationFinding {
    file: Option<PathBuf>,
    state: ConfigState,
    problems: Vec<Problem>,
}

#[derive(Debug, Serialize)]
struct UpgradeReport {
    /// Version of this program.
    version: &'static str,
    configuration: ConfigurationFinding,
    data: PathBuf,
    /// Version of the server that uses the data directory now.
    #[serde(skip_serializing_if = "Option::is_none")]
    running: Option<String>,
    formats: Vec<FormatFinding>,
    /// Whether this program can use the directory and the configuration.
    usable: bool,
    /// Whether an older program can read the directory after the first start of this one.
    reversible: bool,
}

impl UpgradeArgs {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let Self { check: _ } = self;
        let options = context.load_options(None);
        let report = config::load_config(&options);
        let data = DataDir::new(data_dir_path(&options, &report)?);
        let configuration = check_configuration(context, &options, report).await?;
        let running = data.find_running_server().map(|ServerDescriptor { version, .. }| version);
        let formats = compare_formats(&data);
        let report = UpgradeReport {
            version: env!("CARGO_PKG_VERSION"),
            usable: configuration.state != ConfigState::Invalid
                && formats.iter().all(FormatFinding::is_readable),
            reversible: formats.iter().all(|finding| finding.is_reversible),
            configuration,
            data: data.path().to_owned(),
            running,
            formats,
        };
        ui.print_result(&report, || format_report(&report))?;
        Ok(if report.usable { ExitStatus::Success } else { ExitStatus::Failed })
    }
}

/// Returns the data directory that the configuration selects; the default one if the file has
/// errors.
fn data_dir_path(options: &LoadOptions, report: &LoadReport) -> Result<PathBuf, CommandError> {
    let without_file =
        || config::load_config(&LoadOptions { file: None, ..options.clone() }).config;
    let config = report.config.clone().or_else(without_file);
    config
        .map(|config| config.data_dir)
        .ok_or_else(|| CommandError::from_config_errors(report.errors.clone()))
}

/// Loads the configuration as a server would, without starting anything.
async fn check_configuration(
    context: &CommandContext<'_>,
    options: &LoadOptions,
    report: LoadReport,
) -> Result<ConfigurationFinding, CommandError> {
    let file = options.file.clone();
    let mut problems: Vec<_> = report.errors.0.iter().map(Problem::from).collect();
    let Some(config) = &report.config else {
        return Ok(ConfigurationFinding { file, state: ConfigState::Invalid, problems });
    };
    let review = context.launcher.review_config(config, &context.environment).await?;
    problems.extend(review.left_out);
    let state = if problems.is_empty() { ConfigState::Valid } else { ConfigState::Partial };
    Ok(ConfigurationFinding { file, state, problems })
}

fn format_report(report: &UpgradeReport) -> String {
    let UpgradeReport { version, configuration, data, running, formats, .. } = report;
    let state = match configuration.state {
        ConfigState::Valid => "valid",
        ConfigState::Partial => "valid but for the parts below",
        ConfigState::Invalid => "invalid: a server does not start with it",
    };
    let server = match running {
        Some(running) if running == version => "\n  server  running, of this version".to_owned(),
        Some(running) if running.is_empty() => {
            "\n  server  running, of an older version".to_owned()
        }
        Some(running) => format!("\n  server  running, version {}", sanitize_text(running)),
        None => String::new(),
    };
    let problems = configuration.problems.iter().map(|problem| format_problem("", problem));
    let problems: String = problems.map(|problem| problem + "\n\n").collect();
    format!(
        "toolkeep {version}\n\
         \n  config  {}, {state}\
         \n  data    {}{server}\n\n{problems}{}\n\n{}",
        describe_configuration(configuration.file.as_deref()),
        data.display(),
        format_formats(formats),
        conclusion(report),
    )
}

fn format_formats(formats: &[FormatFinding]) -> String {
    let row = |finding: &FormatFinding| {
        let found: Vec<_> = finding.found.iter().map(|it| it.version.to_string()).collect();
        let support = finding.support;
        let reads = support.describe_readable();
        let change = match (finding.state, finding.first_start) {
            (FormatState::Unreadable, _) => "cannot read it".to_owned(),
            (_, Some(change)) => change.to_owned(),
            (FormatState::Absent, None) => "creates it when it is needed".to_owned(),
            (_, None) => "changes nothing".to_owned(),
        };
        let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
        let written = support.written.to_string();
        [finding.name.to_owned(), finding.files.to_owned(), found, reads, written, change]
    };
    let rows: Vec<_> = formats.iter().map(row).collect();
    let table = format_table(["FORMAT", "FILES", "FOUND", "READS", "WRITES", "FIRST START"], &rows);
    let problem = |finding: &FormatFinding| {
        Some(format!("\n{}: {}", finding.files, sanitize_text(finding.problem.as_deref()?)))
    };
    let problems: String = formats.iter().filter_map(problem).collect();
    if problems.is_empty() { table } else { format!("{table}\n{problems}") }
}

fn conclusion(report: &UpgradeReport) -> &'static str {
    let is_readable = report.formats.iter().all(FormatFinding::is_readable);
    let is_new = report.formats.iter().all(|finding| finding.state == FormatState::Absent);
    match (report.usable, is_readable) {
        (false, false) => {
            "This program cannot use the data directory. Use the version that wrote it, or another \
             directory with `--data DIR`."
        }
        (false, true) => "This program cannot use the configuration. Correct the errors above.",
        (true, _) if is_new => "There is no data yet. The first start creates it.",
        (true, _) if report.reversible => {
            "This program can use the data directory. An older program with the same formats can \
             read it afterwards."
        }
        (true, _) => {
            "This program can use the data directory. After its first start, an older program \
             cannot: stop the server and back up the directory first."
        }
    }
}
