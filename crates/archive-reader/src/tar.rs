//! Streaming tar reader. GNU and PAX extensions are parsed here within limits, because the tar
//! crate would allocate whatever size they declare.

use std::io::Read;

use tar::{Archive, EntryType, PaxExtensions};

use super::entry::{Entry, Kind, Names};
use super::limits::{ENTRIES, Fault};
use super::read::{Go, Visit};

/// Largest extension, in bytes: a name, or a few fields.
const EXTENSION: u64 = 64 << 10;

pub(crate) fn walk(stream: impl Read, visit: &mut Visit<'_>) -> Result<(), Fault> {
    let mut archive = Archive::new(stream);
    let (mut names, mut next) = (Names::default(), Next::default());
    for (count, found) in archive.entries()?.raw(true).enumerate() {
        let mut found = found?;
        if count >= ENTRIES {
            return Err(Fault::too_many());
        }
        let (kind, size) = (found.header().entry_type(), found.header().entry_size()?);
        if next.takes(kind, size, &mut found)? {
            continue;
        }
        let extensions = std::mem::take(&mut next);
        if extensions.size.is_some_and(|said| said != size) {
            return Err(Fault::invalid(
                "an entry has one size in its header and another beside it",
            ));
        }
        let stored = extensions.name.unwrap_or_else(|| found.header().path_bytes().into_owned());
        let mut entry = Entry::new(&stored, kind_of(kind), size);
        names.take(&mut entry);
        if visit(&entry, &mut found)? == Go::Stop {
            return Ok(());
        }
    }
    Ok(())
}

fn kind_of(kind: EntryType) -> Kind {
    match kind {
        EntryType::Regular | EntryType::Continuous => Kind::File,
        EntryType::Directory => Kind::Folder,
        EntryType::Link | EntryType::Symlink => Kind::Link,
        _ => Kind::Other,
    }
}

/// PAX and GNU fields for the next entry.
#[derive(Debug, Default)]
struct Next {
    name: Option<Vec<u8>>,
    size: Option<u64>,
}

impl Next {
    /// Reads an extension; returns false if this is a regular entry.
    fn takes(&mut self, kind: EntryType, size: u64, found: &mut impl Read) -> Result<bool, Fault> {
        let named = match kind {
            EntryType::GNULongName | EntryType::XHeader => true,
            // Of links, which do not come out, and of all entries together, which is not used.
            EntryType::GNULongLink | EntryType::XGlobalHeader => false,
            _ => return Ok(false),
        };
        if size > EXTENSION {
            return Err(Fault::too_large("an extension of an entry is over 64 KiB"));
        }
        let mut content = Vec::new();
        found.take(EXTENSION).read_to_end(&mut content)?;
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
                    self.size = Some(said.ok_or_else(|| Fault::invalid("a size is no number"))?);
                }
                key if key.starts_with(b"GNU.sparse") => {
                    return Err(Fault::invalid("files with holes in them are not read"));
                }
                _ => {}
            }
        }
        Ok(true)
    }
}
