//! Reading of archives in any supported format: listing entries and streaming their contents.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};
use std::path::Path;
use std::rc::Rc;

use lzma_rust2::XzReader;
use rooted_fs::rooted_dir::RootedDir;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use super::archive_entry::{ArchiveEntry, EntryKind};
use super::extraction_limits::{
    ArchiveError, DecompressedReader, EntryReader, ExtractionBudget, MAX_ARCHIVE_BYTES,
    MAX_DECODER_KIB, MAX_FILES, MeteredReader, check_ratio,
};
use super::{seven_zip, tar, zip};

/// Whether a visitor continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VisitControl {
    /// Continue with the next entry.
    Continue,
    /// Stop; the rest is not read.
    Stop,
}

/// Visitor that receives each entry with its content.
pub type EntryVisitor<'a> =
    dyn FnMut(&ArchiveEntry, &mut dyn Read) -> Result<VisitControl, ArchiveError> + 'a;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ArchiveFormat {
    Zip,
    SevenZip,
    Tar(&'static str),
}

/// An open archive below a root.
#[derive(Debug)]
pub struct Archive {
    file: File,
    length: u64,
    format: ArchiveFormat,
}

impl Archive {
    /// Opens an archive and detects its format.
    pub fn open(root: &RootedDir, path: &Path) -> Result<Self, String> {
        let (mut file, meta) = root.open_file(path).map_err(|error| error.to_string())?;
        let told = |fault: ArchiveError| fault.to_string();
        if meta.size > MAX_ARCHIVE_BYTES {
            let what = format!("the archive is larger than {} MiB", MAX_ARCHIVE_BYTES >> 20);
            return Err(told(ArchiveError::too_large(what)));
        }
        let form = detect_format(&mut file).map_err(told)?;
        Ok(Self { file, length: meta.size, format: form })
    }

    /// Returns the name of the format.
    pub fn format_name(&self) -> &'static str {
        match self.format {
            ArchiveFormat::Zip => "zip",
            ArchiveFormat::SevenZip => "7z",
            ArchiveFormat::Tar(packed) => packed,
        }
    }

    /// Lists all entries and checks the limits against the declared sizes.
    pub fn list_entries(&self) -> Result<Vec<ArchiveEntry>, ArchiveError> {
        let mut entries = Vec::new();
        match self.format {
            ArchiveFormat::Zip => entries = zip::list_entries(self.reopen_file()?, self.length)?,
            ArchiveFormat::SevenZip => entries = seven_zip::list_entries(self.reopen_file()?)?,
            // A tar has no directory, so it must be read completely.
            ArchiveFormat::Tar(packed) => self.visit_tar(packed, &mut |entry, _| {
                entries.push(entry.clone());
                Ok(VisitControl::Continue)
            })?,
        }
        let files = entries.iter().filter(|entry| entry.kind == EntryKind::File);
        if files.clone().count() > MAX_FILES {
            return Err(ArchiveError::too_many());
        }
        let sum = files.fold(0_u64, |sum, entry| sum.saturating_add(entry.size));
        check_ratio(sum, self.length)?;
        Ok(entries)
    }

    /// Visits each `is_wanted` file that is not rejected, with its content, and enforces the limits
    /// on the actual bytes.
    pub fn visit_files(
        &self,
        is_wanted: &dyn Fn(&ArchiveEntry) -> bool,
        visit: &mut EntryVisitor<'_>,
    ) -> Result<(), ArchiveError> {
        let budget = ExtractionBudget::new(Rc::new(Cell::new(self.length)));
        let mut counted = |entry: &ArchiveEntry, content: &mut dyn Read| {
            if entry.rejection.is_some() || entry.kind != EntryKind::File || !is_wanted(entry) {
                return Ok(VisitControl::Continue);
            }
            visit(entry, &mut EntryReader::for_file(content, &budget))
        };
        match self.format {
            ArchiveFormat::Zip => {
                zip::visit_entries(self.reopen_file()?, self.length, is_wanted, &mut counted)
            }
            ArchiveFormat::SevenZip => seven_zip::visit_entries(self.reopen_file()?, &mut counted),
            ArchiveFormat::Tar(packed) => self.visit_tar(packed, &mut counted),
        }
    }

    fn reopen_file(&self) -> Result<File, ArchiveError> {
        let mut file = self.file.try_clone()?;
        file.seek(SeekFrom::Start(0))?;
        Ok(file)
    }

    fn visit_tar(&self, packed: &str, visit: &mut EntryVisitor<'_>) -> Result<(), ArchiveError> {
        let metered = MeteredReader::new(self.reopen_file()?, u64::MAX);
        let budget = ExtractionBudget::new(Rc::clone(&metered.bytes_read));
        let packing = BufReader::with_capacity(64 << 10, metered);
        let inner: Box<dyn Read> = match packed {
            "tar.gz" => Box::new(flate2::bufread::MultiGzDecoder::new(packing)),
            "tar.bz2" => Box::new(bzip2::bufread::MultiBzDecoder::new(packing)),
            "tar.xz" => Box::new(XzReader::new_mem_limit(packing, true, MAX_DECODER_KIB)),
            "tar.zst" => Box::new(zstd_decoder(packing)?),
            _ => Box::new(packing),
        };
        // A plain tar has no compression ratio.
        let budget = if packed == "tar" {
            ExtractionBudget::new(Rc::new(Cell::new(self.length)))
        } else {
            budget
        };
        tar::visit_entries(DecompressedReader { inner, budget }, visit)
    }
}

fn zstd_decoder<R: Read>(packing: R) -> Result<StreamingDecoder<R, FrameDecoder>, ArchiveError> {
    let window = u64::from(MAX_DECODER_KIB) << 10;
    StreamingDecoder::new_with_max_window_size(packing, window)
        .map_err(|error| ArchiveError::invalid(format!("the zstd stream: {error}")))
}

/// Detects the format from the first bytes. Data before the archive is not accepted.
fn detect_format(file: &mut File) -> Result<ArchiveFormat, ArchiveError> {
    let mut start = [0; 512];
    let mut read = 0;
    while let Some(rest) = start.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    let known: [(&[u8], ArchiveFormat); 8] = [
        (b"PK\x03\x04", ArchiveFormat::Zip),
        (b"PK\x05\x06", ArchiveFormat::Zip),
        (b"7z\xbc\xaf\x27\x1c", ArchiveFormat::SevenZip),
        (b"\x1f\x8b", ArchiveFormat::Tar("tar.gz")),
        (b"BZh", ArchiveFormat::Tar("tar.bz2")),
        (b"\xfd7zXZ\0", ArchiveFormat::Tar("tar.xz")),
        (b"\x28\xb5\x2f\xfd", ArchiveFormat::Tar("tar.zst")),
        (b"\0\0\0\0\0\0\0\0", ArchiveFormat::Tar("tar")),
    ];
    let begins = known.iter().find(|(magic, _)| start.starts_with(magic));
    let ustar = start.get(257..262) == Some(b"ustar");
    match begins {
        // An empty tar is only zeros.
        Some((_, ArchiveFormat::Tar("tar")))
            if start.iter().any(|byte| *byte != 0) || read < 512 => {}
        Some((_, form)) => return Ok(*form),
        None if ustar => return Ok(ArchiveFormat::Tar("tar")),
        None => {}
    }
    Err(ArchiveError::invalid(
        "it is no archive: neither zip, 7z nor tar (gz, bz2, xz, zst) begins so",
    ))
}
