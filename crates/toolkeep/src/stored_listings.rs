//! The last listings of MCP servers that start with their first call, in the encrypted store.
//!
//! A listing belongs to one configuration of its source. Who changes the command or the address of a
//! server gets its tools listed anew.

use std::sync::Arc;

use bytes::Bytes;
use source_mcp::ListingStore;
use tool::store::WritePrecondition;
use tool::{BoxFuture, SourceName, Store, StoreError};

/// Largest listing that is stored, in bytes: a row of the store has 4 MiB.
const MAX_BYTES: usize = 3 << 20;
/// Bytes of the fingerprint before the listing.
const FINGERPRINT_BYTES: usize = 8;

/// The listing of one source, for one configuration of it.
#[derive(Debug)]
pub(crate) struct StoredListing {
    store: Arc<dyn Store>,
    key: String,
    source: SourceName,
    fingerprint: u64,
}

impl StoredListing {
    pub(crate) fn new(store: Arc<dyn Store>, source: SourceName, fingerprint: u64) -> Self {
        Self { store, key: format!("mcp-listings/{source}"), source, fingerprint }
    }

    async fn load(&self) -> Option<Bytes> {
        let row = self.store.get_value(&self.key).await.ok()??;
        let (fingerprint, _) = row.bytes.split_first_chunk::<FINGERPRINT_BYTES>()?;
        let is_same = u64::from_be_bytes(*fingerprint) == self.fingerprint;
        is_same.then(|| row.bytes.slice(FINGERPRINT_BYTES..))
    }

    async fn replace(&self, listing: &[u8]) -> Result<(), StoreError> {
        let mut bytes = self.fingerprint.to_be_bytes().to_vec();
        bytes.extend_from_slice(listing);
        let version = self.store.get_value(&self.key).await?.map(|row| row.version);
        let expect = version.map_or(WritePrecondition::Absent, WritePrecondition::Version);
        self.store.put_value(&self.key, expect, Some(bytes.into())).await.map(drop)
    }
}

impl ListingStore for StoredListing {
    fn load_listing(&self) -> BoxFuture<'_, Option<Bytes>> {
        Box::pin(self.load())
    }

    fn store_listing(&self, listing: Bytes) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if listing.len() > MAX_BYTES {
                tracing::warn!(source = %self.source, bytes = listing.len(),
                    "the listing of an MCP server is too large to be stored: it starts with Toolkeep");
                return;
            }
            if let Err(error) = self.replace(&listing).await {
                tracing::warn!(source = %self.source, %error, "cannot store a listing");
            }
        })
    }
}
