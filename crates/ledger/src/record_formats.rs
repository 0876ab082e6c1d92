//! Format versions of the files of a record, of every writer in a directory. Reads headers only.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use tool::{FormatSupport, LedgerError};

use crate::disk::{Disk, OpenMode, read_fully};
use crate::error_messages::io_failure;
use crate::segment::{
    self, SEGMENT_HEADER_BYTES, SegmentHeader, is_legacy_tail, parse_filter_name,
    parse_segment_name,
};
use crate::segment_filter::{self, FilterHeader};
use crate::slice::prefix;

/// Number of files of each format version.
pub type FormatCounts = BTreeMap<u32, usize>;

/// Format versions of the files in a record's directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordFormats {
    /// Versions of the segments.
    pub segments: FormatCounts,
    /// Number of segments without a valid header, which `record verify` reports.
    pub damaged_segments: usize,
    /// Versions of the filters, which are built again if they have another version.
    pub filters: FormatCounts,
    /// Number of files in which older versions stored the newest records.
    pub legacy_tails: usize,
}

impl RecordFormats {
    /// Versions of a segment that this program reads and writes.
    pub const SEGMENT: FormatSupport = segment::FORMAT;

    /// Versions of a filter that this program reads and writes.
    pub const FILTER: FormatSupport = segment_filter::FORMAT;

    /// Reads the versions of the files in `dir`; none if it does not exist. Changes nothing.
    ///
    /// # Errors
    /// If the directory or a file in it cannot be read.
    pub fn read_formats(dir: &Path, disk: &dyn Disk) -> Result<Self, LedgerError> {
        let told = |error: &io::Error| io_failure("the record cannot be read", dir, error);
        let names = match disk.list_names(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            names => names.map_err(|error| told(&error))?,
        };
        let mut formats = Self::default();
        for name in &names {
            let read_start = || read_start(&dir.join(name), disk).map_err(|error| told(&error));
            if parse_segment_name(name).is_some() {
                match SegmentHeader::decode_version(&read_start()?) {
                    Ok(version) => add_file(&mut formats.segments, version),
                    Err(_) => formats.damaged_segments += 1,
                }
            } else if parse_filter_name(name).is_some() {
                let version = FilterHeader::decode_version(&read_start()?);
                add_file(&mut formats.filters, version.unwrap_or_default());
            } else if is_legacy_tail(name) {
                formats.legacy_tails += 1;
            }
        }
        Ok(formats)
    }
}

fn add_file(counts: &mut FormatCounts, version: u16) {
    *counts.entry(version.into()).or_default() += 1;
}

/// Reads the bytes that name the version: at most a segment's header.
fn read_start(path: &Path, disk: &dyn Disk) -> io::Result<Vec<u8>> {
    let file = disk.open_file(path, OpenMode::Read)?;
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    let have = read_fully(file.as_ref(), 0, &mut bytes)?;
    Ok(prefix(&bytes, have).to_vec())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tool::WallTime;

    use super::RecordFormats;
    use crate::disk::OsDisk;
    use crate::segment::{SegmentHeader, segment_name};

    /// A header with this version and a valid checksum.
    fn header(version: u8) -> Vec<u8> {
        let header = SegmentHeader {
            writer: "main".to_owned(),
            number: 1,
            session_seq: 1,
            synced_seq: 0,
            created_at: WallTime(1),
            nonce: 7,
            has_progress: true,
        };
        let mut bytes = header.encode_header();
        bytes[8] = version;
        let sum = crc32fast::hash(&bytes[..124]).to_le_bytes();
        bytes[124..].copy_from_slice(&sum);
        bytes.to_vec()
    }

    #[test]
    fn versions_are_counted_whether_this_program_reads_them_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let read = || RecordFormats::read_formats(folder.path(), &OsDisk).unwrap();
        assert_eq!(read(), RecordFormats::default());
        let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
        for (number, version) in [(1, 1), (2, 1), (3, 2), (4, 9)] {
            write(&segment_name("main", number), &header(version));
        }
        write(&segment_name("main", 5), b"torn");
        write("main-0000000001.filter", b"tkfilter\x01\0");
        write("main.tail", b"");
        write("main.progress", b"");
        let found = read();
        assert_eq!(found.segments, [(1, 2), (2, 1), (9, 1)].into());
        assert_eq!((found.damaged_segments, found.legacy_tails), (1, 1));
        assert_eq!(found.filters, [(1, 1)].into());
    }

    #[test]
    fn a_directory_that_does_not_exist_has_no_formats() {
        let folder = tempfile::tempdir().unwrap();
        let none = RecordFormats::read_formats(&folder.path().join("records"), &OsDisk);
        assert_eq!(none.unwrap(), RecordFormats::default());
    }
}
