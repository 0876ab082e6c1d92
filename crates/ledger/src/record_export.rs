//! Export of all records, one by one, for other programs.

use std::path::Path;
use std::sync::Arc;

use tool::LedgerError;
use tool::ledger::LedgerRecord;

use crate::disk::Disk;
use crate::error_messages::io_failure;
use crate::record_reader::decode_record;
use crate::record_scan::RecordScan;
use crate::segment::{WriterDir, parse_segment_name};

/// Visits every readable record in `dir`, oldest first and writer by writer, with the writer's
/// name. Read-only; needs no server. Stops when `visit` returns `false`.
///
/// # Errors
/// The directory or a segment cannot be read.
pub fn export_records(
    dir: &Path,
    disk: &Arc<dyn Disk>,
    visit: &mut dyn FnMut(&str, LedgerRecord) -> bool,
) -> Result<(), LedgerError> {
    let names = disk
        .list_names(dir)
        .map_err(|error| io_failure("the record cannot be read", dir, &error))?;
    let mut writers: Vec<_> =
        names.iter().filter_map(|n| parse_segment_name(n)).map(|(w, _)| w).collect();
    writers.sort_unstable();
    writers.dedup();
    let mut goes = true;
    for writer in writers {
        let site = WriterDir {
            disk: Arc::clone(disk),
            dir: dir.to_owned(),
            writer_name: writer.to_owned(),
        };
        let survey = RecordScan::scan_writer(&site)?;
        survey.replay_frames(&site, &mut |_, _, frame| {
            if let Some(record) = decode_record(frame).filter(|_| goes) {
                goes = visit(writer, record);
            }
        })?;
    }
    Ok(())
}
