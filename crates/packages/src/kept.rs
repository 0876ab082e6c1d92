//! The entries in the store, each with the name of the folder of its package.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tool::catalogue::{Catalogue, CatalogueFault, Catalogued};
use tool::store::Expect;
use tool::{Json, Limits, Org, Store, StoreError, Version, Versioned};

use crate::PackageLimits;
use crate::disk_usage::{Claim, DiskUsage, measure};
use crate::entry;
use crate::package::{self, Unpacked};

/// Entries of one organisation.
pub const MOST_ENTRIES: usize = 1_000;
const PREFIX: &str = "catalogue/";
/// Packages that are unpacked at once.
const AT_ONCE: usize = 2;
/// Tries of one write against others'.
const TRIES: usize = 5;

/// As it stands in the store.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    entry: Map<String, Value>,
    /// The folder of its package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    package: Option<String>,
    /// What its package takes on the disk; older versions did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

/// The catalogue.
#[derive(Debug)]
pub struct Packages {
    store: Arc<dyn Store>,
    home: PathBuf,
    turns: Arc<Semaphore>,
    limits: PackageLimits,
    usage: Arc<DiskUsage>,
}

impl Packages {
    /// Entries in this store, packages below `home`, which is made at the first. What an earlier process left
    /// half unpacked is removed.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn open(store: Arc<dyn Store>, home: &Path) -> Result<Self, StoreError> {
        let packages = Self {
            store,
            home: home.to_owned(),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            limits: PackageLimits::default(),
            usage: Arc::default(),
        };
        let rows = packages.rows(PREFIX, usize::MAX).await?;
        let placed: Vec<StoredPackage> = rows.iter().filter_map(StoredPackage::of).collect();
        let (home, usage) = (packages.home.clone(), Arc::clone(&packages.usage));
        let tidied = tokio::task::spawn_blocking(move || {
            for it in &placed {
                usage.add(&it.org, it.measured(&home));
            }
            tidy(&home, &placed.into_iter().map(|it| it.name).collect());
        });
        drop(tidied.await);
        Ok(packages)
    }

    /// The same with other limits than the usual ones.
    #[must_use]
    pub fn with_limits(mut self, limits: PackageLimits) -> Self {
        self.limits = limits;
        self
    }

    async fn rows(&self, prefix: &str, most: usize) -> Result<Vec<Versioned>, StoreError> {
        let mut all: Vec<Versioned> = Vec::new();
        loop {
            let after = all.last().map(|row| row.key.clone());
            let page = self.store.scan(prefix, after.as_deref(), MOST_ENTRIES).await?;
            let full = page.len() >= MOST_ENTRIES;
            all.extend(page);
            if !full || all.len() >= most {
                return Ok(all);
            }
        }
    }

    async fn one(&self, org: &Org, id: &str) -> Result<(Kept, Version), CatalogueFault> {
        let found = self.store.get(&key(org, id)).await.map_err(|error| away(&error))?;
        let row = found.ok_or(CatalogueFault::Missing)?;
        Ok((read(&row)?, row.version))
    }

    async fn listed(&self, org: &Org) -> Result<Vec<Json>, CatalogueFault> {
        let rows = self.rows(&key(org, ""), MOST_ENTRIES).await.map_err(|error| away(&error))?;
        rows.iter().map(|row| Ok(Json::of(&read(row)?.entry))).collect()
    }

    async fn put_in(
        &self,
        org: &Org,
        said: Map<String, Value>,
        package: Option<(String, &Claim)>,
    ) -> Result<String, CatalogueFault> {
        let (id, entry) = entry::whole(said)?;
        let there =
            self.rows(&key(org, ""), MOST_ENTRIES).await.map_err(|error| away(&error))?.len();
        if there >= MOST_ENTRIES {
            return Err(CatalogueFault::Full(format!("there are {MOST_ENTRIES} entries already")));
        }
        let (package, bytes) = package.map(|(name, claim)| (name, claim.bytes())).unzip();
        let bytes = Json::of(&Kept { entry, package, bytes }).bytes().clone();
        match self.store.put(&key(org, &id), Expect::Absent, Some(bytes)).await {
            Ok(_) => Ok(id),
            Err(StoreError::Conflict { .. }) => Err(CatalogueFault::Exists(id)),
            Err(error) => Err(away(&error)),
        }
    }

    async fn uploaded(&self, org: &Org, package: Bytes) -> Result<String, CatalogueFault> {
        // Never closed.
        let turn = Arc::clone(&self.turns).acquire_owned().await.ok();
        let home = self.home.clone();
        let unpacked: Result<Unpacked, CatalogueFault> = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            package::unpack(&home, &package)
        })
        .await
        .unwrap_or_else(|_| {
            Err(CatalogueFault::Unavailable("the package was given up".to_owned()))
        });
        let unpacked = unpacked?;
        let claim = self.usage.claim(self.limits, org, unpacked.bytes)?;
        let package = Some((unpacked.name.clone(), &claim));
        let id = self.put_in(org, unpacked.said.clone(), package).await?;
        unpacked.keep();
        claim.keep();
        tracing::info!(tool = id, "a package came into the catalogue");
        Ok(id)
    }

    async fn change(&self, org: &Org, id: &str, changes: &Json) -> Result<(), CatalogueFault> {
        let changes = entry::said(changes)?;
        if changes.get(entry::ID).is_some_and(|other| other != id) {
            let told = "`tool_id` stays; make another entry and remove this one";
            return Err(CatalogueFault::Unfit(told.to_owned()));
        }
        for _ in 0..TRIES {
            let (Kept { entry: mut new, package, bytes }, version) = self.one(org, id).await?;
            new.extend(changes.clone());
            let (_, entry) = entry::whole(new)?;
            let bytes = Json::of(&Kept { entry, package, bytes }).bytes().clone();
            match self.store.put(&key(org, id), Expect::Version(version), Some(bytes)).await {
                Ok(_) => return Ok(()),
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(away(&error)),
            }
        }
        Err(busy())
    }

    async fn take_out(&self, org: &Org, id: &str) -> Result<(), CatalogueFault> {
        for _ in 0..TRIES {
            let (Kept { package, bytes, .. }, version) = self.one(org, id).await?;
            match self.store.put(&key(org, id), Expect::Version(version), None).await {
                Ok(_) => {
                    if let Some(name) = package.filter(|name| is_name(name)) {
                        let gone = StoredPackage { org: org.to_string(), name, bytes };
                        let (home, usage) = (self.home.clone(), Arc::clone(&self.usage));
                        let removed = tokio::task::spawn_blocking(move || {
                            let bytes = gone.measured(&home);
                            package::remove(&home.join(&gone.name));
                            usage.release(&gone.org, bytes);
                        });
                        drop(removed.await);
                    }
                    return Ok(());
                }
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(away(&error)),
            }
        }
        Err(busy())
    }
}

/// The package of an entry.
#[derive(Debug)]
struct StoredPackage {
    org: String,
    /// The name of its folder.
    name: String,
    bytes: Option<u64>,
}

impl StoredPackage {
    fn of(row: &Versioned) -> Option<Self> {
        let Kept { package, bytes, .. } = read(row).ok()?;
        let (org, _) = row.key.strip_prefix(PREFIX)?.split_once('/')?;
        Some(Self { org: org.to_owned(), name: package?, bytes })
    }

    /// What it takes on the disk, as it was written down or as it is. Blocks.
    fn measured(&self, home: &Path) -> u64 {
        let measured = || measure(&home.join(&self.name)).unwrap_or(0);
        self.bytes.unwrap_or_else(|| if is_name(&self.name) { measured() } else { 0 })
    }
}

fn key(org: &Org, id: &str) -> String {
    format!("{PREFIX}{org}/{id}")
}

fn read(row: &Versioned) -> Result<Kept, CatalogueFault> {
    let read = Json::check(row.bytes.clone(), Limits::DOCUMENT).ok().and_then(|it| it.read().ok());
    read.ok_or_else(|| CatalogueFault::Unavailable(format!("`{}` cannot be read", row.key)))
}

fn away(error: &StoreError) -> CatalogueFault {
    CatalogueFault::Unavailable(error.to_string())
}

fn busy() -> CatalogueFault {
    CatalogueFault::Unavailable("the entry is changed by others all the time".to_owned())
}

/// A folder's name as this crate makes them: one part, and no step up.
fn is_name(name: &str) -> bool {
    name.len() == 32 && name.chars().all(|c| c.is_ascii_hexdigit())
}

/// Removes folders that no entry names. Blocks.
fn tidy(home: &Path, named: &HashSet<String>) {
    for entry in std::fs::read_dir(home).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        if is_name(&name) && !named.contains(&name) {
            package::remove(&entry.path());
        }
    }
}

impl Catalogue for Packages {
    fn entry<'a>(&'a self, org: &'a Org, id: &'a str) -> Catalogued<'a, Json> {
        Box::pin(async move { Ok(Json::of(&self.one(org, id).await?.0.entry)) })
    }

    fn entries<'a>(&'a self, org: &'a Org) -> Catalogued<'a, Vec<Json>> {
        Box::pin(self.listed(org))
    }

    fn create<'a>(&'a self, org: &'a Org, entry: Json) -> Catalogued<'a, String> {
        Box::pin(async move { self.put_in(org, entry::said(&entry)?, None).await })
    }

    fn upload<'a>(&'a self, org: &'a Org, package: Bytes) -> Catalogued<'a, String> {
        Box::pin(self.uploaded(org, package))
    }

    fn update<'a>(&'a self, org: &'a Org, id: &'a str, changes: Json) -> Catalogued<'a, ()> {
        Box::pin(async move { self.change(org, id, &changes).await })
    }

    fn remove<'a>(&'a self, org: &'a Org, id: &'a str) -> Catalogued<'a, ()> {
        Box::pin(self.take_out(org, id))
    }
}
