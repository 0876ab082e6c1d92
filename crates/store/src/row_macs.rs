//! MACs of the rows of a store, in a file outside of the store.
//!
//! Who can write to the database alone cannot write this file. So a row that was changed, added, removed or put
//! back to an older state is found: its MAC is not the one that stands here. The file is a log of lines. Those of a
//! batch of writes are on the disk before the database commits them, and a closing line follows the commit. A batch
//! without its closing line was interrupted: its rows may stand before or after it, and both are accepted then.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use aws_lc_rs::hmac;
use tool::{Secret, StoreError};

mod log;

pub(crate) use log::Change;
use log::{Log, Read};

/// Where the MACs of a store are kept, and the secret of which their key is derived.
#[derive(Debug, Clone)]
pub struct MacFile {
    /// The file. It must not be where the store's own file can be written to alone.
    pub path: PathBuf,
    /// A secret that is not in the store.
    pub secret: Secret,
}

/// A truncated HMAC-SHA256 of a row's key and value.
pub(crate) type Mac = [u8; 16];

/// Why a row does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// Its value is not the one that was written last.
    Changed,
    /// Nobody wrote it through Toolkeep.
    Added,
    /// It was written and is not there.
    Removed,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Changed => "changed",
            Self::Added => "added",
            Self::Removed => "removed",
        })
    }
}

/// A row that does not count, because it was not written through Toolkeep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedRow {
    /// Its key.
    pub key: String,
    /// What was done to it.
    pub rejection: Rejection,
}

/// What all readers get in the place of a rejected row's value: neither JSON nor text, so that it reads as a record
/// that is damaged.
pub(crate) const REJECTED: &[u8] = b"\xff\xfechanged outside of Toolkeep";

/// Rows below this prefix have no MAC: what a cache holds may be anyone's, and its readers check it.
const UNPROTECTED: &str = "cache/";

pub(crate) fn is_protected(key: &str) -> bool {
    !key.starts_with(UNPROTECTED)
}

/// The MACs of all rows as they were written last. Lives on the store's thread.
pub(crate) struct RowMacs {
    key: hmac::Key,
    log: Log,
    macs: BTreeMap<Box<str>, Mac>,
    /// Of a batch whose commit is not known to have been made.
    pending: Vec<Change>,
}

/// What is there of the file.
pub(crate) enum Opened {
    /// MACs. Pending changes are to be settled first.
    Macs(RowMacs),
    /// None yet, or those of another secret: all rows are to be adopted.
    New(RowMacs),
}

impl RowMacs {
    /// Reads the file; changes nothing.
    pub(crate) fn read(file: &MacFile) -> Result<Opened, StoreError> {
        let root = hmac::Key::new(hmac::HMAC_SHA256, file.secret.open().as_bytes());
        let derived = hmac::sign(&root, b"store rows");
        let key = hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref());
        let check = truncated(&hmac::sign(&key, b"file"));
        let read = Log::read(&file.path, check).map_err(|error| unusable(&file.path, &error))?;
        Ok(match read {
            Some(Read { log, macs, pending }) => Opened::Macs(Self { key, log, macs, pending }),
            None => Opened::New(Self {
                key,
                log: Log::new(&file.path, check),
                macs: BTreeMap::new(),
                pending: Vec::new(),
            }),
        })
    }

    /// Of this row.
    pub(crate) fn mac(&self, key: &str, bytes: &[u8]) -> Mac {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&(key.len() as u64).to_le_bytes());
        context.update(key.as_bytes());
        context.update(bytes);
        truncated(&context.sign())
    }

    /// What is wrong with a row as it stands in the database; `None` is no row.
    pub(crate) fn rejection(&self, key: &str, bytes: Option<&[u8]>) -> Option<Rejection> {
        match (bytes, self.macs.get(key)) {
            (Some(bytes), Some(mac)) => {
                (self.mac(key, bytes) != *mac).then_some(Rejection::Changed)
            }
            (Some(_), None) => Some(Rejection::Added),
            (None, Some(_)) => Some(Rejection::Removed),
            (None, None) => None,
        }
    }

    /// Whether there should be such a row.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.macs.contains_key(key)
    }

    /// The keys that there should be: those with `prefix` from `start` on, without `start` where it is `after`.
    pub(crate) fn keys<'a>(
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

    /// A change of one row.
    pub(crate) fn change(&self, key: &str, bytes: Option<&[u8]>) -> Change {
        Change { key: key.into(), mac: bytes.map(|bytes| self.mac(key, bytes)) }
    }

    /// Writes what is about to be committed. Once this is done it is on the disk.
    pub(crate) fn begin(&mut self, changes: Vec<Change>) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        self.log.begin(&changes).map_err(|error| unusable(self.log.path(), &error))?;
        self.pending = changes;
        Ok(())
    }

    /// It was committed.
    pub(crate) fn commit(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        log::apply(&mut self.macs, std::mem::take(&mut self.pending));
        self.log.close();
        if self.log.is_long(self.macs.len())
            && let Err(error) = self.log.rewrite(&self.macs)
        {
            tracing::warn!(%error, path = %self.log.path().display(), "the row MACs are not compacted");
        }
    }

    /// Whether a batch may or may not have been committed.
    pub(crate) fn is_unsettled(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Finds out which of the pending changes were committed, by the rows as they stand.
    pub(crate) fn settle<E>(
        &mut self,
        mut stands: impl FnMut(&str) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<(), E> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let mut made = Vec::new();
        for change in &self.pending {
            let row = stands(&change.key)?;
            let mac = row.as_deref().map(|bytes| self.mac(&change.key, bytes));
            if mac == change.mac {
                made.push(Change { key: change.key.clone(), mac });
            }
        }
        log::apply(&mut self.macs, made);
        self.pending.clear();
        // The batch stays open in the file, so that nothing may follow it there.
        self.log.abandon();
        Ok(())
    }

    /// Takes a row as it stands, without writing the file.
    pub(crate) fn adopt(&mut self, key: &str, bytes: &[u8]) {
        let mac = self.mac(key, bytes);
        self.macs.insert(key.into(), mac);
    }

    /// Writes the file anew, whole or not at all.
    pub(crate) fn rewrite(&mut self) -> Result<(), StoreError> {
        self.log.rewrite(&self.macs).map_err(|error| unusable(self.log.path(), &error))
    }

    /// Goes on behind what was read; writes the file anew where something of it was not settled.
    pub(crate) fn resume(&mut self) -> Result<(), StoreError> {
        let resumed = self.log.resume().map_err(|error| unusable(self.log.path(), &error))?;
        if resumed { Ok(()) } else { self.rewrite() }
    }

    /// Whether the file has to be written anew before it can be appended to.
    pub(crate) fn needs_rewrite(&self) -> bool {
        self.log.needs_rewrite()
    }
}

impl fmt::Debug for RowMacs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowMacs").field("rows", &self.macs.len()).finish_non_exhaustive()
    }
}

fn truncated(tag: &hmac::Tag) -> Mac {
    let mut mac = Mac::default();
    for (to, from) in mac.iter_mut().zip(tag.as_ref()) {
        *to = *from;
    }
    mac
}

fn unusable(path: &Path, error: &dyn fmt::Display) -> StoreError {
    StoreError::Unavailable(format!(
        "the row MACs of the store, `{}`, cannot be used: {error}",
        path.display()
    ))
}
