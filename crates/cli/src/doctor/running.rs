//! The check of the server that holds the data directory.

use serde_json::Value;

use super::{Finding, State, keys};
use cli_core::client;
use cli_core::context::Context;
use cli_core::data::{DataDir, RECOVER};
use cli_core::failure::{Exit, plural};
use cli_core::value;

/// Maximum number of problems reported per source.
const SHOWN: usize = 3;

/// Checks the server, its sources, and the keys of the data directory against it.
pub(super) async fn findings(data: &DataDir, context: &Context<'_>) -> Vec<Finding> {
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
    if let Err(failure) = get("/readyz").await {
        findings.push(Finding::wrong(
            "ready",
            failure.to_string(),
            "`toolkeep error record_unavailable`",
        ));
    }
    findings.extend(keys::online(data, client).await);
    match get("/v1/sources").await {
        Ok(answer) => findings.extend(value::list(&answer, "sources").iter().flat_map(source)),
        Err(failure) if failure.exit() == Exit::Refused => {
            let detail = "the key is not valid there, so that sources were not checked";
            findings.push(Finding::doubtful("sources", detail, RECOVER));
        }
        Err(failure) => {
            findings.push(Finding::wrong("sources", failure.to_string(), "look at its log"));
        }
    }
    findings
}

/// Reports a source with its first problems, each with place and advice.
pub(super) fn source(source: &Value) -> Vec<Finding> {
    let what = format!("source {}", value::line(source, "name", 40));
    let state = value::line(source, "state", 20);
    let problems = value::list(source, "problems");
    let tools = value::line(source, "tools", 12);
    let count = problems.len();
    let detail = format!("{state}, {tools} tools, {count} {}", plural(count, "problem"));
    let standing = match state.as_str() {
        "failed" => State::Wrong,
        "ok" if problems.is_empty() => State::Good,
        _ => State::Doubtful,
    };
    let mut findings = vec![Finding::new(&what, standing, detail)];
    if count > SHOWN {
        let fix = "`toolkeep source list` shows all of them".to_owned();
        for finding in &mut findings {
            finding.fix = Some(fix.clone());
        }
    }
    findings.extend(problems.iter().take(SHOWN).map(|problem| {
        let detail = format!(
            "{}: {}",
            value::line(problem, "place", 120),
            value::line(problem, "message", 300)
        );
        let fix = Some(value::line(problem, "fix", 200)).filter(|fix| !fix.is_empty());
        Finding { fix, ..Finding::new(&what, standing, detail) }
    }));
    findings.extend(waiting(source));
    findings
}

/// Reports tools whose definitions await review.
fn waiting(source: &Value) -> Option<Finding> {
    let count = source.get("waiting").and_then(Value::as_u64).filter(|count| *count > 0)?;
    let detail = format!("{count} wait to be looked at, and are in no list until then");
    let what = format!("tools of {}", value::line(source, "name", 40));
    Some(Finding::doubtful(&what, detail, "`toolkeep pin list`, then `toolkeep pin diff TOOL`"))
}
