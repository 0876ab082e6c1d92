//! The whole record, one by one, for other programs.

use std::path::Path;
use std::sync::Arc;

use tool::LedgerError;
use tool::ledger::Record;

use crate::disk::Disk;
use crate::failure::failed;
use crate::records::record;
use crate::segment::{Site, parse_name};
use crate::survey::Survey;

/// Shows every record in `dir` that can be read, oldest first, one writer after the other, with the
/// writer's name. Changes nothing; needs no server. Stops where `visit` says so, by `false`.
///
/// # Errors
/// The directory or a segment cannot be read.
pub fn export(
    dir: &Path,
    disk: &Arc<dyn Disk>,
    visit: &mut dyn FnMut(&str, Record) -> bool,
) -> Result<(), LedgerError> {
    let names = disk.list(dir).map_err(|error| failed("the record cannot be read", dir, &error))?;
    let mut writers: Vec<_> = names.iter().filter_map(|n| parse_name(n)).map(|(w, _)| w).collect();
    writers.sort_unstable();
    writers.dedup();
    let mut goes = true;
    for writer in writers {
        let site = Site { disk: Arc::clone(disk), dir: dir.to_owned(), writer: writer.to_owned() };
        let survey = Survey::of(&site)?;
        survey.replay(&site, &mut |_, _, frame| {
            if let Some(record) = record(frame).filter(|_| goes) {
                goes = visit(writer, record);
            }
        })?;
    }
    Ok(())
}
