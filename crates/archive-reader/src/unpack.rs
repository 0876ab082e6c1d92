//! A whole archive, unpacked for somebody else's use: all of it, or an error.

use std::io::{self, Read as _};
use std::path::Path;

use rooted_fs::roots::{Put, Root};

use super::entry::Kind;
use super::limits::Fault;
use super::read::{Archive, Go};

/// Unpacks the archive at `path` of the root into its folder `into`, of which nothing is there yet: `most` bytes
/// at most, within the limits of every archive. Answers the names of the files. Unlike `archive_extract` it
/// passes over nothing: one entry that may not come out is an error. What came out before an error stays. Blocks.
///
/// # Errors
/// In words.
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
