//! What is kept of a record, at a glance: names and sizes of files, and the last tombstone.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use tool::{LedgerError, Wall};

use crate::disk::{Disk, Open};
use crate::failure::failed;
use crate::segment::{Header, Site, parse_name, parse_tomb};
use crate::tomb;

/// What is kept of one writer's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holding {
    /// Its name.
    pub writer: String,
    /// Files that are there.
    pub segments: usize,
    /// Bytes in them.
    pub bytes: u64,
    /// When the oldest of them was begun.
    pub since: Option<Wall>,
    /// Files that retention removed.
    pub removed: usize,
    /// Number of the last record that went with them.
    pub removed_through: u64,
}

/// What is kept in `dir`, by writer. Reads names and heads only; proves nothing.
///
/// # Errors
/// The directory cannot be read.
pub fn holdings(dir: &Path, disk: &Arc<dyn Disk>) -> Result<Vec<Holding>, LedgerError> {
    let names = disk.list(dir).map_err(|error| failed("the record cannot be read", dir, &error))?;
    let mut writers = BTreeMap::<String, (Vec<u32>, Vec<u32>)>::new();
    for name in &names {
        if let Some((writer, number)) = parse_name(name) {
            writers.entry(writer.to_owned()).or_default().0.push(number);
        } else if let Some((writer, number)) = parse_tomb(name) {
            writers.entry(writer.to_owned()).or_default().1.push(number);
        }
    }
    let of = |(writer, (mut segments, tombs)): (String, (Vec<u32>, Vec<u32>))| {
        let site = Site { disk: Arc::clone(disk), dir: dir.to_owned(), writer };
        let gone = tombs.iter().max().copied().unwrap_or(0);
        segments.retain(|number| *number > gone);
        segments.sort_unstable();
        let open = |number: &u32| site.open(*number, Open::Read).ok();
        let since = segments.first().and_then(open);
        let since = since.and_then(|file| Header::read(file.as_ref()).ok()?.ok());
        let last = tomb::read(&site, gone).ok().filter(|_| gone > 0);
        Holding {
            segments: segments.len(),
            bytes: segments.iter().filter_map(|number| open(number)?.size().ok()).sum(),
            since: since.map(|header| header.at),
            removed: tombs.len(),
            removed_through: last.map_or(0, |read| read.tomb.end().through),
            writer: site.writer,
        }
    };
    Ok(writers.into_iter().map(of).collect())
}
