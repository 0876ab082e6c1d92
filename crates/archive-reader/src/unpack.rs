//! Unpacking of a complete archive: fails if any entry is rejected.

use std::io::{self, Read as _};
use std::path::Path;

use rooted_fs::rooted_dir::{RootedDir, WriteMode};

use super::archive_entry::EntryKind;
use super::archive_file::{Archive, VisitControl};
use super::extraction_limits::ArchiveError;

/// Unpacks the archive at `path` into the new folder `target_dir` below the root and returns the
/// file names. Writes at most `max_bytes` bytes, within the limits of every archive. Unlike
/// `archive_extract`, one rejected entry is an error. Files written before an error remain. Blocks.
///
/// # Errors
/// A message that says what failed.
pub fn unpack_all(
    root: &RootedDir,
    path: &Path,
    target_dir: &Path,
    max_bytes: u64,
) -> Result<Vec<String>, String> {
    let archive = Archive::open(root, path)?;
    let entries = archive.list_entries().map_err(|fault| fault.message)?;
    if let Some((entry, why)) = entries.iter().find_map(|entry| Some((entry, entry.rejection?))) {
        return Err(format!("`{}`: {why}", entry.name));
    }
    let mut names = Vec::new();
    let mut left = max_bytes;
    let mut failed = None;
    let walked =
        archive.visit_files(&|entry| entry.kind == EntryKind::File, &mut |entry, content| {
            let at = target_dir.join(&entry.name);
            let written = root.create_parent_dirs(&at).and_then(|()| {
                root.write_file_with(&at, WriteMode::CreateNew, |file| {
                    let came = io::copy(&mut content.take(left.saturating_add(1)), file)?;
                    left = left.checked_sub(came).ok_or_else(|| {
                        io::Error::other(ArchiveError::too_large(format!(
                            "it unpacks to more than {max_bytes} bytes"
                        )))
                    })?;
                    Ok(())
                })
            });
            match written {
                Ok(()) => names.push(entry.name.clone()),
                Err(error) => {
                    failed = Some(format!("`{}`: {error}", entry.name));
                    return Ok(VisitControl::Stop);
                }
            }
            Ok(VisitControl::Continue)
        });
    match failed.or_else(|| walked.err().map(|fault| fault.message)) {
        Some(why) => Err(why),
        None => Ok(names),
    }
}
