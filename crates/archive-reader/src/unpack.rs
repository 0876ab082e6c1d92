//! Unpacking of a complete archive: fails if any entry is rejected.

use std::io::{self, Read as _};
use std::path::Path;

use rooted_fs::roots::{Put, Root};

use super::entry::Kind;
use super::limits::Fault;
use super::read::{Archive, Go};

/// Unpacks the archive at `path` into the new folder `into` below the root and returns the file
/// names. Writes at most `most` bytes, within the limits of every archive. Unlike
/// `archive_extract`, one rejected entry is an error. Files written before an error remain. Blocks.
///
/// # Errors
/// A message that says what failed.
pub fn unpack(root: &Root, path: &Path, into: &Path, most: u64) -> Result<Vec<String>, String> {
    let archive = Archive::open(root, path)?;
    let entries = archive.entries().map_err(|fault| fault.what)?;
    if let Some((entry, why)) = entries.iter().find_map(|entry| Some((entry, entry.refused?))) {
        return Err(format!("`{}`: {why}", entry.name));
    }
    let mut names = Vec::new();
    let mut left = most;
    let mut failed = None;
    let walked = archive.walk(&|entry| entry.kind == Kind::File, &mut |entry, content| {
        let at = into.join(&entry.name);
        let written = root.make_folders_above(&at).and_then(|()| {
            root.write_with(&at, Put::New, |file| {
                let came = io::copy(&mut content.take(left.saturating_add(1)), file)?;
                left = left.checked_sub(came).ok_or_else(|| {
                    io::Error::other(Fault::too_large(format!("more than {most} bytes come out")))
                })?;
                Ok(())
            })
        });
        match written {
            Ok(()) => names.push(entry.name.clone()),
            Err(error) => {
                failed = Some(format!("`{}`: {error}", entry.name));
                return Ok(Go::Stop);
            }
        }
        Ok(Go::On)
    });
    match failed.or_else(|| walked.err().map(|fault| fault.what)) {
        Some(why) => Err(why),
        None => Ok(names),
    }
}
