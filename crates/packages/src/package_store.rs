//! Package store: entries in the key-value store, each with the folder of its package.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tool::store::WritePrecondition;
use tool::tool_packages::{ToolPackageError, ToolPackageFuture, ToolPackageStore};
use tool::{Json, JsonLimits, Org, Store, StoreError, Version, VersionedValue};

use crate::PackageLimits;
use crate::disk_usage::{DiskSpaceClaim, DiskUsage, measure_dir};
use crate::package_archive::{self, UnpackedPackage};
use crate::package_entry;

/// Entries of one organisation.
pub const MAX_ENTRIES_PER_ORG: usize = 1_000;
const STORE_PREFIX: &str = "catalogue/";
/// Number of rows per scan.
const SCAN_ROWS: usize = 500;
/// Maximum number of packages that are unpacked concurrently.
const MAX_PARALLEL_UNPACKS: usize = 2;
/// Tries of one write against others'.
const MAX_WRITE_ATTEMPTS: usize = 5;

/// Stored form of an entry.
#[derive(Debug, Serialize, Deserialize)]
struct StoredEntry {
    #[serde(rename = "entry")]
    fields: Map<String, Value>,
    /// The folder of its package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "package")]
    package_dir: Option<String>,
    /// Disk usage of the package, in bytes. Older versions did not store it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "bytes")]
    disk_bytes: Option<u64>,
}

/// Repository of packages and their entries.
#[derive(Debug)]
pub struct PackageStore {
    entry_store: Arc<dyn Store>,
    packages_dir: PathBuf,
    unpack_permits: Arc<Semaphore>,
    limits: PackageLimits,
    disk_usage: Arc<DiskUsage>,
}

impl PackageStore {
    /// Opens the registry with entries in `store` and packages below `packages_dir`, which the
    /// first package creates. Incomplete packages of an earlier process are removed.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn open(store: Arc<dyn Store>, packages_dir: &Path) -> Result<Self, StoreError> {
        let packages = Self {
            entry_store: store,
            packages_dir: packages_dir.to_owned(),
            unpack_permits: Arc::new(Semaphore::new(MAX_PARALLEL_UNPACKS)),
            limits: PackageLimits::default(),
            disk_usage: Arc::default(),
        };
        let rows = packages.scan_entries(STORE_PREFIX, usize::MAX).await?;
        let stored_packages: Vec<StoredPackage> =
            rows.iter().filter_map(StoredPackage::from_row).collect();
        let (packages_dir, usage) =
            (packages.packages_dir.clone(), Arc::clone(&packages.disk_usage));
        let cleanup = tokio::task::spawn_blocking(move || {
            for it in &stored_packages {
                usage.add_bytes(&it.org_id, it.measure_bytes(&packages_dir));
            }
            remove_orphaned_dirs(
                &packages_dir,
                &stored_packages.into_iter().map(|it| it.dir_name).collect(),
            );
        });
        drop(cleanup.await);
        Ok(packages)
    }

    /// Replaces the default limits.
    #[must_use]
    pub fn with_limits(mut self, limits: PackageLimits) -> Self {
        self.limits = limits;
        self
    }

    async fn scan_entries(
        &self,
        prefix: &str,
        max_rows: usize,
    ) -> Result<Vec<VersionedValue>, StoreError> {
        let mut all: Vec<VersionedValue> = Vec::new();
        loop {
            let after = all.last().map(|row| row.key.clone());
            let page = self.entry_store.scan_prefix(prefix, after.as_deref(), SCAN_ROWS).await?;
            let is_full_page = page.len() >= SCAN_ROWS;
            all.extend(page);
            if !is_full_page || all.len() >= max_rows {
                return Ok(all);
            }
        }
    }

    async fn load_entry(
        &self,
        org: &Org,
        id: &str,
    ) -> Result<(StoredEntry, Version), ToolPackageError> {
        let found = self
            .entry_store
            .get_value(&store_key(org, id))
            .await
            .map_err(|error| store_unavailable(&error))?;
        let row = found.ok_or(ToolPackageError::NotFound)?;
        Ok((decode_entry(&row)?, row.version))
    }

    /// Scans the entries of an organisation, at least as many as it may have.
    async fn scan_org(&self, org: &Org) -> Result<Vec<VersionedValue>, ToolPackageError> {
        let rows = self.scan_entries(&store_key(org, ""), MAX_ENTRIES_PER_ORG).await;
        rows.map_err(|error| store_unavailable(&error))
    }

    async fn count_entries(&self, org: &Org) -> Result<usize, ToolPackageError> {
        Ok(self.scan_org(org).await?.len())
    }

    async fn list_entries(&self, org: &Org) -> Result<Vec<Json>, ToolPackageError> {
        let rows = self.scan_org(org).await?;
        rows.iter().map(|row| Ok(Json::encode(&decode_entry(row)?.fields))).collect()
    }

    async fn insert_entry(
        &self,
        org: &Org,
        fields: Map<String, Value>,
        package: Option<(String, &DiskSpaceClaim)>,
    ) -> Result<String, ToolPackageError> {
        let (id, entry) = package_entry::complete_entry(fields)?;
        if self.count_entries(org).await? >= MAX_ENTRIES_PER_ORG {
            return Err(ToolPackageError::LimitReached(format!(
                "there are already {MAX_ENTRIES_PER_ORG} entries, the maximum"
            )));
        }
        let (package, bytes) = package.map(|(name, claim)| (name, claim.claimed_bytes())).unzip();
        let bytes =
            Json::encode(&StoredEntry { fields: entry, package_dir: package, disk_bytes: bytes })
                .bytes()
                .clone();
        match self
            .entry_store
            .put_value(&store_key(org, &id), WritePrecondition::Absent, Some(bytes))
            .await
        {
            Ok(_) => Ok(id),
            Err(StoreError::Conflict { .. }) => Err(ToolPackageError::AlreadyExists(id)),
            Err(error) => Err(store_unavailable(&error)),
        }
    }

    async fn upload_package(&self, org: &Org, package: Bytes) -> Result<String, ToolPackageError> {
        // Never closed.
        let permit = Arc::clone(&self.unpack_permits).acquire_owned().await.ok();
        let home = self.packages_dir.clone();
        let unpacked: Result<UnpackedPackage, ToolPackageError> =
            tokio::task::spawn_blocking(move || {
                let _turn = permit;
                package_archive::unpack_package(&home, &package)
            })
            .await
            .unwrap_or_else(|_| {
                Err(ToolPackageError::Unavailable("the upload was cancelled".to_owned()))
            });
        let unpacked = unpacked?;
        let claim = self.disk_usage.claim_space(self.limits, org, unpacked.disk_bytes)?;
        let package = Some((unpacked.dir_name.clone(), &claim));
        let id = self.insert_entry(org, unpacked.fields.clone(), package).await?;
        unpacked.commit();
        claim.commit();
        tracing::info!(tool = id, "package added to the catalogue");
        Ok(id)
    }

    async fn update_entry(
        &self,
        org: &Org,
        id: &str,
        changes: &Json,
    ) -> Result<(), ToolPackageError> {
        let changes = package_entry::parse_fields(changes)?;
        if changes.get(package_entry::ID_FIELD).is_some_and(|other| other != id) {
            let message = "`tool_id` cannot be changed; create another entry and delete this one";
            return Err(ToolPackageError::Invalid(message.to_owned()));
        }
        for _ in 0..MAX_WRITE_ATTEMPTS {
            let (StoredEntry { fields: mut new, package_dir: package, disk_bytes: bytes }, version) =
                self.load_entry(org, id).await?;
            new.extend(changes.clone());
            let (_, entry) = package_entry::complete_entry(new)?;
            let bytes = Json::encode(&StoredEntry {
                fields: entry,
                package_dir: package,
                disk_bytes: bytes,
            })
            .bytes()
            .clone();
            match self
                .entry_store
                .put_value(&store_key(org, id), WritePrecondition::Version(version), Some(bytes))
                .await
            {
                Ok(_) => return Ok(()),
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(store_unavailable(&error)),
            }
        }
        Err(write_conflict())
    }

    async fn remove_entry(&self, org: &Org, id: &str) -> Result<(), ToolPackageError> {
        for _ in 0..MAX_WRITE_ATTEMPTS {
            let (StoredEntry { package_dir: package, disk_bytes: bytes, .. }, version) =
                self.load_entry(org, id).await?;
            match self
                .entry_store
                .put_value(&store_key(org, id), WritePrecondition::Version(version), None)
                .await
            {
                Ok(_) => {
                    if let Some(name) = package.filter(|name| is_package_dir_name(name)) {
                        let removed_package = StoredPackage {
                            org_id: org.to_string(),
                            dir_name: name,
                            disk_bytes: bytes,
                        };
                        let (home, usage) =
                            (self.packages_dir.clone(), Arc::clone(&self.disk_usage));
                        let removed = tokio::task::spawn_blocking(move || {
                            let bytes = removed_package.measure_bytes(&home);
                            package_archive::remove_package_dir(
                                &home.join(&removed_package.dir_name),
                            );
                            usage.release_bytes(&removed_package.org_id, bytes);
                        });
                        drop(removed.await);
                    }
                    return Ok(());
                }
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(store_unavailable(&error)),
            }
        }
        Err(write_conflict())
    }
}

/// The package of an entry.
#[derive(Debug)]
struct StoredPackage {
    org_id: String,
    /// The name of its folder.
    dir_name: String,
    disk_bytes: Option<u64>,
}

impl StoredPackage {
    fn from_row(row: &VersionedValue) -> Option<Self> {
        let StoredEntry { package_dir: package, disk_bytes: bytes, .. } = decode_entry(row).ok()?;
        let (org, _) = row.key.strip_prefix(STORE_PREFIX)?.split_once('/')?;
        Some(Self { org_id: org.to_owned(), dir_name: package?, disk_bytes: bytes })
    }

    /// Returns the size on disk, as stored or measured. Blocks.
    fn measure_bytes(&self, home: &Path) -> u64 {
        let measured = || measure_dir(&home.join(&self.dir_name)).unwrap_or(0);
        self.disk_bytes
            .unwrap_or_else(|| if is_package_dir_name(&self.dir_name) { measured() } else { 0 })
    }
}

fn store_key(org: &Org, id: &str) -> String {
    format!("{STORE_PREFIX}{org}/{id}")
}

fn decode_entry(row: &VersionedValue) -> Result<StoredEntry, ToolPackageError> {
    let read =
        Json::parse(row.bytes.clone(), JsonLimits::DOCUMENT).ok().and_then(|it| it.decode().ok());
    read.ok_or_else(|| ToolPackageError::Unavailable(format!("`{}` cannot be read", row.key)))
}

fn store_unavailable(error: &StoreError) -> ToolPackageError {
    ToolPackageError::Unavailable(error.to_string())
}

fn write_conflict() -> ToolPackageError {
    ToolPackageError::Unavailable("the entry has too many concurrent changes".to_owned())
}

/// A folder's name as this crate makes them: one part, and no step up.
fn is_package_dir_name(name: &str) -> bool {
    name.len() == 32 && name.chars().all(|c| c.is_ascii_hexdigit())
}

/// Removes folders that no entry names. Blocks.
fn remove_orphaned_dirs(home: &Path, named: &HashSet<String>) {
    for entry in std::fs::read_dir(home).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        if is_package_dir_name(&name) && !named.contains(&name) {
            package_archive::remove_package_dir(&entry.path());
        }
    }
}

impl ToolPackageStore for PackageStore {
    fn get_entry<'a>(&'a self, org: &'a Org, id: &'a str) -> ToolPackageFuture<'a, Json> {
        Box::pin(async move { Ok(Json::encode(&self.load_entry(org, id).await?.0.fields)) })
    }

    fn list_entries<'a>(&'a self, org: &'a Org) -> ToolPackageFuture<'a, Vec<Json>> {
        Box::pin(self.list_entries(org))
    }

    fn create_entry<'a>(&'a self, org: &'a Org, entry: Json) -> ToolPackageFuture<'a, String> {
        Box::pin(
            async move { self.insert_entry(org, package_entry::parse_fields(&entry)?, None).await },
        )
    }

    fn upload_package<'a>(&'a self, org: &'a Org, package: Bytes) -> ToolPackageFuture<'a, String> {
        Box::pin(self.upload_package(org, package))
    }

    fn update_entry<'a>(
        &'a self,
        org: &'a Org,
        id: &'a str,
        changes: Json,
    ) -> ToolPackageFuture<'a, ()> {
        Box::pin(async move { self.update_entry(org, id, &changes).await })
    }

    fn remove_entry<'a>(&'a self, org: &'a Org, id: &'a str) -> ToolPackageFuture<'a, ()> {
        Box::pin(self.remove_entry(org, id))
    }
}
