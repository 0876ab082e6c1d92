//! Reader of zip archives. The central directory is checked against the local headers before any
//! entry is read.

use std::fs::File;
use std::io::{BufReader, Read as _};

use zip::read::ZipArchive;
use zip::result::ZipError;

use super::archive_entry::{ArchiveEntry, DuplicateNameCheck, EntryKind};
use super::archive_file::{EntryVisitor, VisitControl};
use super::extraction_limits::{ArchiveError, MAX_DIRECTORY_BYTES, MAX_ENTRIES, MeteredReader};

type MeteredZip = ZipArchive<BufReader<MeteredReader<File>>>;

impl From<ZipError> for ArchiveError {
    fn from(error: ZipError) -> Self {
        match error {
            ZipError::Io(error) => error.into(),
            other => Self::invalid(other),
        }
    }
}

/// Opens a zip and checks its directory: sizes, names and offsets must agree in both headers, and
/// entries may not overlap.
fn open_checked(file: File, length: u64) -> Result<MeteredZip, ArchiveError> {
    let metered = MeteredReader::new(file, MAX_DIRECTORY_BYTES);
    let limit = metered.limit.clone();
    let mut zip = ZipArchive::new(BufReader::new(metered))?;
    if zip.len() > MAX_ENTRIES {
        return Err(ArchiveError::too_many());
    }
    // One look at each header, of some hundred bytes.
    limit.set(u64::MAX);
    zip.validate_header_consistency()?;
    if zip.offset() != 0 || length == 0 {
        return Err(ArchiveError::invalid("there is data before the first entry"));
    }
    Ok(zip)
}

fn convert_entry(zip: &MeteredZip, at: usize) -> Result<ArchiveEntry, ArchiveError> {
    let found = zip.by_index_data(at)?;
    let stored = found.name_raw();
    // Directories and links are recognised by either of their two markers.
    let kind = match found.unix_mode().map(|mode| mode & 0o170_000) {
        Some(0o120_000) => EntryKind::Link,
        _ if stored.ends_with(b"/") => EntryKind::Directory,
        Some(0o040_000) => EntryKind::Directory,
        Some(0 | 0o100_000) | None => EntryKind::File,
        Some(_) => EntryKind::Other,
    };
    let mut entry = ArchiveEntry::from_stored_name(stored, kind, found.size());
    if found.encrypted() {
        entry.rejection = entry.rejection.or(Some("it is encrypted"));
    }
    Ok(entry)
}

pub(crate) fn list_entries(file: File, length: u64) -> Result<Vec<ArchiveEntry>, ArchiveError> {
    let zip = open_checked(file, length)?;
    let mut names = DuplicateNameCheck::default();
    let one = |at| {
        let mut entry = convert_entry(&zip, at)?;
        names.reject_duplicate(&mut entry);
        Ok(entry)
    };
    (0..zip.len()).map(one).collect()
}

pub(crate) fn visit_entries(
    file: File,
    length: u64,
    is_wanted: &dyn Fn(&ArchiveEntry) -> bool,
    visit: &mut EntryVisitor<'_>,
) -> Result<(), ArchiveError> {
    let mut zip = open_checked(file, length)?;
    let mut names = DuplicateNameCheck::default();
    for at in 0..zip.len() {
        let mut entry = convert_entry(&zip, at)?;
        names.reject_duplicate(&mut entry);
        if entry.rejection.is_some() || entry.kind != EntryKind::File || !is_wanted(&entry) {
            continue;
        }
        let mut content = zip.by_index(at)?;
        let size = entry.size;
        // One byte beyond the declared size reveals a wrong size.
        let mut bounded = (&mut content).take(size.saturating_add(1));
        if visit(&entry, &mut bounded)? == VisitControl::Stop {
            return Ok(());
        }
    }
    Ok(())
}
