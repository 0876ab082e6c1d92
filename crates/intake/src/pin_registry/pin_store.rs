//! Pins in the store, in eight rows per source, with an in-memory copy.
//!
//! A source has eight rows, so that 100,000 tools are eight writes and none is too large. A row
//! that cannot be decrypted, because somebody else wrote it, counts as unknown.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use catalog::{Pin, PinState};
use tool::store::WritePrecondition;
use tool::{Org, SourceName, Store, StoreError, ToolName, Version};

/// Number of rows per source.
pub(super) const ROWS_PER_SOURCE: usize = 8;
/// Maximum size of a row in bytes, above which texts are left out; the store takes 4 MiB.
const MAX_ROW_BYTES: usize = 3 << 20;

type PinRow = (Option<Version>, BTreeMap<ToolName, Pin>);

/// Cached pins of one source, without texts.
#[derive(Debug, Default)]
struct CachedPins {
    /// Versions of rows that were read; 0 for a row that does not exist.
    versions: [Option<Version>; ROWS_PER_SOURCE],
    pins: HashMap<ToolName, Pin>,
}

#[derive(Debug)]
pub(super) struct PinStore {
    org: Org,
    store: Arc<dyn Store>,
    cached: Mutex<HashMap<SourceName, CachedPins>>,
}

/// Returns the row of a tool.
pub(super) fn shard_index(name: &ToolName) -> usize {
    // FNV-1a: the hash must never change.
    let hash = name.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    usize::try_from(hash >> 61).unwrap_or(usize::MAX)
}

impl PinStore {
    pub(super) fn new(org: Org, store: Arc<dyn Store>) -> Self {
        Self { org, store, cached: Mutex::default() }
    }

    fn lock_cache(&self) -> MutexGuard<'_, HashMap<SourceName, CachedPins>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn row_key(&self, source: &SourceName, shard: usize) -> String {
        format!("pins/{}/{source}/{shard}", self.org)
    }

    /// Reads a row that was not read yet.
    pub(super) async fn ensure_loaded(
        &self,
        source: &SourceName,
        shard: usize,
    ) -> Result<(), StoreError> {
        let loaded = {
            let known = self.lock_cache();
            let versions = known.get(source).map(|known| known.versions);
            versions.and_then(|all| all.get(shard).copied().flatten()).is_some()
        };
        if !loaded {
            let row = self.read_row(source, shard).await?;
            self.cache_row(source, shard, row);
        }
        Ok(())
    }

    /// Reads a row from the store with its texts.
    pub(super) async fn read_row(
        &self,
        source: &SourceName,
        shard: usize,
    ) -> Result<PinRow, StoreError> {
        let key = self.row_key(source, shard);
        let Some(row) = self.store.get_value(&key).await? else {
            return Ok((None, BTreeMap::new()));
        };
        let pins = serde_json::from_slice(&row.bytes).map_err(|error| {
            StoreError::Unavailable(format!("cannot parse the pins in `{key}`: {error}"))
        })?;
        Ok((Some(row.version), pins))
    }

    /// Writes a row if it is unchanged since it was read.
    pub(super) async fn write_row(
        &self,
        source: &SourceName,
        shard: usize,
        (version, pins): PinRow,
    ) -> Result<(), StoreError> {
        let mut pins = pins;
        let mut bytes = encode_pins(&pins)?;
        for reduce in [drop_former, drop_text] {
            if bytes.len() > MAX_ROW_BYTES {
                pins.values_mut().for_each(reduce);
                bytes = encode_pins(&pins)?;
            }
        }
        let expect = version.map_or(WritePrecondition::Absent, WritePrecondition::Version);
        let version =
            self.store.put_value(&self.row_key(source, shard), expect, Some(bytes)).await?;
        self.cache_row(source, shard, (Some(version), pins));
        Ok(())
    }

    /// Caches a row, unless a newer version is cached.
    pub(super) fn cache_row(&self, source: &SourceName, shard: usize, (version, pins): PinRow) {
        let mut all = self.lock_cache();
        let known = all.entry(source.clone()).or_default();
        let Some(at) = known.versions.get_mut(shard) else { return };
        let version = version.unwrap_or_default();
        if at.is_some_and(|newer| newer > version) {
            return;
        }
        *at = Some(version);
        known.pins.retain(|name, _| shard_index(name) != shard);
        known.pins.extend(pins.into_iter().map(|(name, mut pin)| {
            drop_former(&mut pin);
            drop_text(&mut pin);
            (name, pin)
        }));
    }

    /// Returns true if a source has any pins.
    pub(super) fn has_pins(&self, source: &SourceName) -> bool {
        self.lock_cache().get(source).is_some_and(|known| !known.pins.is_empty())
    }

    /// Returns the names of active pins.
    pub(super) fn active_names(&self, source: &SourceName) -> Vec<ToolName> {
        let all = self.lock_cache();
        let pins = all.get(source).map(|known| &known.pins).into_iter().flatten();
        let active = pins.filter(|(_, pin)| pin.state == PinState::Active);
        active.map(|(name, _)| name.clone()).collect()
    }

    /// Passes the cached pins of a source to `read`, without texts.
    pub(super) fn with_pins<T>(
        &self,
        source: &SourceName,
        read: impl FnOnce(&HashMap<ToolName, Pin>) -> T,
    ) -> T {
        match self.lock_cache().get(source) {
            Some(known) => read(&known.pins),
            None => read(&HashMap::new()),
        }
    }

    /// Returns the sources with cached pins.
    pub(super) fn known_sources(&self) -> Vec<SourceName> {
        let mut names: Vec<_> = self.lock_cache().keys().cloned().collect();
        names.sort_unstable();
        names
    }
}

fn encode_pins(pins: &BTreeMap<ToolName, Pin>) -> Result<Bytes, StoreError> {
    let written = serde_json::to_vec(pins).map(Bytes::from);
    written.map_err(|error| StoreError::Unavailable(format!("cannot encode pins: {error}")))
}

fn drop_former(pin: &mut Pin) {
    pin.former = Vec::new();
}

fn drop_text(pin: &mut Pin) {
    for sight in pin.active.iter_mut().chain(&mut pin.pending) {
        sight.raw_definition = None;
    }
}
