//! Streaming tar reader. GNU and PAX extensions are parsed here within limits, because the tar
//! crate would allocate whatever size they declare.

use std::io::Read;

use tar::{Archive, EntryType, PaxExtensions};

use super::archive_entry::{ArchiveEntry, DuplicateNameCheck, EntryKind};
use super::archive_file::{EntryVisitor, VisitControl};
use super::extraction_limits::{ArchiveError, MAX_ENTRIES};

/// Largest extension, in bytes: a name, or a few fields.
const MAX_EXTENSION_BYTES: u64 = 64 << 10;

pub(crate) fn visit_entries(
    stream: impl Read,
    visit: &mut EntryVisitor<'_>,
) -> Result<(), ArchiveError> {
    let mut archive = Archive::new(stream);
    let (mut names, mut next) = (DuplicateNameCheck::default(), PendingExtensions::default());
    for (count, found) in archive.entries()?.raw(true).enumerate() {
        let mut found = found?;
        if count >= MAX_ENTRIES {
            return Err(ArchiveError::too_many());
        }
        let (kind, size) = (found.header().entry_type(), found.header().entry_size()?);
        if next.absorb_extension(kind, size, &mut found)? {
            continue;
        }
        let extensions = std::mem::take(&mut next);
        if extensions.size.is_some_and(|said| said != size) {
            return Err(ArchiveError::invalid("an entry has two different sizes"));
        }
        let stored = extensions.name.unwrap_or_else(|| found.header().path_bytes().into_owned());
        let mut entry = ArchiveEntry::from_stored_name(&stored, entry_kind(kind), size);
        names.reject_duplicate(&mut entry);
        if visit(&entry, &mut found)? == VisitControl::Stop {
            return Ok(());
        }
    }
    Ok(())
}

fn entry_kind(kind: EntryType) -> EntryKind {
    match kind {
        EntryType::Regular | EntryType::Continuous => EntryKind::File,
        EntryType::Directory => EntryKind::Directory,
        EntryType::Link | EntryType::Symlink => EntryKind::Link,
        _ => EntryKind::Other,
    }
}

/// PAX and GNU fields for the next entry.
#[derive(Debug, Default)]
struct PendingExtensions {
    name: Option<Vec<u8>>,
    size: Option<u64>,
}

impl PendingExtensions {
    /// Reads an extension; returns false if this is a regular entry.
    fn absorb_extension(
        &mut self,
        kind: EntryType,
        size: u64,
        found: &mut impl Read,
    ) -> Result<bool, ArchiveError> {
        let named = match kind {
            EntryType::GNULongName | EntryType::XHeader => true,
            // Of links, which do not come out, and of all entries together, which is not used.
            EntryType::GNULongLink | EntryType::XGlobalHeader => false,
            _ => return Ok(false),
        };
        if size > MAX_EXTENSION_BYTES {
            return Err(ArchiveError::too_large("an extension of an entry is larger than 64 KiB"));
        }
        let mut content = Vec::new();
        found.take(MAX_EXTENSION_BYTES).read_to_end(&mut content)?;
        if !named {
            return Ok(true);
        }
        if kind == EntryType::GNULongName {
            content.truncate(content.iter().position(|byte| *byte == 0).unwrap_or(content.len()));
            self.name = Some(content);
            return Ok(true);
        }
        for field in PaxExtensions::new(&content) {
            let field = field?;
            match field.key_bytes() {
                b"path" => self.name = Some(field.value_bytes().to_vec()),
                b"size" => {
                    let said = field.value().ok().and_then(|value| value.parse().ok());
                    self.size =
                        Some(said.ok_or_else(|| ArchiveError::invalid("a size is not a number"))?);
                }
                key if key.starts_with(b"GNU.sparse") => {
                    return Err(ArchiveError::invalid("sparse files are not supported"));
                }
                _ => {}
            }
        }
        Ok(true)
    }
}
