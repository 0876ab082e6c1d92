//! Zip files whose bytes depend on their content only.
//!
//! Files are deflated one after another, in the given order, with one time for all. There is no
//! zip64: an archive of 4 GiB is refused.

use std::io::Write as _;

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

use super::package_set::PackedFile;

/// Version of the format that readers need: 2.0, for deflate.
const NEEDED_VERSION: u16 = 20;
/// Version and system of the writer: 2.0 on Unix, so that file modes count.
const WRITER_VERSION: u16 = 0x0314;
/// File names are UTF-8.
const UTF8_FLAG: u16 = 1 << 11;
const DEFLATE_METHOD: u16 = 8;

/// Returns a zip archive of `files`.
///
/// # Errors
/// If the archive would need zip64, or the time is after 2107.
pub(crate) fn write_zip(
    files: &[PackedFile<'_>],
    epoch_seconds: u64,
    level: u32,
) -> Result<Vec<u8>, String> {
    let (date, time) = dos_time(epoch_seconds)?;
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for file in files {
        let offset = size_field(archive.len())?;
        let fields = entry_fields(file, (date, time), level)?;
        archive.extend(b"PK\x03\x04");
        archive.extend(&fields.header);
        archive.extend(file.path.as_bytes());
        archive.extend(&fields.compressed);
        let mode: u32 = if file.is_executable { 0o100_755 } else { 0o100_644 };
        directory.extend(b"PK\x01\x02");
        directory.extend(WRITER_VERSION.to_le_bytes());
        directory.extend(&fields.header);
        // No comment, first disk, binary content.
        directory.extend([0; 6]);
        directory.extend((mode << 16).to_le_bytes());
        directory.extend(offset.to_le_bytes());
        directory.extend(file.path.as_bytes());
    }
    let count = u16::try_from(files.len()).map_err(|_| "too many files for a zip".to_owned())?;
    let (offset, size) = (size_field(archive.len())?, size_field(directory.len())?);
    archive.extend(directory);
    archive.extend(b"PK\x05\x06");
    archive.extend([0; 4]);
    archive.extend(count.to_le_bytes());
    archive.extend(count.to_le_bytes());
    archive.extend(size.to_le_bytes());
    archive.extend(offset.to_le_bytes());
    archive.extend([0; 2]);
    Ok(archive)
}

/// Header fields of an entry that the file and the directory share, and its compressed content.
struct EntryFields {
    header: Vec<u8>,
    compressed: Vec<u8>,
}

fn entry_fields(
    file: &PackedFile<'_>,
    (date, time): (u16, u16),
    level: u32,
) -> Result<EntryFields, String> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(level));
    let compressed = encoder
        .write_all(&file.content)
        .and_then(|()| encoder.finish())
        .map_err(|e| format!("{}: {e}", file.path))?;
    let mut checksum = Crc::new();
    checksum.update(&file.content);
    let name = u16::try_from(file.path.len()).map_err(|_| format!("{} is too long", file.path))?;
    let mut header = Vec::new();
    for field in [NEEDED_VERSION, UTF8_FLAG, DEFLATE_METHOD, time, date] {
        header.extend(field.to_le_bytes());
    }
    header.extend(checksum.sum().to_le_bytes());
    header.extend(size_field(compressed.len())?.to_le_bytes());
    header.extend(size_field(file.content.len())?.to_le_bytes());
    header.extend(name.to_le_bytes());
    // No extra fields.
    header.extend([0; 2]);
    Ok(EntryFields { header, compressed })
}

fn size_field(size: usize) -> Result<u32, String> {
    u32::try_from(size).map_err(|_| "the zip would have 4 GiB or more".to_owned())
}

/// Returns date and time in the form of MS-DOS, in UTC, with a resolution of two seconds.
fn dos_time(epoch_seconds: u64) -> Result<(u16, u16), String> {
    let (year, month, day) = civil_date(epoch_seconds / 86_400);
    let seconds = epoch_seconds % 86_400;
    let date = year.checked_sub(1980).filter(|years| *years < 128);
    let date = date.map(|years| (years << 9) | (month << 5) | day);
    let time = (seconds / 3600) << 11 | (seconds / 60 % 60) << 5 | (seconds % 60 / 2);
    date.and_then(|date| Some((u16::try_from(date).ok()?, u16::try_from(time).ok()?)))
        .ok_or_else(|| format!("{epoch_seconds} s is no time that a zip file can state"))
}

/// Returns year, month and day of a day since 1970-01-01, by the algorithm of Howard Hinnant's
/// `civil_from_days`.
pub(crate) const fn civil_date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::{civil_date, dos_time, write_zip};
    use crate::dist::package_set::PackedFile;

    #[test]
    fn dates_are_the_calendars_own() {
        assert_eq!(civil_date(0), (1970, 1, 1));
        assert_eq!(civil_date(11_016), (2000, 2, 29));
        assert_eq!(civil_date(20_783), (2026, 11, 26));
        assert_eq!(dos_time(315_532_800).unwrap(), (0x21, 0));
        assert!(dos_time(315_532_799).is_err(), "zip knows no time before 1980");
    }

    #[test]
    fn python_reads_the_archive() {
        let files = [
            PackedFile::from_text("a/ä.txt", "text\n".repeat(1000)),
            PackedFile::executable("run", &b"#!/bin/sh\n"[..]),
        ];
        let archive = write_zip(&files, 1_700_000_000, 9).unwrap();
        assert_eq!(archive, write_zip(&files, 1_700_000_000, 9).unwrap());
        let path = std::env::temp_dir().join(format!("zip-archive-{}.zip", std::process::id()));
        std::fs::write(&path, archive).unwrap();
        let script = "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1])\nassert z.testzip() is None\n\
            for i in z.infolist(): print(i.filename, i.file_size, oct(i.external_attr >> 16), i.date_time)";
        let output =
            std::process::Command::new("python3").args(["-c", script]).arg(&path).output().unwrap();
        std::fs::remove_file(&path).unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            printed,
            "a/ä.txt 5000 0o100644 (2023, 11, 14, 22, 13, 20)\n\
             run 10 0o100755 (2023, 11, 14, 22, 13, 20)\n",
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
