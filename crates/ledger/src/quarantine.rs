//! Quarantine of damaged bytes: they are renamed or copied to a file beside the segment, never deleted.

use std::io;
use std::path::{Path, PathBuf};

use tool::WallTime;

use crate::disk::{OpenMode, append_all, read_fully};
use crate::segment::WriterDir;
use crate::slice::prefix;

/// Bytes that are copied at a time.
const COPY_CHUNK_BYTES: usize = 256 << 10;

/// Renames a segment that is not part of the record, with a suffix that marks it.
pub(crate) fn void_segment(writer_dir: &WriterDir, number: u32, now: WallTime) -> io::Result<()> {
    let path = writer_dir.segment_path(number);
    writer_dir.disk.rename_file(&path, &quarantine_path(&path, now, "void"))?;
    writer_dir.disk.sync_dir(&writer_dir.dir)
}

/// Copies the bytes of a segment from `start` on to a file beside it, and waits until they are
/// durable.
pub(crate) fn copy_damaged_bytes(
    writer_dir: &WriterDir,
    number: u32,
    start: u64,
    now: WallTime,
) -> io::Result<PathBuf> {
    let path = quarantine_path(&writer_dir.segment_path(number), now, "damaged");
    let (file, copy) = (
        writer_dir.open_segment(number, OpenMode::Read)?,
        writer_dir.disk.open_file(&path, OpenMode::Truncate)?,
    );
    let (mut at, mut piece) = (start, vec![0; COPY_CHUNK_BYTES]);
    loop {
        let read = read_fully(file.as_ref(), at, &mut piece)?;
        if read == 0 {
            break;
        }
        append_all(copy.as_ref(), prefix(&piece, read))?;
        at += read as u64;
    }
    copy.sync_data()?;
    writer_dir.disk.sync_dir(&writer_dir.dir)?;
    Ok(path)
}

/// Returns the name for a file that is no longer part of the record.
pub(crate) fn quarantine_path(path: &Path, now: WallTime, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.{ending}", now.0));
    path.with_file_name(name)
}
