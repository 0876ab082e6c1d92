//! Storage summary of a ledger: names and sizes of its files, and the last tombstone.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use tool::{LedgerError, WallTime};

use crate::disk::{Disk, OpenMode};
use crate::error_messages::io_failure;
use crate::segment::{WriterDir, parse_segment_name, parse_tombstone_name};
use crate::tombstone;

/// Storage summary of one writer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WriterSummary {
    /// Its name.
    pub writer: String,
    /// Number of existing segment files.
    pub segments: usize,
    /// Bytes in them.
    pub bytes: u64,
    /// Start time of the oldest segment.
    #[serde(rename = "since")]
    pub oldest_at: Option<WallTime>,
    /// Files that retention removed.
    #[serde(rename = "removed")]
    pub removed_segments: usize,
    /// Number of the last record in removed segments.
    #[serde(rename = "removed_through")]
    pub removed_last_seq: u64,
}

/// Summarizes the files in `dir` by writer. Reads names and headers only and verifies nothing.
///
/// # Errors
/// The directory cannot be read.
pub fn summarize_writers(
    dir: &Path,
    disk: &Arc<dyn Disk>,
) -> Result<Vec<WriterSummary>, LedgerError> {
    let names = disk
        .list_names(dir)
        .map_err(|error| io_failure("the record cannot be read", dir, &error))?;
    let mut writers = BTreeMap::<String, (Vec<u32>, Vec<u32>)>::new();
    for name in &names {
        if let Some((writer, number)) = parse_segment_name(name) {
            writers.entry(writer.to_owned()).or_default().0.push(number);
        } else if let Some((writer, number)) = parse_tombstone_name(name) {
            writers.entry(writer.to_owned()).or_default().1.push(number);
        }
    }
    let of = |(writer, (mut segments, tombs)): (String, (Vec<u32>, Vec<u32>))| {
        let site = WriterDir { disk: Arc::clone(disk), dir: dir.to_owned(), writer_name: writer };
        let gone = tombs.iter().max().copied().unwrap_or(0);
        segments.retain(|number| *number > gone);
        segments.sort_unstable();
        let open = |number: &u32| site.open_segment(*number, OpenMode::Read).ok();
        let since = segments.first().and_then(|number| site.read_header(*number).ok()?);
        let last = tombstone::read_tombstone(&site, gone).ok().filter(|_| gone > 0);
        WriterSummary {
            segments: segments.len(),
            bytes: segments.iter().filter_map(|number| open(number)?.file_size().ok()).sum(),
            oldest_at: since.map(|header| header.created_at),
            removed_segments: tombs.len(),
            removed_last_seq: last.map_or(0, |read| read.tombstone.final_state().last_seq),
            writer: site.writer_name,
        }
    };
    Ok(writers.into_iter().map(of).collect())
}
