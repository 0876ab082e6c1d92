//! Checks of the record: its retention and its integrity.

use std::fmt::Write as _;
use std::sync::Arc;

use ledger::{Disk, Holding, Keep, RealDisk, holdings};

use super::Finding;
use crate::record::verify_data;
use cli_core::data::DataDir;
use cli_core::failure::plural;
use cli_core::ui::clean;

/// Reports stored and removed segments of each writer; nothing before the first call.
pub(super) fn kept(data: &DataDir, keep: Keep) -> Vec<Finding> {
    let dir = data.records();
    if !dir.exists() {
        return Vec::new();
    }
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    match holdings(&dir, &disk) {
        Ok(all) => all.iter().map(|holding| finding(holding, keep)).collect(),
        Err(error) => {
            vec![Finding::wrong("record", error.message, "`toolkeep record verify` tells more")]
        }
    }
}

/// Verifies the record, as `toolkeep record verify` does.
pub(super) async fn verified(data: &DataDir) -> Vec<Finding> {
    if !data.records().exists() {
        return Vec::new();
    }
    let (what, place) = ("record verified", data.clone());
    let verified = tokio::task::spawn_blocking(move || verify_data(&place)).await;
    let report = match verified {
        Ok(Ok(report)) => report,
        Ok(Err(failure)) => {
            let fix = "`toolkeep record verify` shows more";
            return vec![Finding::wrong(what, failure.to_string(), fix)];
        }
        Err(_) => return vec![Finding::wrong(what, "the check was given up", "try again")],
    };
    let Some(first) = report.findings.first() else {
        let records: u64 = report.writers.iter().map(|writer| writer.records).sum();
        let detail = format!(
            "{records} {}, all as written",
            plural(usize::try_from(records).unwrap_or(2), "record")
        );
        return vec![Finding::good(what, detail)];
    };
    let count = report.findings.len() as u64 + report.more_findings;
    let (segment, offset, text) = (clean(&first.segment), first.offset, clean(&first.text));
    let detail =
        format!("damaged, findings: {count}; the first: {segment} at byte {offset}: {text}");
    let fix = "`toolkeep record verify` lists them; keep a copy of `records/`, and restore the damaged files from a \
               backup: new calls are recorded all the same";
    vec![Finding::wrong(what, detail, fix)]
}

fn finding(holding: &Holding, keep: Keep) -> Finding {
    let files = holding.segments;
    let mut detail = format!("{files} {}, {} MiB", plural(files, "file"), holding.bytes >> 20);
    let removed = holding.removed;
    if removed > 0 {
        let through = holding.removed_through;
        let what = plural(removed, "file");
        // Writing to a string does not fail.
        write!(detail, "; {removed} {what} removed, up to record {through}: tombstones stay")
            .unwrap_or_default();
    }
    detail.push_str(match keep {
        Keep { age: None, bytes: None } => "; all is kept",
        _ => "; kept as `records.keep` says",
    });
    Finding::good(&format!("record {}", holding.writer), detail)
}
