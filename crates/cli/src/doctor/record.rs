//! Checks of the record: its retention and its integrity.

use std::fmt::Write as _;
use std::sync::Arc;

use ledger::{Disk, OsDisk, RetentionPolicy, WriterSummary, summarize_writers};

use super::CheckFinding;
use crate::record::verify_data;
use cli_core::command_error::pluralize;
use cli_core::data_dir::DataDir;
use cli_core::printer::sanitize_text;

/// Reports stored and removed segments of each writer; nothing before the first call.
pub(super) fn retention_findings(data_dir: &DataDir, policy: RetentionPolicy) -> Vec<CheckFinding> {
    let dir = data_dir.records_dir();
    if !dir.exists() {
        return Vec::new();
    }
    let disk: Arc<dyn Disk> = Arc::new(OsDisk);
    match summarize_writers(&dir, &disk) {
        Ok(all) => all.iter().map(|holding| retention_finding(holding, policy)).collect(),
        Err(error) => {
            vec![CheckFinding::error("record", error.message, "run `toolkeep record verify`")]
        }
    }
}

/// Verifies the record, as `toolkeep record verify` does.
pub(super) async fn verification_findings(data_dir: &DataDir) -> Vec<CheckFinding> {
    if !data_dir.records_dir().exists() {
        return Vec::new();
    }
    let (what, place) = ("record verified", data_dir.clone());
    let verified = tokio::task::spawn_blocking(move || verify_data(&place)).await;
    let report = match verified {
        Ok(Ok(report)) => report,
        Ok(Err(failure)) => {
            let fix = "run `toolkeep record verify`";
            return vec![CheckFinding::error(what, failure.to_string(), fix)];
        }
        Err(_) => return vec![CheckFinding::error(what, "the check was aborted", "try again")],
    };
    let Some(first) = report.findings.first() else {
        let records: u64 = report.writers.iter().map(|writer| writer.records).sum();
        let detail = format!(
            "{records} {}, verified",
            pluralize(usize::try_from(records).unwrap_or(2), "record")
        );
        return vec![CheckFinding::ok(what, detail)];
    };
    let count = report.findings.len() as u64 + report.more_findings;
    let (segment, offset, text) =
        (sanitize_text(&first.segment), first.offset, sanitize_text(&first.message));
    let detail =
        format!("damaged, {count} findings; the first: {segment} at byte {offset}: {text}");
    let fix = "run `toolkeep record verify` for all findings, copy `records/`, and restore the \
               damaged files from a backup; new calls are still recorded";
    vec![CheckFinding::error(what, detail, fix)]
}

fn retention_finding(holding: &WriterSummary, keep: RetentionPolicy) -> CheckFinding {
    let files = holding.segments;
    let mut detail = format!("{files} {}, {} MiB", pluralize(files, "file"), holding.bytes >> 20);
    let removed = holding.removed_segments;
    if removed > 0 {
        let through = holding.removed_last_seq;
        let what = pluralize(removed, "file");
        // Writing to a string does not fail.
        write!(detail, "; {removed} {what} removed by retention, up to record {through}")
            .unwrap_or_default();
    }
    detail.push_str(match keep {
        RetentionPolicy { max_age: None, max_bytes: None } => "; no retention limit",
        _ => "; retention by `records.keep`",
    });
    CheckFinding::ok(&format!("record {}", holding.writer), detail)
}
