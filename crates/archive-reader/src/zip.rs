//! zip archives, whose central directory is checked against the local headers before any entry is
//! read.

use std::fs::File;
use std::io::{BufReader, Read as _};

use zip::read::ZipArchive;
use zip::result::ZipError;

use super::entry::{Entry, Kind, Names};
use super::limits::{DIRECTORY, ENTRIES, Fault, Metered};
use super::read::{Go, Visit};

type Zip = ZipArchive<BufReader<Metered<File>>>;

impl From<ZipError> for Fault {
    fn from(error: ZipError) -> Self {
        match error {
            ZipError::Io(error) => error.into(),
            other => Self::invalid(other),
        }
    }
}

/// Opens a zip and checks its directory: sizes, names and offsets must agree in both headers, and
/// entries may not overlap.
fn opened(file: File, length: u64) -> Result<Zip, Fault> {
    let metered = Metered::new(file, DIRECTORY);
    let limit = metered.limit.clone();
    let mut zip = ZipArchive::new(BufReader::new(metered))?;
    if zip.len() > ENTRIES {
        return Err(Fault::too_many());
    }
    // One look at each header, of some hundred bytes.
    limit.set(u64::MAX);
    zip.validate_header_consistency()?;
    if zip.offset() != 0 || length == 0 {
        return Err(Fault::invalid("something stands before the first entry"));
    }
    Ok(zip)
}

fn entry(zip: &Zip, at: usize) -> Result<Entry, Fault> {
    let found = zip.by_index_data(at)?;
    let stored = found.name_raw();
    // Directories and links are recognised by either of their two markers.
    let kind = match found.unix_mode().map(|mode| mode & 0o170_000) {
        Some(0o120_000) => Kind::Link,
        _ if stored.ends_with(b"/") => Kind::Folder,
        Some(0o040_000) => Kind::Folder,
        Some(0 | 0o100_000) | None => Kind::File,
        Some(_) => Kind::Other,
    };
    let mut entry = Entry::new(stored, kind, found.size());
    if found.encrypted() {
        entry.refused = entry.refused.or(Some("it is encrypted"));
    }
    Ok(entry)
}

pub(crate) fn entries(file: File, length: u64) -> Result<Vec<Entry>, Fault> {
    let zip = opened(file, length)?;
    let mut names = Names::default();
    let one = |at| {
        let mut entry = entry(&zip, at)?;
        names.take(&mut entry);
        Ok(entry)
    };
    (0..zip.len()).map(one).collect()
}

pub(crate) fn walk(
    file: File,
    length: u64,
    wanted: &dyn Fn(&Entry) -> bool,
    visit: &mut Visit<'_>,
) -> Result<(), Fault> {
    let mut zip = opened(file, length)?;
    let mut names = Names::default();
    for at in 0..zip.len() {
        let mut entry = entry(&zip, at)?;
        names.take(&mut entry);
        if entry.refused.is_some() || entry.kind != Kind::File || !wanted(&entry) {
            continue;
        }
        let mut content = zip.by_index(at)?;
        let size = entry.size;
        // One byte beyond the declared size reveals a wrong size.
        let mut bounded = (&mut content).take(size.saturating_add(1));
        if visit(&entry, &mut bounded)? == Go::Stop {
            return Ok(());
        }
    }
    Ok(())
}
