//! What is looked at.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;
use store::SqliteStore;

use super::Finding;
use crate::cli::client;
use crate::cli::context::Context;
use crate::cli::data::{DataDir, FirstKey};
use crate::cli::failure::{Exit, plural};
use crate::cli::store::rejected;
use crate::cli::value;
use crate::config::Reading;

/// Rows that are named.
const ROWS: usize = 5;
/// With less room than this, in bytes, the record will soon stop calls with effects.
const ROOM: u64 = 256 << 20;

/// The configuration file and its faults.
pub(super) fn configuration(file: Option<&Path>, reading: &Reading) -> Vec<Finding> {
    let what = "configuration";
    let Some(file) = file else {
        let detail = "none: the built-in tools, on 127.0.0.1:8080";
        let none = Finding::good(what, detail);
        let faults = reading.faults.0.iter();
        return std::iter::once(none).chain(faults.map(fault)).collect();
    };
    if reading.faults.0.is_empty() {
        let count = reading.config.as_ref().map_or(0, |config| config.sources.len());
        let has_rules = reading.config.as_ref().is_some_and(|config| config.rules().is_some());
        let policy = if has_rules { " and a policy" } else { "" };
        let detail = format!("{}, {count} {}{policy}", file.display(), plural(count, "source"));
        return vec![Finding::good(what, detail)];
    }
    reading.faults.0.iter().map(fault).collect()
}

fn fault(fault: &crate::config::Fault) -> Finding {
    let problem = tool::Problem::from(fault);
    let fix =
        problem.fix.unwrap_or_else(|| "`toolkeep config check FILE` shows the line".to_owned());
    Finding::wrong("configuration", format!("{}: {}", problem.place, problem.message), fix)
}

/// The data directory: there, its owner's alone, with room.
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
    findings.extend(room(path));
    findings
}

fn is_private(mode: u32) -> bool {
    let others = mode & 0o077;
    others == 0
}

fn room(path: &Path) -> Option<Finding> {
    let system = rustix::fs::statvfs(path).ok()?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    let detail = format!("{} MiB free", free >> 20);
    if free >= ROOM {
        return Some(Finding::good("disk", detail));
    }
    let fix = "make room: calls with effects stop when they cannot be recorded";
    Some(Finding::wrong("disk", detail, fix))
}

/// The key files: there, and their owner's alone.
pub(super) fn keys(data: &DataDir) -> Vec<Finding> {
    [FirstKey::Owner, FirstKey::Agent].into_iter().map(|key| key_file(data, key)).collect()
}

fn key_file(data: &DataDir, key: FirstKey) -> Finding {
    let path = data.key_file(key);
    let shown = path.display();
    let what = "key";
    match std::fs::metadata(&path).map(|metadata| metadata.permissions().mode() & 0o777) {
        Ok(mode) if is_private(mode) => Finding::good(what, shown.to_string()),
        Ok(mode) => {
            let detail = format!("{shown} can be read by others (mode {mode:03o})");
            let fix =
                format!("chmod 600 '{shown}', and revoke the key if others are on this machine");
            Finding::wrong(what, detail, fix)
        }
        Err(_) => {
            let fix = "fine if you keep it elsewhere; else `toolkeep serve --make-keys`";
            Finding::doubtful(what, format!("{shown} is not there"), fix)
        }
    }
}

/// The server that holds the directory; where none does, the store.
pub(super) async fn server(data: &DataDir, context: &Context<'_>) -> Vec<Finding> {
    if data.is_held() {
        return running(data, context).await;
    }
    let none = Finding::good("server", "none runs; commands do the work themselves");
    vec![none, store(data), rows(data)]
}

/// The rows of the store, by their MACs.
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

fn store(data: &DataDir) -> Finding {
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

async fn running(data: &DataDir, context: &Context<'_>) -> Vec<Finding> {
    let what = "server";
    let Some(server) = data.server() else {
        let detail = "another process holds the data directory and tells no address";
        return vec![Finding::doubtful(what, detail, "look again in a few seconds")];
    };
    let session = match context.connect().await {
        Ok(session) => session,
        Err(failure) => {
            return vec![Finding::wrong(what, failure.to_string(), "look for its process")];
        }
    };
    let client = &session.client;
    let get = async |path: &str| client.get(&client::Path::new(path, &[])).await;
    let mut findings = Vec::new();
    match get("/version").await {
        Ok(version) => {
            let theirs = value::line(&version, "version", 40);
            let detail = format!("{}, version {theirs}, process {}", server.url(), server.pid);
            let same = theirs == env!("CARGO_PKG_VERSION");
            let other = "this program has another version; restart the server to use it";
            findings.push(if same {
                Finding::good(what, detail)
            } else {
                Finding::doubtful(what, detail, other)
            });
        }
        Err(failure) => findings.push(Finding::wrong(what, failure.to_string(), "look at its log")),
    }
    findings.push(Finding::good("configuration of the server", server.configuration()));
    if let Err(failure) = get("/readyz").await {
        findings.push(Finding::wrong(
            "ready",
            failure.to_string(),
            "`toolkeep error record_unavailable`",
        ));
    }
    match get("/v1/sources").await {
        Ok(answer) => {
            let sources = value::list(&answer, "sources");
            findings.extend(sources.iter().map(source));
            findings.extend(sources.iter().filter_map(waiting));
        }
        Err(failure) if failure.exit() == Exit::Refused => {
            let detail = "the key does not hold, so that sources were not looked at";
            findings.push(Finding::doubtful("sources", detail, "`toolkeep error unauthenticated`"));
        }
        Err(failure) => {
            findings.push(Finding::wrong("sources", failure.to_string(), "look at its log"));
        }
    }
    findings
}

fn source(source: &Value) -> Finding {
    let what = format!("source {}", value::line(source, "name", 40));
    let state = value::line(source, "state", 20);
    let problems = value::list(source, "problems");
    let tools = value::line(source, "tools", 12);
    let fix = "`toolkeep source list` tells where and what to do";
    let detail =
        format!("{state}, {tools} tools, {} {}", problems.len(), plural(problems.len(), "problem"));
    match state.as_str() {
        "failed" => Finding::wrong(&what, detail, fix),
        "ok" if problems.is_empty() => Finding::good(&what, detail),
        _ => Finding::doubtful(&what, detail, fix),
    }
}

/// Tools that someone has to look at.
fn waiting(source: &Value) -> Option<Finding> {
    let count = source.get("waiting").and_then(Value::as_u64).filter(|count| *count > 0)?;
    let detail = format!("{count} wait to be looked at, and are in no list until then");
    let what = format!("tools of {}", value::line(source, "name", 40));
    Some(Finding::doubtful(&what, detail, "`toolkeep pin list`, then `toolkeep pin diff TOOL`"))
}
