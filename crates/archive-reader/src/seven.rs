//! 7z archives, whose header is checked for memory use before anything is decoded.

mod header;

use std::fs::File;
use std::io::BufReader;

use sevenz_rust2::{Archive, ArchiveEntry, ArchiveReader, Password};

use super::entry::{Entry, Kind, Names};
use super::limits::{DIRECTORY, ENTRIES, Fault, Metered, TOTAL};
use super::read::{Go, Visit};

type Source = BufReader<Metered<File>>;

/// Method ids of LZMA and LZMA2, which have a dictionary.
const LZMA: (&[u8], &[u8]) = (&[3, 1, 1], &[0x21]);
/// Flag of the attributes: the upper half holds a Unix mode.
const UNIX: u32 = 0x8000;

impl From<sevenz_rust2::Error> for Fault {
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

fn opened(mut file: File) -> Result<(Archive, Source), Fault> {
    header::check(&mut file)?;
    let metered = Metered::new(file, DIRECTORY);
    let limit = metered.limit.clone();
    let mut source = BufReader::new(metered);
    let archive = Archive::read(&mut source, &Password::empty())?;
    limit.set(u64::MAX);
    if archive.files.len() > ENTRIES {
        return Err(Fault::too_many());
    }
    let mut sum = 0_u64;
    for block in &archive.blocks {
        sum = sum.saturating_add(block.get_unpack_size());
        for (_, coder) in block.ordered_coder_iter() {
            header::fits(dictionary(coder.encoder_method_id(), coder.properties()))?;
        }
    }
    if sum > TOTAL {
        return Err(Fault::too_large(format!("more than {} MiB come out of it", TOTAL >> 20)));
    }
    Ok((archive, source))
}

/// Returns the dictionary size of a method, in bytes.
fn dictionary(method: &[u8], properties: &[u8]) -> u64 {
    match (method, properties) {
        (method, [_, size @ ..]) if method == LZMA.0 => {
            size.iter().take(4).rev().fold(0_u64, |all, byte| all << 8 | u64::from(*byte))
        }
        (method, [bits, ..]) if method == LZMA.1 => {
            let bits = u64::from(bits & 0x3f);
            (2 | bits & 1) << (bits / 2 + 11).min(40)
        }
        _ => 0,
    }
}

fn entry(found: &ArchiveEntry) -> Entry {
    let unix = found.has_windows_attributes && found.windows_attributes & UNIX != 0;
    let mode = if unix { found.windows_attributes >> 16 & 0o170_000 } else { 0 };
    let kind = match mode {
        0o120_000 => Kind::Link,
        _ if found.is_directory => Kind::Folder,
        0 | 0o100_000 => Kind::File,
        _ => Kind::Other,
    };
    let mut entry = Entry::new(found.name.as_bytes(), kind, found.size);
    if found.is_anti_item {
        entry.refused = entry.refused.or(Some("it stands for something to be removed"));
    }
    entry
}

pub(crate) fn entries(file: File) -> Result<Vec<Entry>, Fault> {
    let (archive, _) = opened(file)?;
    let mut names = Names::default();
    let one = |found: &ArchiveEntry| {
        let mut entry = entry(found);
        names.take(&mut entry);
        entry
    };
    Ok(archive.files.iter().map(one).collect())
}

pub(crate) fn walk(file: File, visit: &mut Visit<'_>) -> Result<(), Fault> {
    let (archive, source) = opened(file)?;
    let mut names = Names::default();
    let mut fault = None;
    let mut reader = ArchiveReader::from_archive(archive, source, Password::empty());
    reader.set_thread_count(1);
    let walked = reader.for_each_entries(|found, content| {
        let mut entry = entry(found);
        names.take(&mut entry);
        match visit(&entry, content) {
            Ok(go) => Ok(go == Go::On),
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
