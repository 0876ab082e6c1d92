//! Checks of the configuration, the data directory and the store.

use std::os::unix::fs::PermissionsExt as _;

use store::SqliteStore;
use tool::Problem;

use super::Finding;
use crate::store::rejected;
use cli_core::context::Context;
use cli_core::data::{DataDir, Server};
use cli_core::failure::plural;
use cli_core::wiring::Review;
use config::{Config, Reading, Setting};

/// Maximum number of rows named in a finding.
const ROWS: usize = 5;
/// Free bytes below which the record will soon stop calls with effects.
const ROOM: u64 = 256 << 20;

/// Checks the configuration and its errors, of the running server if there is one.
pub(super) fn configuration(
    (setting, context): (&Setting, &Context<'_>),
    server: Option<&Server>,
    reading: &Reading,
) -> Vec<Finding> {
    let what = "configuration";
    let mut findings: Vec<_> = match (&setting.file, server) {
        (None, None) => vec![Finding::good(what, without_file(reading))],
        (None, Some(_)) => {
            vec![Finding::good(what, "the running server has none: the built-in tools")]
        }
        (Some(_), _) if !reading.faults.0.is_empty() => Vec::new(),
        (Some(file), server) => {
            let count = reading.config.as_ref().map_or(0, |config| config.sources.len());
            let has_rules = reading.config.as_ref().is_some_and(|config| config.rules().is_some());
            let policy = if has_rules { " and a policy" } else { "" };
            let own = |server: &Server| {
                let own = server.configuration.as_ref();
                own.is_some_and(|own| own == file || Some(own) == context.configuration().as_ref())
            };
            let whose = if server.is_some_and(own) { " (of the running server)" } else { "" };
            let file = file.display();
            let detail = format!("{file}{whose}, {count} {}{policy}", plural(count, "source"));
            vec![Finding::good(what, detail)]
        }
    };
    findings.extend(reading.faults.0.iter().map(fault));
    findings.extend(server.and_then(|server| other_file(context, server)));
    findings
}

/// Warns if the command's configuration file is not that of the server.
fn other_file(context: &Context<'_>, server: &Server) -> Option<Finding> {
    let file = context.configuration()?;
    let other = file.display();
    let detail = match &server.configuration {
        Some(own) if *own == file => return None,
        Some(own) => format!("the running server uses {}, and not {other}", own.display()),
        None => format!("the running server has no configuration file, and does not use {other}"),
    };
    let fix = if context.is_configuration_named() {
        "leave `--config` out to check the server's own, or restart the server with this one"
            .to_owned()
    } else {
        format!("restart the server with `--config {other}`, if it is meant")
    };
    Some(Finding::doubtful("configuration", detail, fix))
}

/// Checks which sources and tools a server would omit, and which names match nothing.
pub(super) async fn reviewed(config: &Config, context: &Context<'_>) -> Vec<Finding> {
    let what = "configuration";
    let fix = |problem: &Problem| {
        problem.fix.clone().unwrap_or_else(|| "`toolkeep config check FILE`".to_owned())
    };
    let detail = |problem: &Problem| format!("{}: {}", problem.place, problem.message);
    match context.wiring.review(config, &context.environment).await {
        Ok(Review { left_out, warnings }) => {
            let wrong = left_out.iter().take(ROWS);
            let wrong = wrong.map(|problem| Finding::wrong(what, detail(problem), fix(problem)));
            let doubtful = warnings.iter().take(ROWS);
            let doubtful =
                doubtful.map(|problem| Finding::doubtful(what, detail(problem), fix(problem)));
            wrong.chain(doubtful).collect()
        }
        Err(failure) => {
            vec![Finding::wrong(what, failure.to_string(), "`toolkeep config check FILE`")]
        }
    }
}

/// Describes a server started without a file here; a running one may have been started differently.
fn without_file(reading: &Reading) -> String {
    let config = reading.config.as_ref();
    let count = config.map_or(0, |config| config.sources.len());
    let listen = config.map_or_else(String::new, |config| format!(", on {}", config.listen));
    let modules = match count {
        0 => String::new(),
        count => format!(" and {count} {} of the environment", plural(count, "module")),
    };
    format!("no file: a server started here has the built-in tools{modules}{listen}")
}

fn fault(fault: &config::Fault) -> Finding {
    let problem = tool::Problem::from(fault);
    let fix =
        problem.fix.unwrap_or_else(|| "`toolkeep config check FILE` shows the line".to_owned());
    Finding::wrong("configuration", format!("{}: {}", problem.place, problem.message), fix)
}

/// Checks the data directory: its existence, permissions and free space.
pub(super) fn directory(data: &DataDir) -> Vec<Finding> {
    let what = "data directory";
    let path = data.path();
    let Ok(metadata) = std::fs::metadata(path) else {
        return vec![Finding::good(what, format!("{}: made on the first start", path.display()))];
    };
    if !metadata.is_dir() {
        let detail = format!("{} is no directory", path.display());
        return vec![Finding::wrong(what, detail, "choose another one with `--data DIR`")];
    }
    let mut findings = Vec::new();
    let mode = metadata.permissions().mode() & 0o777;
    if is_private(mode) {
        findings.push(Finding::good(what, path.display().to_string()));
    } else {
        let detail = format!("{} is open to others (mode {mode:03o})", path.display());
        let fix = format!("chmod 700 '{}'", path.display());
        findings.push(Finding::wrong(what, detail, fix));
    }
    findings.push(writable(data));
    findings.extend(room(data));
    findings
}

/// Checks by trial whether a file can be written, because permissions do not reveal a read-only
/// mount.
fn writable(data: &DataDir) -> Finding {
    let what = "writing";
    let path = data.path().join(format!(".doctor-{}", std::process::id()));
    let tried = std::fs::write(&path, b"x");
    let removed = std::fs::remove_file(&path);
    match tried.and(removed) {
        Ok(()) => Finding::good(what, "a file was written and removed"),
        Err(error) => {
            let detail = format!("{} cannot be written: {error}", data.path().display());
            let fix = "mount its disk for writing, free space on it, give it to this user, or choose another \
                       directory with `--data DIR`";
            Finding::wrong(what, detail, fix)
        }
    }
}

pub(super) fn is_private(mode: u32) -> bool {
    let others = mode & 0o077;
    others == 0
}

fn room(data: &DataDir) -> Option<Finding> {
    let free = data.free_bytes()?;
    let detail = format!("{} MiB free", free >> 20);
    if free >= ROOM {
        return Some(Finding::good("disk", detail));
    }
    let fix = "make room: calls with effects stop when they cannot be recorded";
    Some(Finding::wrong("disk", detail, fix))
}

/// Checks the store file and its rows.
pub(super) fn store(data: &DataDir) -> [Finding; 2] {
    [file(data), rows(data)]
}

/// Checks the rows of the store against their MACs.
fn rows(data: &DataDir) -> Finding {
    let what = "rows of the store";
    match rejected(data) {
        Ok(rows) if rows.is_empty() => Finding::good(what, "all count"),
        Ok(rows) => {
            let named: Vec<_> = rows.iter().take(ROWS).map(|row| row.key.as_str()).collect();
            let more = if rows.len() > ROWS { ", …" } else { "" };
            let detail = format!(
                "{} changed outside of Toolkeep and do not count: {}{more}",
                rows.len(),
                named.join(", ")
            );
            let fix = "restore the data directory from a backup, or see `toolkeep store list`";
            Finding::wrong(what, detail, fix)
        }
        Err(failure) => {
            Finding::wrong(what, failure.to_string(), "`toolkeep error store_unavailable`")
        }
    }
}

fn file(data: &DataDir) -> Finding {
    let path = data.store();
    if !path.exists() {
        return Finding::good("store", "made on the first start");
    }
    match SqliteStore::check(&path) {
        Ok(()) => Finding::good("store", path.display().to_string()),
        Err(error) => {
            Finding::wrong("store", error.to_string(), "`toolkeep error store_unavailable`")
        }
    }
}
