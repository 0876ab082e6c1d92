//! Disk usage of unpacked packages, and its limits.
//!
//! A package is counted once, by its final content. Temporary files are not counted, because few
//! packages are unpacked at once. Each file and folder counts in whole blocks, so that many small
//! files count too.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use option_types::PackageLimits;
use tool::Org;
use tool::tool_packages::ToolPackageError;

/// Block size of the file system, in bytes.
const BLOCK_SIZE: u64 = 4 << 10;

/// Disk usage of all unpacked packages.
#[derive(Debug, Default)]
pub(crate) struct DiskUsage(Mutex<UsageTotals>);

#[derive(Debug, Default)]
struct UsageTotals {
    total_bytes: u64,
    bytes_by_org: HashMap<String, u64>,
}

/// Claimed disk space of a package without an entry. Dropping it releases the space.
#[derive(Debug)]
pub(crate) struct DiskSpaceClaim {
    disk_usage: Arc<DiskUsage>,
    org: Org,
    claimed_bytes: u64,
}

impl DiskUsage {
    fn update_totals<T>(&self, change: impl FnOnce(&mut UsageTotals) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts existing files, regardless of the limits.
    pub(crate) fn add_bytes(&self, org: &str, bytes: u64) {
        self.update_totals(|used| {
            used.total_bytes = used.total_bytes.saturating_add(bytes);
            let org_bytes = used.bytes_by_org.entry(org.to_owned()).or_default();
            *org_bytes = org_bytes.saturating_add(bytes);
        });
    }

    /// Releases the space of a removed package.
    pub(crate) fn release_bytes(&self, org: &str, bytes: u64) {
        self.update_totals(|used| {
            used.total_bytes = used.total_bytes.saturating_sub(bytes);
            if let Some(org_bytes) = used.bytes_by_org.get_mut(org) {
                *org_bytes = org_bytes.saturating_sub(bytes);
            }
        });
    }

    /// Claims disk space for a new package of `bytes`.
    ///
    /// # Errors
    /// [`ToolPackageError::LimitReached`] if a limit would be exceeded; then nothing is counted.
    pub(crate) fn claim_space(
        self: &Arc<Self>,
        limits: PackageLimits,
        org: &Org,
        bytes: u64,
    ) -> Result<DiskSpaceClaim, ToolPackageError> {
        let name = org.to_string();
        let limit_error = |whose: &str, limit: u64, used: u64, key: &str| {
            ToolPackageError::LimitReached(format!(
                "the package needs {bytes} bytes unpacked, but packages of {whose} use {used} of \
                 {limit}; delete entries, or raise `tool_packages.{key}`"
            ))
        };
        self.update_totals(|used| {
            let own = used.bytes_by_org.entry(name).or_default();
            if own.saturating_add(bytes) > limits.max_bytes_per_org {
                let key = "bytes_per_organisation";
                return Err(limit_error("the organisation", limits.max_bytes_per_org, *own, key));
            }
            if used.total_bytes.saturating_add(bytes) > limits.max_total_bytes {
                return Err(limit_error(
                    "all organisations",
                    limits.max_total_bytes,
                    used.total_bytes,
                    "bytes",
                ));
            }
            *own += bytes;
            used.total_bytes += bytes;
            Ok(())
        })?;
        Ok(DiskSpaceClaim { disk_usage: Arc::clone(self), org: org.clone(), claimed_bytes: bytes })
    }
}

impl DiskSpaceClaim {
    /// Returns the claimed bytes.
    pub(crate) fn claimed_bytes(&self) -> u64 {
        self.claimed_bytes
    }

    /// Keeps the claimed space after the package has its entry.
    pub(crate) fn commit(mut self) {
        self.claimed_bytes = 0;
    }
}

impl Drop for DiskSpaceClaim {
    fn drop(&mut self) {
        self.disk_usage.release_bytes(&self.org.to_string(), self.claimed_bytes);
    }
}

/// Measures the disk usage of a folder with all its contents, in whole blocks. Blocks.
pub(crate) fn measure_dir(folder: &Path) -> io::Result<u64> {
    let mut bytes = BLOCK_SIZE;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        bytes = bytes.saturating_add(if meta.is_dir() {
            measure_dir(&entry.path())?
        } else {
            meta.len().max(1).next_multiple_of(BLOCK_SIZE)
        });
    }
    Ok(bytes)
}
