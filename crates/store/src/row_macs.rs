//! MACs of the rows of a store, in a file outside of the store.
//!
//! An attacker who can write only the database cannot write this file. So a row that was changed,
//! added, removed or rolled back is detected: its MAC differs from the one here. The file is a log
//! of lines. The lines of a write batch are on disk before the database commits it, and a closing
//! line follows the commit. A batch without its closing line was interrupted: both states of its
//! rows are accepted.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use aws_lc_rs::hmac;
use tool::{FormatSupport, Secret, StoreError};

mod mac_log;

use crate::store_cache::CACHE_PREFIX;
pub(crate) use mac_log::RowChange;
use mac_log::{MacLog, MacLogContent};

/// Location of the MAC file of a store, and the secret from which its key is derived.
#[derive(Debug, Clone)]
pub struct MacFile {
    /// The file. It must not be where the store's own file can be written to alone.
    pub path: PathBuf,
    /// A secret that is not in the store.
    pub secret: Secret,
}

impl MacFile {
    /// Versions of the file that this program reads and writes.
    pub const FORMAT: FormatSupport = mac_log::FORMAT;

    /// Reads the format version of a MAC file, which may be newer than this program supports;
    /// `None` if the file does not exist.
    ///
    /// # Errors
    /// If the file cannot be read, or is no MAC file.
    pub fn read_format(path: &Path) -> Result<Option<u32>, StoreError> {
        mac_log::read_format(path).map_err(|error| unusable_file(path, &error))
    }
}

/// Truncated HMAC-SHA256 of a row's key and value.
pub(crate) type RowMac = [u8; 16];

/// Reasons why a row is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowRejection {
    /// The value is not the one that was written last.
    Changed,
    /// The row was not written through Toolkeep.
    Added,
    /// The row was written and is missing.
    Removed,
}

impl fmt::Display for RowRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Changed => "changed",
            Self::Added => "added",
            Self::Removed => "removed",
        })
    }
}

/// A rejected row, which was not written through Toolkeep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedRow {
    /// Key of the row.
    pub key: String,
    /// Reason of the rejection.
    pub rejection: RowRejection,
}

/// Value that readers get for a rejected row: neither JSON nor text, so that it reads as a damaged
/// record.
pub(crate) const REJECTED_VALUE: &[u8] = b"\xff\xfechanged outside of Toolkeep";

fn is_protected_key(key: &str) -> bool {
    !key.starts_with(CACHE_PREFIX)
}

/// MACs of all rows as written last. Lives on the store's thread.
pub(crate) struct RowMacs {
    key: hmac::Key,
    log: MacLog,
    macs: BTreeMap<Box<str>, RowMac>,
    /// Changes of a batch whose commit is not confirmed.
    pending: Vec<RowChange>,
}

/// State of the MAC file.
pub(crate) enum OpenedMacs {
    /// Existing MACs. Pending changes must be resolved first.
    Existing(RowMacs),
    /// No MACs yet, or those of another secret: all rows are to be adopted.
    New(RowMacs),
}

impl RowMacs {
    /// Reads the file without changing it.
    pub(crate) fn open_file(file: &MacFile) -> Result<OpenedMacs, StoreError> {
        let root = hmac::Key::new(hmac::HMAC_SHA256, file.secret.expose().as_bytes());
        let derived = hmac::sign(&root, b"store rows");
        let key = hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref());
        let check = truncate_tag(&hmac::sign(&key, b"file"));
        let read = MacLog::read_file(&file.path, check)
            .map_err(|error| unusable_file(&file.path, &error))?;
        Ok(match read {
            Some(MacLogContent { log, mut macs, mut pending }) => {
                // Versions up to 0.1.0 also wrote MACs of rows that have none.
                macs.retain(|key, _| is_protected_key(key));
                pending.retain(|change| is_protected_key(&change.key));
                OpenedMacs::Existing(Self { key, log, macs, pending })
            }
            None => OpenedMacs::New(Self {
                key,
                log: MacLog::new(&file.path, check),
                macs: BTreeMap::new(),
                pending: Vec::new(),
            }),
        })
    }

    /// Computes the MAC of a row.
    pub(crate) fn compute_mac(&self, key: &str, bytes: &[u8]) -> RowMac {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&(key.len() as u64).to_le_bytes());
        context.update(key.as_bytes());
        context.update(bytes);
        truncate_tag(&context.sign())
    }

    /// Returns the reason to reject a row as found in the database; `None` for `bytes` means no
    /// row. Unprotected rows are never rejected.
    pub(crate) fn rejection_of(&self, key: &str, bytes: Option<&[u8]>) -> Option<RowRejection> {
        match (bytes, self.macs.get(key)) {
            _ if !is_protected_key(key) => None,
            (Some(bytes), Some(mac)) => {
                (self.compute_mac(key, bytes) != *mac).then_some(RowRejection::Changed)
            }
            (Some(_), None) => Some(RowRejection::Added),
            (None, Some(_)) => Some(RowRejection::Removed),
            (None, None) => None,
        }
    }

    /// Returns true if such a row is expected.
    pub(crate) fn contains_key(&self, key: &str) -> bool {
        self.macs.contains_key(key)
    }

    /// Iterates over the expected keys with `prefix` from `start` on, without `start` if `after`.
    pub(crate) fn expected_keys<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
    ) -> impl Iterator<Item = &'a str> {
        let start = after.filter(|after| *after > prefix).unwrap_or(prefix);
        let range = (Bound::Included(start), Bound::Unbounded);
        let from = self.macs.range::<str, _>(range).map(|(key, _)| key.as_ref());
        from.take_while(move |key| key.starts_with(prefix))
            .skip_while(move |key| after.is_some_and(|after| *key <= after))
    }

    /// Writes the MACs of the rows about to be committed; `None` stands for a removed row. When this
    /// returns they are on disk. Unprotected rows get no MAC.
    pub(crate) fn begin_batch<'a>(
        &mut self,
        rows: impl IntoIterator<Item = (&'a str, Option<&'a [u8]>)>,
    ) -> Result<(), StoreError> {
        let protected_rows = rows.into_iter().filter(|(key, _)| is_protected_key(key));
        let changes: Vec<_> = protected_rows
            .map(|(key, bytes)| RowChange {
                key: key.into(),
                mac: bytes.map(|bytes| self.compute_mac(key, bytes)),
            })
            .collect();
        if changes.is_empty() {
            return Ok(());
        }
        self.log.append_batch(&changes).map_err(|error| unusable_file(self.log.path(), &error))?;
        self.pending = changes;
        Ok(())
    }

    /// Marks the batch as committed.
    pub(crate) fn commit_batch(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        mac_log::apply_batch(&mut self.macs, std::mem::take(&mut self.pending));
        self.log.close_batch();
        if self.log.is_long(self.macs.len())
            && let Err(error) = self.log.rewrite_file(&self.macs)
        {
            tracing::warn!(
                %error,
                path = %self.log.path().display(),
                "cannot compact the row MACs"
            );
        }
    }

    /// Returns true if it is unknown whether a batch was committed.
    pub(crate) fn is_unsettled(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Determines from the current rows which pending changes were committed.
    pub(crate) fn resolve_pending<E>(
        &mut self,
        mut current_row: impl FnMut(&str) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<(), E> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let mut made = Vec::new();
        for change in &self.pending {
            let row = current_row(&change.key)?;
            let mac = row.as_deref().map(|bytes| self.compute_mac(&change.key, bytes));
            if mac == change.mac {
                made.push(RowChange { key: change.key.clone(), mac });
            }
        }
        mac_log::apply_batch(&mut self.macs, made);
        self.pending.clear();
        // The batch stays open in the file, so that nothing may follow it there.
        self.log.stop_appending();
        Ok(())
    }

    /// Adopts a row as found, without writing the file.
    pub(crate) fn adopt_row(&mut self, key: &str, bytes: &[u8]) {
        let mac = self.compute_mac(key, bytes);
        self.macs.insert(key.into(), mac);
    }

    /// Rewrites the file atomically.
    pub(crate) fn rewrite_file(&mut self) -> Result<(), StoreError> {
        self.log.rewrite_file(&self.macs).map_err(|error| unusable_file(self.log.path(), &error))
    }

    /// Resumes appending after the content that was read; rewrites the file if part of it was
    /// unresolved.
    pub(crate) fn resume_file(&mut self) -> Result<(), StoreError> {
        let resumed =
            self.log.resume_append().map_err(|error| unusable_file(self.log.path(), &error))?;
        if resumed { Ok(()) } else { self.rewrite_file() }
    }

    /// Returns true if the file must be rewritten before it can be appended to.
    pub(crate) fn needs_rewrite(&self) -> bool {
        self.log.needs_rewrite()
    }
}

impl fmt::Debug for RowMacs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowMacs").field("rows", &self.macs.len()).finish_non_exhaustive()
    }
}

fn truncate_tag(tag: &hmac::Tag) -> RowMac {
    let mut mac = RowMac::default();
    for (to, from) in mac.iter_mut().zip(tag.as_ref()) {
        *to = *from;
    }
    mac
}

fn unusable_file(path: &Path, error: &dyn fmt::Display) -> StoreError {
    StoreError::Unavailable(format!(
        "cannot use the row MACs of the store, `{}`: {error}",
        path.display()
    ))
}
