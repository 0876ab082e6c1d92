//! Checks of the configuration, the data directory and the store.

use std::os::unix::fs::PermissionsExt as _;

use ledger::MIN_FREE_BYTES;
use store::SqliteStore;
use tool::Problem;

use super::CheckFinding;
use crate::store::rejected_rows;
use cli_core::command_context::CommandContext;
use cli_core::command_error::pluralize;
use cli_core::data_dir::{DataDir, ServerDescriptor};
use cli_core::server_launcher::ConfigReview;
use config::{Config, LoadOptions, LoadReport};

/// Maximum number of rows named in a finding.
const MAX_NAMED_ROWS: usize = 5;

/// Checks the configuration and its errors, of the running server if there is one.
pub(super) fn config_findings(
    (options, context): (&LoadOptions, &CommandContext<'_>),
    server: Option<&ServerDescriptor>,
    report: &LoadReport,
) -> Vec<CheckFinding> {
    let what = "configuration";
    let mut findings: Vec<_> = match (&options.file, server) {
        (None, None) => vec![CheckFinding::ok(what, describe_default_config(report))],
        (None, Some(_)) => {
            vec![CheckFinding::ok(
                what,
                "the running server uses the built-in tools, without a file",
            )]
        }
        (Some(_), _) if !report.errors.0.is_empty() => Vec::new(),
        (Some(file), server) => {
            let count = report.config.as_ref().map_or(0, |config| config.sources.len());
            let has_rules =
                report.config.as_ref().is_some_and(|config| config.policy_document().is_some());
            let policy = if has_rules { " and a policy" } else { "" };
            let own = |server: &ServerDescriptor| {
                let own = server.configuration.as_ref();
                own.is_some_and(|own| own == file || Some(own) == context.config_file().as_ref())
            };
            let whose = if server.is_some_and(own) { " (of the running server)" } else { "" };
            let file = file.display();
            let detail = format!("{file}{whose}, {count} {}{policy}", pluralize(count, "source"));
            vec![CheckFinding::ok(what, detail)]
        }
    };
    findings.extend(report.errors.0.iter().map(config_error_finding));
    findings.extend(server.and_then(|server| other_config_finding(context, server)));
    findings
}

/// Warns if the command's configuration file is not that of the server.
fn other_config_finding(
    context: &CommandContext<'_>,
    server: &ServerDescriptor,
) -> Option<CheckFinding> {
    let file = context.config_file()?;
    let other = file.display();
    let detail = match &server.configuration {
        Some(own) if *own == file => return None,
        Some(own) => format!("the running server uses {}, not {other}", own.display()),
        None => format!("the running server uses no configuration file, not {other}"),
    };
    let fix = if context.is_config_file_named() {
        "omit `--config` to check the server's file, or restart the server with this one".to_owned()
    } else {
        format!("to use it, restart the server with `--config {other}`")
    };
    Some(CheckFinding::warning("configuration", detail, fix))
}

/// Checks which sources and tools a server would omit, and which names match nothing.
pub(super) async fn review_findings(
    config: &Config,
    context: &CommandContext<'_>,
) -> Vec<CheckFinding> {
    let what = "configuration";
    let fix = |problem: &Problem| {
        problem.help.clone().unwrap_or_else(|| "run `toolkeep config check FILE`".to_owned())
    };
    let detail = |problem: &Problem| format!("{}: {}", problem.location, problem.message);
    match context.launcher.review_config(config, &context.environment).await {
        Ok(ConfigReview { left_out, warnings }) => {
            let wrong = left_out.iter().take(MAX_NAMED_ROWS);
            let wrong =
                wrong.map(|problem| CheckFinding::error(what, detail(problem), fix(problem)));
            let doubtful = warnings.iter().take(MAX_NAMED_ROWS);
            let doubtful =
                doubtful.map(|problem| CheckFinding::warning(what, detail(problem), fix(problem)));
            wrong.chain(doubtful).collect()
        }
        Err(failure) => {
            vec![CheckFinding::error(what, failure.to_string(), "run `toolkeep config check FILE`")]
        }
    }
}

/// Describes a server started without a file here; a running one may have been started differently.
fn describe_default_config(reading: &LoadReport) -> String {
    let config = reading.config.as_ref();
    let count = config.map_or(0, |config| config.sources.len());
    let listen =
        config.map_or_else(String::new, |config| format!(", on {}", config.listen_address));
    let modules = match count {
        0 => String::new(),
        count => format!(" and {count} {} of the environment", pluralize(count, "module")),
    };
    format!("no file: a server started here serves the built-in tools{modules}{listen}")
}

fn config_error_finding(fault: &config::ConfigError) -> CheckFinding {
    let problem = tool::Problem::from(fault);
    let fix = problem
        .help
        .unwrap_or_else(|| "run `toolkeep config check FILE` to see the line".to_owned());
    CheckFinding::error("configuration", format!("{}: {}", problem.location, problem.message), fix)
}

/// Checks the data directory: its existence, permissions and free space.
pub(super) fn directory_findings(data_dir: &DataDir) -> Vec<CheckFinding> {
    let what = "data directory";
    let path = data_dir.path();
    let Ok(metadata) = std::fs::metadata(path) else {
        return vec![CheckFinding::ok(
            what,
            format!("{}: will be created on the first start", path.display()),
        )];
    };
    if !metadata.is_dir() {
        let detail = format!("{} is not a directory", path.display());
        return vec![CheckFinding::error(
            what,
            detail,
            "choose another directory with `--data DIR`",
        )];
    }
    let mut findings = Vec::new();
    let mode = metadata.permissions().mode() & 0o777;
    if is_private(mode) {
        findings.push(CheckFinding::ok(what, path.display().to_string()));
    } else {
        let detail = format!("{} is accessible to other users (mode {mode:03o})", path.display());
        let fix = format!("chmod 700 '{}'", path.display());
        findings.push(CheckFinding::error(what, detail, fix));
    }
    findings.push(write_finding(data_dir));
    findings.extend(free_space_finding(data_dir));
    findings
}

/// Checks by trial whether a file can be written, because permissions do not reveal a read-only
/// mount.
fn write_finding(data: &DataDir) -> CheckFinding {
    let what = "writing";
    let path = data.path().join(format!(".doctor-{}", std::process::id()));
    let tried = std::fs::write(&path, b"x");
    let removed = std::fs::remove_file(&path);
    match tried.and(removed) {
        Ok(()) => CheckFinding::ok(what, "a file was written and removed"),
        Err(error) => {
            let detail = format!("{} is not writable: {error}", data.path().display());
            let fix = "mount the disk writable, free space on it, change its owner to this user, \
                       or choose another directory with `--data DIR`";
            CheckFinding::error(what, detail, fix)
        }
    }
}

pub(super) fn is_private(mode: u32) -> bool {
    let others = mode & 0o077;
    others == 0
}

fn free_space_finding(data: &DataDir) -> Option<CheckFinding> {
    let free = data.free_bytes()?;
    let detail = format!("{} MiB free", free >> 20);
    if free >= MIN_FREE_BYTES {
        return Some(CheckFinding::ok("disk", detail));
    }
    let fix = "free disk space: calls with side effects fail if they cannot be recorded";
    Some(CheckFinding::error("disk", detail, fix))
}

/// Checks the store file and its rows.
pub(super) fn store_findings(data_dir: &DataDir) -> [CheckFinding; 2] {
    [store_file_finding(data_dir), row_finding(data_dir)]
}

/// Checks the rows of the store against their MACs.
fn row_finding(data: &DataDir) -> CheckFinding {
    let what = "rows of the store";
    match rejected_rows(data) {
        Ok(rows) if rows.is_empty() => CheckFinding::ok(what, "all count"),
        Ok(rows) => {
            let named: Vec<_> =
                rows.iter().take(MAX_NAMED_ROWS).map(|row| row.key.as_str()).collect();
            let more = if rows.len() > MAX_NAMED_ROWS { ", …" } else { "" };
            let detail = format!(
                "{} changed outside of Toolkeep and are rejected: {}{more}",
                rows.len(),
                named.join(", ")
            );
            let fix = "restore the data directory from a backup, or run `toolkeep store list`";
            CheckFinding::error(what, detail, fix)
        }
        Err(failure) => {
            CheckFinding::error(what, failure.to_string(), "see `toolkeep error store_unavailable`")
        }
    }
}

fn store_file_finding(data: &DataDir) -> CheckFinding {
    let path = data.store_file();
    if !path.exists() {
        return CheckFinding::ok("store", "will be created on the first start");
    }
    match SqliteStore::check_file(&path) {
        Ok(()) => CheckFinding::ok("store", path.display().to_string()),
        Err(error) => CheckFinding::error(
            "store",
            error.to_string(),
            "see `toolkeep error store_unavailable`",
        ),
    }
}
