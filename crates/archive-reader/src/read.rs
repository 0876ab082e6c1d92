//! Reading of archives in any supported format: listing entries and streaming their contents.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};
use std::path::Path;
use std::rc::Rc;

use lzma_rust2::XzReader;
use rooted_fs::roots::Root;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use super::entry::{Entry, Kind};
use super::limits::{
    ARCHIVE, Budget, Counted, FILES, Fault, MEMORY_KIB, Metered, Unpacked, within,
};
use super::{seven, tar, zip};

/// Whether a visitor continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Go {
    /// Continue with the next entry.
    On,
    /// Stop; the rest is not read.
    Stop,
}

/// Visitor that receives each entry with its content.
pub type Visit<'a> = dyn FnMut(&Entry, &mut dyn Read) -> Result<Go, Fault> + 'a;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Zip,
    Seven,
    Tar(&'static str),
}

/// An open archive below a root.
#[derive(Debug)]
pub struct Archive {
    file: File,
    length: u64,
    form: Form,
}

impl Archive {
    /// Opens an archive and detects its format.
    pub fn open(root: &Root, path: &Path) -> Result<Self, String> {
        let (mut file, meta) = root.file(path).map_err(|error| error.to_string())?;
        let told = |fault: Fault| fault.to_string();
        if meta.size > ARCHIVE {
            let what = format!("the archive has more than {} MiB", ARCHIVE >> 20);
            return Err(told(Fault::too_large(what)));
        }
        let form = form(&mut file).map_err(told)?;
        Ok(Self { file, length: meta.size, form })
    }

    /// Returns the name of the format.
    pub fn form(&self) -> &'static str {
        match self.form {
            Form::Zip => "zip",
            Form::Seven => "7z",
            Form::Tar(packed) => packed,
        }
    }

    /// Lists all entries and checks the limits against the declared sizes.
    pub fn entries(&self) -> Result<Vec<Entry>, Fault> {
        let mut entries = Vec::new();
        match self.form {
            Form::Zip => entries = zip::entries(self.again()?, self.length)?,
            Form::Seven => entries = seven::entries(self.again()?)?,
            // A tar has no directory, so it must be read completely.
            Form::Tar(packed) => self.unpacked(packed, &mut |entry, _| {
                entries.push(entry.clone());
                Ok(Go::On)
            })?,
        }
        let files = entries.iter().filter(|entry| entry.kind == Kind::File);
        if files.clone().count() > FILES {
            return Err(Fault::too_many());
        }
        let sum = files.fold(0_u64, |sum, entry| sum.saturating_add(entry.size));
        within(sum, self.length)?;
        Ok(entries)
    }

    /// Visits each `wanted` file that is not rejected, with its content, and enforces the limits on
    /// the actual bytes.
    pub fn walk(
        &self,
        wanted: &dyn Fn(&Entry) -> bool,
        visit: &mut Visit<'_>,
    ) -> Result<(), Fault> {
        let budget = Budget::new(Rc::new(Cell::new(self.length)));
        let mut counted = |entry: &Entry, content: &mut dyn Read| {
            if entry.refused.is_some() || entry.kind != Kind::File || !wanted(entry) {
                return Ok(Go::On);
            }
            visit(entry, &mut Counted::file(content, &budget))
        };
        match self.form {
            Form::Zip => zip::walk(self.again()?, self.length, wanted, &mut counted),
            Form::Seven => seven::walk(self.again()?, &mut counted),
            Form::Tar(packed) => self.unpacked(packed, &mut counted),
        }
    }

    fn again(&self) -> Result<File, Fault> {
        let mut file = self.file.try_clone()?;
        file.seek(SeekFrom::Start(0))?;
        Ok(file)
    }

    fn unpacked(&self, packed: &str, visit: &mut Visit<'_>) -> Result<(), Fault> {
        let metered = Metered::new(self.again()?, u64::MAX);
        let budget = Budget::new(Rc::clone(&metered.read));
        let packing = BufReader::with_capacity(64 << 10, metered);
        let inner: Box<dyn Read> = match packed {
            "tar.gz" => Box::new(flate2::bufread::MultiGzDecoder::new(packing)),
            "tar.bz2" => Box::new(bzip2::bufread::MultiBzDecoder::new(packing)),
            "tar.xz" => Box::new(XzReader::new_mem_limit(packing, true, MEMORY_KIB)),
            "tar.zst" => Box::new(zstd(packing)?),
            _ => Box::new(packing),
        };
        // A plain tar has no compression ratio.
        let budget =
            if packed == "tar" { Budget::new(Rc::new(Cell::new(self.length))) } else { budget };
        tar::walk(Unpacked { inner, budget }, visit)
    }
}

fn zstd<R: Read>(packing: R) -> Result<StreamingDecoder<R, FrameDecoder>, Fault> {
    let window = u64::from(MEMORY_KIB) << 10;
    StreamingDecoder::new_with_max_window_size(packing, window)
        .map_err(|error| Fault::invalid(format!("the zstd stream: {error}")))
}

/// Detects the format from the first bytes. Data before the archive is not accepted.
fn form(file: &mut File) -> Result<Form, Fault> {
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
    let known: [(&[u8], Form); 8] = [
        (b"PK\x03\x04", Form::Zip),
        (b"PK\x05\x06", Form::Zip),
        (b"7z\xbc\xaf\x27\x1c", Form::Seven),
        (b"\x1f\x8b", Form::Tar("tar.gz")),
        (b"BZh", Form::Tar("tar.bz2")),
        (b"\xfd7zXZ\0", Form::Tar("tar.xz")),
        (b"\x28\xb5\x2f\xfd", Form::Tar("tar.zst")),
        (b"\0\0\0\0\0\0\0\0", Form::Tar("tar")),
    ];
    let begins = known.iter().find(|(magic, _)| start.starts_with(magic));
    let ustar = start.get(257..262) == Some(b"ustar");
    match begins {
        // An empty tar is only zeros.
        Some((_, Form::Tar("tar"))) if start.iter().any(|byte| *byte != 0) || read < 512 => {}
        Some((_, form)) => return Ok(*form),
        None if ustar => return Ok(Form::Tar("tar")),
        None => {}
    }
    Err(Fault::invalid("it is no archive: neither zip, 7z nor tar (gz, bz2, xz, zst) begins so"))
}
