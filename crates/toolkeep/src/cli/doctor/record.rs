//! How much of the record is kept.

use std::fmt::Write as _;
use std::sync::Arc;

use ledger::{Disk, Holding, Keep, RealDisk, holdings};

use super::Finding;
use crate::cli::data::DataDir;
use crate::cli::failure::plural;

/// What is there and what was removed, for each writer; nothing before the first call.
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
