//! The log file of a background server, with rotation to one previous file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::data_dir::DataDir;
use crate::printer;

/// Maximum bytes of the log file before it is rotated.
const MAX_LOG_BYTES: u64 = 4 << 20;
/// Maximum bytes and lines of the log's end that are shown.
const EXCERPT_LIMITS: (u64, usize) = (2 << 10, 3);
/// Maximum characters of a shown line.
const MAX_LINE_CHARS: usize = 500;

/// The path of the log file.
pub(crate) fn background_log_path(data_dir: &DataDir) -> PathBuf {
    data_dir.path().join("background.log")
}

/// Opens the log file for appending.
pub(crate) fn open_background_log(data_dir: &DataDir) -> io::Result<File> {
    open_append(&background_log_path(data_dir))
}

/// Returns the last lines of a log, joined into one.
pub(crate) fn last_lines(path: &Path) -> String {
    let end = || {
        let file = File::open(path)?;
        let from = file.metadata()?.len().saturating_sub(EXCERPT_LIMITS.0);
        let mut bytes = vec![0; usize::try_from(EXCERPT_LIMITS.0).unwrap_or_default()];
        let read = file.read_at(&mut bytes, from)?;
        bytes.truncate(read);
        Ok::<_, io::Error>(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = end().unwrap_or_default();
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.iter().skip(lines.len().saturating_sub(EXCERPT_LIMITS.1));
    last.map(|line| printer::sanitize_line(line, MAX_LINE_CHARS)).collect::<Vec<_>>().join(" | ")
}

fn open_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// A log writer that rotates its file at a maximum size.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    len: u64,
    max_len: u64,
}

impl LogFile {
    pub(super) fn open_log(path: PathBuf) -> io::Result<Self> {
        let file = open_append(&path)?;
        let written = file.metadata()?.len();
        Ok(Self { path, file, len: written, max_len: MAX_LOG_BYTES })
    }

    fn rotate_log(&mut self) -> io::Result<()> {
        fs::rename(&self.path, self.path.with_extension("log.1"))?;
        self.file = open_append(&self.path)?;
        self.len = 0;
        Ok(())
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.len >= self.max_len {
            // If the rotation fails, the file grows, which is better than losing the log.
            drop(self.rotate_log());
        }
        let written = self.file.write(bytes)?;
        self.len = self.len.saturating_add(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::{LogFile, last_lines};

    #[test]
    fn a_log_that_is_full_becomes_the_one_before_and_no_more_than_two_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("background.log");
        let mut log = LogFile::open_log(path.clone()).unwrap();
        log.max_len = 100;
        for number in 0..1_000 {
            writeln!(log, "line {number:04}").unwrap();
        }
        let sizes: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .collect();
        assert!(sizes.len() == 2 && sizes.iter().all(|size| *size <= 120), "{sizes:?}");
        assert!(last_lines(&path).ends_with("line 0999"), "{}", last_lines(&path));
        assert_eq!(last_lines(&folder.path().join("none")), "");
    }
}
