//! Bytes that unpacked packages take on the disk, and the limits on them.
//!
//! A package counts once, by what stays of it: while it is unpacked it counts for nothing, and few are
//! unpacked at once. Each file and folder counts in whole blocks, so that many small files count too.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use option_types::PackageLimits;
use tool::Org;
use tool::catalogue::CatalogueFault;

/// Bytes in which a file system gives room away.
const BLOCK: u64 = 4 << 10;

/// What is counted.
#[derive(Debug, Default)]
pub(crate) struct DiskUsage(Mutex<UsageTotals>);

#[derive(Debug, Default)]
struct UsageTotals {
    total: u64,
    organisations: HashMap<String, u64>,
}

/// Bytes that are counted for a package that has no entry yet; given back where this is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    usage: Arc<DiskUsage>,
    org: Org,
    bytes: u64,
}

impl DiskUsage {
    fn with<T>(&self, change: impl FnOnce(&mut UsageTotals) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts what is there already, whatever the limits are now.
    pub(crate) fn add(&self, org: &str, bytes: u64) {
        self.with(|used| {
            used.total = used.total.saturating_add(bytes);
            let own = used.organisations.entry(org.to_owned()).or_default();
            *own = own.saturating_add(bytes);
        });
    }

    /// Gives back what a package took that is gone.
    pub(crate) fn release(&self, org: &str, bytes: u64) {
        self.with(|used| {
            used.total = used.total.saturating_sub(bytes);
            if let Some(own) = used.organisations.get_mut(org) {
                *own = own.saturating_sub(bytes);
            }
        });
    }

    /// Counts a new package of `bytes`.
    ///
    /// # Errors
    /// [`CatalogueFault::Full`] where a limit would be passed; then nothing is counted.
    pub(crate) fn claim(
        self: &Arc<Self>,
        limits: PackageLimits,
        org: &Org,
        bytes: u64,
    ) -> Result<Claim, CatalogueFault> {
        let name = org.to_string();
        let full = |whose: &str, limit: u64, used: u64, key: &str| {
            CatalogueFault::Full(format!(
                "the package takes {bytes} bytes unpacked, and packages of {whose} take {used} of \
                 {limit}; remove entries, or raise `tool_packages.{key}`"
            ))
        };
        self.with(|used| {
            let own = used.organisations.entry(name).or_default();
            if own.saturating_add(bytes) > limits.per_organisation {
                let key = "bytes_per_organisation";
                return Err(full("the organisation", limits.per_organisation, *own, key));
            }
            if used.total.saturating_add(bytes) > limits.total {
                return Err(full("all organisations", limits.total, used.total, "bytes"));
            }
            *own += bytes;
            used.total += bytes;
            Ok(())
        })?;
        Ok(Claim { usage: Arc::clone(self), org: org.clone(), bytes })
    }
}

impl Claim {
    /// How many.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// They stay counted: the package has its entry.
    pub(crate) fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.usage.release(&self.org.to_string(), self.bytes);
    }
}

/// Bytes of a folder and all in it, in whole blocks. Blocks.
pub(crate) fn measure(folder: &Path) -> io::Result<u64> {
    let mut bytes = BLOCK;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        bytes = bytes.saturating_add(if meta.is_dir() {
            measure(&entry.path())?
        } else {
            meta.len().max(1).next_multiple_of(BLOCK)
        });
    }
    Ok(bytes)
}
