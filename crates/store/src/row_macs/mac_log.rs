//! The file of row MACs: lines of text, appended per batch, and rewritten when it has twice the
//! necessary lines.
//!
//! `=MAC KEY` sets a row's MAC and `-KEY` removes it; `.` closes a committed batch. Nothing follows
//! an unclosed batch: the file is rewritten first.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rooted_fs::private_file;
use tool::FormatSupport;

use super::RowMac;

/// Start of the first line of the file. The version follows, and a MAC that identifies the secret.
const FILE_HEADER: &str = "toolkeep row MACs ";
/// Maximum length of the first line.
const MAX_HEADER_BYTES: u64 = 128;
/// Versions of the file.
pub(super) const FORMAT: FormatSupport = FormatSupport { oldest_readable: 1, written: 1 };
/// Maximum size of the file in bytes.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// Number of superfluous lines before the file is rewritten.
const MAX_EXTRA_LINES: usize = 1_024;

/// New MAC of a row; `None` if the row is removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowChange {
    pub(crate) key: Box<str>,
    pub(crate) mac: Option<RowMac>,
}

/// The MAC file as known to this process.
#[derive(Debug)]
pub(super) struct MacLog {
    path: PathBuf,
    check: RowMac,
    /// Open for appending once this process has written it.
    file: Option<File>,
    bytes: u64,
    lines: usize,
}

/// Content of the file.
#[derive(Debug)]
pub(super) struct MacLogContent {
    pub(super) log: MacLog,
    pub(super) macs: BTreeMap<Box<str>, RowMac>,
    pub(super) pending: Vec<RowChange>,
}

impl MacLog {
    /// Creates a log that does not exist yet.
    pub(super) fn new(path: &Path, check_mac: RowMac) -> Self {
        Self { path: path.to_owned(), check: check_mac, file: None, bytes: 0, lines: 0 }
    }

    /// Reads the file; `None` if it does not exist, or belongs to another secret.
    pub(super) fn read_file(path: &Path, check_mac: RowMac) -> io::Result<Option<MacLogContent>> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut text = Vec::new();
        file.take(MAX_FILE_BYTES).read_to_end(&mut text)?;
        let mut lines = text.split_inclusive(|byte| *byte == b'\n');
        let head = lines.next().and_then(complete_line).unwrap_or_default();
        let (version, by) = parse_header(head)?;
        if !FORMAT.can_read(version) {
            let reason = FORMAT.unreadable_reason(version);
            return Err(io::Error::other(format!("{reason}; use that version")));
        }
        if by != format_mac(&check_mac) {
            return Ok(None);
        }
        let (mut macs, mut pending, mut torn) = (BTreeMap::new(), Vec::new(), None);
        let mut last = 0;
        for (number, line) in lines.enumerate() {
            last = number;
            match complete_line(line).and_then(parse_line) {
                // Unsynced lines are cut off or garbage, but then no closing line follows.
                None => torn = torn.or(Some(number)),
                Some(MacLogLine::Change(change)) => pending.push(change),
                Some(MacLogLine::Close) => {
                    if let Some(number) = torn {
                        let told = format!(
                            "line {} is damaged; restore it from a backup, or see `toolkeep error store_unavailable`",
                            number + 2
                        );
                        return Err(io::Error::other(told));
                    }
                    apply_batch(&mut macs, std::mem::take(&mut pending));
                }
            }
        }
        let (mut log, whole) = (Self::new(path, check_mac), pending.is_empty() && torn.is_none());
        if whole {
            log.bytes = text.len() as u64;
            log.lines = last + 2;
        }
        Ok(Some(MacLogContent { log, macs, pending }))
    }

    /// Resumes appending if the content was complete; returns whether it does.
    pub(super) fn resume_append(&mut self) -> io::Result<bool> {
        if self.bytes > 0 && self.file.is_none() {
            self.file = Some(OpenOptions::new().write(true).open(&self.path)?);
        }
        Ok(self.file.is_some())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn needs_rewrite(&self) -> bool {
        self.file.is_none()
    }

    /// Stops appending until the file is rewritten.
    pub(super) fn stop_appending(&mut self) {
        self.file = None;
        self.bytes = 0;
    }

    pub(super) fn is_long(&self, rows: usize) -> bool {
        self.lines > rows.saturating_mul(2).saturating_add(MAX_EXTRA_LINES)
    }

    /// Appends a batch and waits for the disk.
    pub(super) fn append_batch(&mut self, changes: &[RowChange]) -> io::Result<()> {
        let mut text = String::new();
        for change in changes {
            write_line(&mut text, &change.key, change.mac.as_ref());
        }
        self.append_text(&text, changes.len())?;
        let file = self.file.as_ref().ok_or_else(earlier_write_failed)?;
        let synced = file.sync_data();
        if synced.is_err() {
            self.stop_appending();
        }
        synced
    }

    /// Closes the batch. The closing line is synced with the next batch: without it the batch is
    /// resolved again.
    pub(super) fn close_batch(&mut self) {
        if let Err(error) = self.append_text(".\n", 1) {
            // The next write rewrites the file.
            self.stop_appending();
            tracing::warn!(%error, path = %self.path.display(), "cannot write the row MACs");
        }
    }

    fn append_text(&mut self, text: &str, lines: usize) -> io::Result<()> {
        let file = self.file.as_ref().ok_or_else(earlier_write_failed)?;
        if let Err(error) = file.write_all_at(text.as_bytes(), self.bytes) {
            // A partial batch must not precede the next one.
            if file.set_len(self.bytes).is_err() {
                self.stop_appending();
            }
            return Err(error);
        }
        self.bytes += text.len() as u64;
        self.lines += lines;
        Ok(())
    }

    /// Rewrites the file atomically with these MACs.
    pub(super) fn rewrite_file(&mut self, macs: &BTreeMap<Box<str>, RowMac>) -> io::Result<()> {
        // Nothing is appended after an unclosed batch, even if this fails.
        self.stop_appending();
        let mut text = format!("{FILE_HEADER}{} {}\n", FORMAT.written, format_mac(&self.check));
        for (key, mac) in macs {
            write_line(&mut text, key, Some(mac));
        }
        text.push_str(".\n");
        private_file::replace_atomically(&self.path, text.as_bytes())?;
        self.file = Some(OpenOptions::new().write(true).open(&self.path)?);
        self.bytes = text.len() as u64;
        self.lines = macs.len();
        Ok(())
    }
}

/// Reads the format version of the file; `None` if it does not exist.
pub(super) fn read_format(path: &Path) -> io::Result<Option<u32>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut line = Vec::new();
    BufReader::new(file.take(MAX_HEADER_BYTES)).read_until(b'\n', &mut line)?;
    parse_header(complete_line(&line).unwrap_or_default()).map(|(version, _)| Some(version))
}

/// Parses the version and the MAC of the secret from the first line.
fn parse_header(line: &str) -> io::Result<(u32, &str)> {
    let header =
        line.strip_prefix(FILE_HEADER).map(|rest| rest.split_once(' ').unwrap_or((rest, "")));
    let parsed = header.and_then(|(version, by)| Some((version.parse().ok()?, by.trim_start())));
    parsed.ok_or_else(|| io::Error::other("it is not a row MAC file; restore it from a backup"))
}

fn earlier_write_failed() -> io::Error {
    io::Error::other("an earlier write failed and is retried with the next one")
}

pub(super) fn apply_batch(macs: &mut BTreeMap<Box<str>, RowMac>, batch: Vec<RowChange>) {
    for RowChange { key, mac } in batch {
        let _before = match mac {
            Some(mac) => macs.insert(key, mac),
            None => macs.remove(&key),
        };
    }
}

enum MacLogLine {
    Change(RowChange),
    Close,
}

/// Returns a line that was written completely.
fn complete_line(line: &[u8]) -> Option<&str> {
    std::str::from_utf8(line.strip_suffix(b"\n")?).ok()
}

fn parse_line(line: &str) -> Option<MacLogLine> {
    if line == "." {
        return Some(MacLogLine::Close);
    }
    if let Some(key) = line.strip_prefix('-') {
        return Some(MacLogLine::Change(RowChange { key: key.into(), mac: None }));
    }
    let (mac, key) = line.strip_prefix('=')?.split_once(' ')?;
    let mac = u128::from_str_radix(mac, 16).ok().filter(|_| mac.len() == 32)?;
    Some(MacLogLine::Change(RowChange { key: key.into(), mac: Some(mac.to_be_bytes()) }))
}

fn format_mac(mac: &RowMac) -> String {
    format!("{:032x}", u128::from_be_bytes(*mac))
}

/// Writes a line; keys contain no control characters.
fn write_line(text: &mut String, key: &str, mac: Option<&RowMac>) {
    match mac {
        Some(mac) => {
            text.push('=');
            text.push_str(&format_mac(mac));
            text.push(' ');
        }
        None => text.push('-'),
    }
    text.push_str(key);
    text.push('\n');
}
