//! Compressed tar files whose bytes depend on their content only.

use flate2::{Compression, GzBuilder};

use super::package_set::PackedFile;

/// Returns a tar archive of `files` below `folder`, compressed by gzip. All files belong to user
/// and group 0 and have one time.
///
/// # Errors
/// If a path is too long for the format.
pub(crate) fn write_tar_gz(
    files: &[PackedFile<'_>],
    folder: &str,
    epoch_seconds: u64,
    level: u32,
) -> Result<Vec<u8>, String> {
    let encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::new(level));
    let mut archive = tar::Builder::new(encoder);
    for file in files {
        let path = format!("{folder}/{}", file.path);
        let mut header = tar::Header::new_ustar();
        header.set_mode(if file.is_executable { 0o755 } else { 0o644 });
        header.set_mtime(epoch_seconds);
        header.set_size(u64::try_from(file.content.len()).unwrap_or(u64::MAX));
        archive
            .append_data(&mut header, &path, &*file.content)
            .map_err(|e| format!("{path}: {e}"))?;
    }
    archive
        .into_inner()
        .and_then(flate2::write::GzEncoder::finish)
        .map_err(|e| format!("the archive cannot be finished: {e}"))
}

/// Returns `content` compressed by gzip, without a name and a time.
pub(crate) fn compress_gzip(content: &[u8], level: u32) -> Result<Vec<u8>, String> {
    use std::io::Write as _;
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::new(level));
    encoder.write_all(content).and_then(|()| encoder.finish()).map_err(|e| format!("gzip: {e}"))
}
