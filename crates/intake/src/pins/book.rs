//! Rows of pins in the store, and what is known of them here.
//!
//! A source has eight rows, so that 100,000 tools are eight writes and none is too large. A row that
//! does not open, because somebody else wrote it, says nothing: what it held is not known.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use catalog::{Pin, PinState};
use tool::store::Expect;
use tool::{Org, SourceName, Store, StoreError, ToolName, Version};

/// Rows of a source.
pub(super) const SHARDS: usize = 8;
/// Texts are left out of a row that would be larger, in bytes; the store takes 4 MiB.
const ROW: usize = 3 << 20;

type Row = (Option<Version>, BTreeMap<ToolName, Pin>);

/// What is known of one source, without texts.
#[derive(Debug, Default)]
struct Known {
    /// Of rows that were read; 0 where there is none in the store.
    versions: [Option<Version>; SHARDS],
    pins: HashMap<ToolName, Pin>,
}

#[derive(Debug)]
pub(super) struct Book {
    org: Org,
    store: Arc<dyn Store>,
    known: Mutex<HashMap<SourceName, Known>>,
}

/// The row of a tool.
pub(super) fn shard_of(name: &ToolName) -> usize {
    // FNV-1a: it must be the same for ever.
    let hash = name.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    usize::try_from(hash >> 61).unwrap_or_default()
}

impl Book {
    pub(super) fn new(org: Org, store: Arc<dyn Store>) -> Self {
        Self { org, store, known: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SourceName, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, source: &SourceName, shard: usize) -> String {
        format!("pins/{}/{source}/{shard}", self.org)
    }

    /// Reads a row that was not read yet.
    pub(super) async fn load(&self, source: &SourceName, shard: usize) -> Result<(), StoreError> {
        let loaded = {
            let known = self.lock();
            let versions = known.get(source).map(|known| known.versions);
            versions.and_then(|all| all.get(shard).copied().flatten()).is_some()
        };
        if !loaded {
            let row = self.read(source, shard).await?;
            self.install(source, shard, row);
        }
        Ok(())
    }

    /// A row as it stands in the store, with its texts.
    pub(super) async fn read(&self, source: &SourceName, shard: usize) -> Result<Row, StoreError> {
        let key = self.key(source, shard);
        let Some(row) = self.store.get(&key).await? else { return Ok((None, BTreeMap::new())) };
        let pins = serde_json::from_slice(&row.bytes).map_err(|error| {
            StoreError::Unavailable(format!("the pins in `{key}` cannot be read: {error}"))
        })?;
        Ok((Some(row.version), pins))
    }

    /// Writes a row where it still is as it was read.
    pub(super) async fn put(
        &self,
        source: &SourceName,
        shard: usize,
        (version, pins): Row,
    ) -> Result<(), StoreError> {
        let mut pins = pins;
        let mut bytes = written(&pins)?;
        if bytes.len() > ROW {
            pins.values_mut().for_each(strip);
            bytes = written(&pins)?;
        }
        let expect = version.map_or(Expect::Absent, Expect::Version);
        let version = self.store.put(&self.key(source, shard), expect, Some(bytes)).await?;
        self.install(source, shard, (Some(version), pins));
        Ok(())
    }

    /// Takes over what stands in the store, unless something newer is known.
    pub(super) fn install(&self, source: &SourceName, shard: usize, (version, pins): Row) {
        let mut all = self.lock();
        let known = all.entry(source.clone()).or_default();
        let Some(at) = known.versions.get_mut(shard) else { return };
        let version = version.unwrap_or_default();
        if at.is_some_and(|newer| newer > version) {
            return;
        }
        *at = Some(version);
        known.pins.retain(|name, _| shard_of(name) != shard);
        known.pins.extend(pins.into_iter().map(|(name, mut pin)| {
            strip(&mut pin);
            (name, pin)
        }));
    }

    /// Whether anything is known of a source.
    pub(super) fn knows(&self, source: &SourceName) -> bool {
        self.lock().get(source).is_some_and(|known| !known.pins.is_empty())
    }

    /// The names of active pins.
    pub(super) fn active(&self, source: &SourceName) -> Vec<ToolName> {
        let all = self.lock();
        let pins = all.get(source).map(|known| &known.pins).into_iter().flatten();
        let active = pins.filter(|(_, pin)| pin.state == PinState::Active);
        active.map(|(name, _)| name.clone()).collect()
    }

    /// All that is known of a source, without texts, while `read` runs.
    pub(super) fn reading<T>(
        &self,
        source: &SourceName,
        read: impl FnOnce(&HashMap<ToolName, Pin>) -> T,
    ) -> T {
        match self.lock().get(source) {
            Some(known) => read(&known.pins),
            None => read(&HashMap::new()),
        }
    }

    /// The sources of which something is known.
    pub(super) fn sources(&self) -> Vec<SourceName> {
        let mut names: Vec<_> = self.lock().keys().cloned().collect();
        names.sort_unstable();
        names
    }
}

fn written(pins: &BTreeMap<ToolName, Pin>) -> Result<Bytes, StoreError> {
    let written = serde_json::to_vec(pins).map(Bytes::from);
    written.map_err(|error| StoreError::Unavailable(format!("pins cannot be written: {error}")))
}

fn strip(pin: &mut Pin) {
    for sight in pin.active.iter_mut().chain(&mut pin.waiting) {
        sight.received = None;
    }
}
