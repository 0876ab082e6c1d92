//! Reader of 7z archives. The header is checked for memory use before anything is decoded.

mod header_check;

use std::fs::File;
use std::io::BufReader;

use sevenz_rust2::{Archive, ArchiveReader, Password};

use super::archive_entry::{ArchiveEntry, DuplicateNameCheck, EntryKind};
use super::archive_file::{EntryVisitor, VisitControl};
use super::extraction_limits::{
    ArchiveError, MAX_DIRECTORY_BYTES, MAX_ENTRIES, MAX_TOTAL_BYTES, MeteredReader,
};

type MeteredFile = BufReader<MeteredReader<File>>;

/// Method ids of LZMA and LZMA2, which have a dictionary.
const LZMA_METHODS: (&[u8], &[u8]) = (&[3, 1, 1], &[0x21]);
/// Flag of the attributes: the upper half holds a Unix mode.
const UNIX_ATTRIBUTES: u32 = 0x8000;

impl From<sevenz_rust2::Error> for ArchiveError {
    fn from(error: sevenz_rust2::Error) -> Self {
        match error {
            sevenz_rust2::Error::Io(error, _) | sevenz_rust2::Error::MaybeBadPassword(error) => {
                error.into()
            }
            sevenz_rust2::Error::PasswordRequired => Self::invalid("the archive is encrypted"),
            other => Self::invalid(other),
        }
    }
}

fn open_checked(mut file: File) -> Result<(Archive, MeteredFile), ArchiveError> {
    header_check::check_header(&mut file)?;
    let metered = MeteredReader::new(file, MAX_DIRECTORY_BYTES);
    let limit = metered.limit.clone();
    let mut source = BufReader::new(metered);
    let archive = Archive::read(&mut source, &Password::empty())?;
    limit.set(u64::MAX);
    if archive.files.len() > MAX_ENTRIES {
        return Err(ArchiveError::too_many());
    }
    let mut sum = 0_u64;
    for block in &archive.blocks {
        sum = sum.saturating_add(block.get_unpack_size());
        for (_, coder) in block.ordered_coder_iter() {
            header_check::check_dictionary(dictionary_size(
                coder.encoder_method_id(),
                coder.properties(),
            ))?;
        }
    }
    if sum > MAX_TOTAL_BYTES {
        return Err(ArchiveError::too_large(format!(
            "it unpacks to more than {} MiB",
            MAX_TOTAL_BYTES >> 20
        )));
    }
    Ok((archive, source))
}

/// Returns the dictionary size of a method, in bytes.
fn dictionary_size(method: &[u8], properties: &[u8]) -> u64 {
    match (method, properties) {
        (method, [_, size @ ..]) if method == LZMA_METHODS.0 => {
            size.iter().take(4).rev().fold(0_u64, |all, byte| all << 8 | u64::from(*byte))
        }
        (method, [bits, ..]) if method == LZMA_METHODS.1 => {
            let bits = u64::from(bits & 0x3f);
            (2 | bits & 1) << (bits / 2 + 11).min(40)
        }
        _ => 0,
    }
}

fn convert_entry(found: &sevenz_rust2::ArchiveEntry) -> ArchiveEntry {
    let unix = found.has_windows_attributes && found.windows_attributes & UNIX_ATTRIBUTES != 0;
    let mode = if unix { found.windows_attributes >> 16 & 0o170_000 } else { 0 };
    let kind = match mode {
        0o120_000 => EntryKind::Link,
        _ if found.is_directory => EntryKind::Directory,
        0 | 0o100_000 => EntryKind::File,
        _ => EntryKind::Other,
    };
    let mut entry = ArchiveEntry::from_stored_name(found.name.as_bytes(), kind, found.size);
    if found.is_anti_item {
        entry.rejection = entry.rejection.or(Some("it marks a deleted file"));
    }
    entry
}

pub(crate) fn list_entries(file: File) -> Result<Vec<ArchiveEntry>, ArchiveError> {
    let (archive, _) = open_checked(file)?;
    let mut names = DuplicateNameCheck::default();
    let one = |found: &sevenz_rust2::ArchiveEntry| {
        let mut entry = convert_entry(found);
        names.reject_duplicate(&mut entry);
        entry
    };
    Ok(archive.files.iter().map(one).collect())
}

pub(crate) fn visit_entries(file: File, visit: &mut EntryVisitor<'_>) -> Result<(), ArchiveError> {
    let (archive, source) = open_checked(file)?;
    let mut names = DuplicateNameCheck::default();
    let mut fault = None;
    let mut reader = ArchiveReader::from_archive(archive, source, Password::empty());
    reader.set_thread_count(1);
    let walked = reader.for_each_entries(|found, content| {
        let mut entry = convert_entry(found);
        names.reject_duplicate(&mut entry);
        match visit(&entry, content) {
            Ok(go) => Ok(go == VisitControl::Continue),
            Err(error) => {
                fault = Some(error);
                Ok(false)
            }
        }
    });
    match fault {
        Some(fault) => Err(fault),
        None => Ok(walked?),
    }
}
