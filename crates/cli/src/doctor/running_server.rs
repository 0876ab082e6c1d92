//! Check of the server that holds the data directory, with its sources and keys.

use serde_json::Value;

use super::{CheckFinding, FindingLevel, keys};
use cli_core::command_context::CommandContext;
use cli_core::command_error::{ExitStatus, pluralize};
use cli_core::data_dir::{DataDir, RECOVER};
use cli_core::json_fields;
use cli_core::rest_client;

/// Maximum number of problems reported per source.
const MAX_PROBLEMS: usize = 3;

/// Checks the server, its sources, and the keys of the data directory against it.
pub(super) async fn server_findings(
    data_dir: &DataDir,
    context: &CommandContext<'_>,
) -> Vec<CheckFinding> {
    let what = "server";
    let Some(server) = data_dir.read_server() else {
        let detail = "another process uses the data directory and has not published an address";
        return vec![CheckFinding::warning(what, detail, "try again in a few seconds")];
    };
    let session = match context.connect().await {
        Ok(session) => session,
        Err(failure) => {
            return vec![CheckFinding::error(what, failure.to_string(), "check its process")];
        }
    };
    let client = &session.client;
    let get = async |path: &str| {
        client.get_json(&rest_client::RequestPath::from_segments(path, &[])).await
    };
    let mut findings = Vec::new();
    match get("/version").await {
        Ok(version) => {
            let theirs = json_fields::field_line(&version, "version", 40);
            let detail =
                format!("{}, version {theirs}, process {}", server.local_url(), server.pid);
            let same = theirs == env!("CARGO_PKG_VERSION");
            let other = "this program has another version; restart the server to update it";
            findings.push(if same {
                CheckFinding::ok(what, detail)
            } else {
                CheckFinding::warning(what, detail, other)
            });
        }
        Err(failure) => {
            findings.push(CheckFinding::error(what, failure.to_string(), "check its log"));
        }
    }
    if let Err(failure) = get("/readyz").await {
        findings.push(CheckFinding::error(
            "ready",
            failure.to_string(),
            "see `toolkeep error record_unavailable`",
        ));
    }
    findings.extend(keys::server_key_findings(data_dir, client).await);
    match get("/v1/sources").await {
        Ok(answer) => findings
            .extend(json_fields::field_items(&answer, "sources").iter().flat_map(source_findings)),
        Err(failure) if failure.exit_status() == ExitStatus::Refused => {
            let detail = "the server rejected the key, so sources were not checked";
            findings.push(CheckFinding::warning("sources", detail, RECOVER));
        }
        Err(failure) => {
            findings.push(CheckFinding::error("sources", failure.to_string(), "check its log"));
        }
    }
    if let Ok(answer) = get("/v1/attention").await {
        let entries = json_fields::field_items(&answer, "entries");
        findings.extend(entries.iter().filter_map(attention_finding));
    }
    findings
}

/// Reports an entry of the server's list of what needs a person, unless another check has its
/// subject: sources and their definitions are reported one by one, and the disk is read here.
fn attention_finding(entry: &Value) -> Option<CheckFinding> {
    let topic = json_fields::field_line(entry, "topic", 20);
    let level = match (topic.as_str(), json_fields::field_line(entry, "urgency", 10).as_str()) {
        ("source" | "definition" | "disk", _) => return None,
        (_, "urgent") => FindingLevel::Error,
        _ => FindingLevel::Warning,
    };
    let detail = json_fields::field_line(entry, "message", 300);
    let help = Some(json_fields::field_line(entry, "action", 200));
    Some(CheckFinding { help, ..CheckFinding::new(&topic, level, detail) })
}

/// Reports a source with its first problems, each with place and advice.
pub(super) fn source_findings(source: &Value) -> Vec<CheckFinding> {
    let what = format!("source {}", json_fields::field_line(source, "name", 40));
    let state = json_fields::field_line(source, "state", 20);
    let problems = json_fields::field_items(source, "problems");
    let tools = json_fields::field_line(source, "tools", 12);
    let count = problems.len();
    let detail = format!("{state}, {tools} tools, {count} {}", pluralize(count, "problem"));
    let standing = match state.as_str() {
        "failed" => FindingLevel::Error,
        "ok" if problems.is_empty() => FindingLevel::Ok,
        _ => FindingLevel::Warning,
    };
    let mut findings = vec![CheckFinding::new(&what, standing, detail)];
    if count > MAX_PROBLEMS {
        let fix = "run `toolkeep source list` to see all problems".to_owned();
        for finding in &mut findings {
            finding.help = Some(fix.clone());
        }
    }
    findings.extend(problems.iter().take(MAX_PROBLEMS).map(|problem| {
        let detail = format!(
            "{}: {}",
            json_fields::field_line(problem, "place", 120),
            json_fields::field_line(problem, "message", 300)
        );
        let fix = Some(json_fields::field_line(problem, "fix", 200)).filter(|fix| !fix.is_empty());
        CheckFinding { help: fix, ..CheckFinding::new(&what, standing, detail) }
    }));
    findings.extend(pending_pins_finding(source));
    findings
}

/// Reports tools whose definitions await review.
fn pending_pins_finding(source: &Value) -> Option<CheckFinding> {
    let count = source.get("waiting").and_then(Value::as_u64).filter(|count| *count > 0)?;
    let detail = format!("{count} wait for approval and are not listed");
    let what = format!("tools of {}", json_fields::field_line(source, "name", 40));
    Some(CheckFinding::warning(
        &what,
        detail,
        "run `toolkeep pin list`, then `toolkeep pin diff TOOL`",
    ))
}
