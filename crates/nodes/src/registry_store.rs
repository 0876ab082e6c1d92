//! Storage of the registry: the store of one server, or a database that several servers share.
//!
//! All writes are compare-and-set. A key never has the same version twice; a later write has a
//! greater one.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tool::node_registry::NodeTool;
use tool::store::WritePrecondition;
use tool::{BoxFuture, Store, StoreError, Version, VersionedValue};

use crate::registry::KEY_PREFIXES;

/// Number of rows of one scan of a store.
const SCAN_PAGE_ROWS: usize = 1_000;

/// Stores the records of the registry: tools, owners of names, nodes.
pub trait RegistryStore: Send + Sync + fmt::Debug {
    /// Loads all records, nodes before owners, owners before tools.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn load_all(&self) -> BoxFuture<'_, Result<Vec<VersionedValue>, StoreError>>;

    /// Loads one record.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn get_record<'a>(
        &'a self,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<VersionedValue>, StoreError>>;

    /// Writes a record if `expect` holds; `None` removes it.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if it does not hold, [`StoreError::Unavailable`] after a short
    /// timeout; the write may still have been applied.
    fn put_record<'a>(
        &'a self,
        key: &'a str,
        expect: WritePrecondition,
        bytes: Option<Bytes>,
    ) -> BoxFuture<'a, Result<Version, StoreError>>;

    /// Returns a tool as it will be read back.
    ///
    /// # Errors
    /// The reason why it cannot be stored.
    fn normalize_tool(&self, tool: NodeTool) -> Result<NodeTool, String> {
        Ok(tool)
    }

    /// Subscribes to the writes of other servers; `None` if there are no other writers.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn subscribe_changes(
        &self,
    ) -> BoxFuture<'_, Result<Option<Box<dyn ChangeReceiver>>, StoreError>>;
}

/// A feed of the changes by other servers.
pub trait ChangeReceiver: Send {
    /// Waits for the next change.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: changes may have been missed, and all records must be reloaded.
    fn next_change(&mut self) -> BoxFuture<'_, Result<RecordChange, StoreError>>;
}

/// A change of a record by another server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordChange {
    /// The record was written; this is its new value.
    Updated(VersionedValue),
    /// The record of this key changed and must be reloaded.
    Invalidated(String),
}

/// Stores the registry in the store of one server.
#[derive(Debug)]
pub struct LocalRegistryStore(pub Arc<dyn Store>);

impl LocalRegistryStore {
    async fn scan_all(&self) -> Result<Vec<VersionedValue>, StoreError> {
        let mut all = Vec::new();
        for prefix in KEY_PREFIXES {
            let mut after: Option<String> = None;
            loop {
                let page = self.0.scan_prefix(prefix, after.as_deref(), SCAN_PAGE_ROWS).await?;
                let is_full_page = page.len() >= SCAN_PAGE_ROWS;
                after = page.last().map(|row| row.key.clone());
                all.extend(page);
                if !is_full_page {
                    break;
                }
            }
        }
        Ok(all)
    }
}

impl RegistryStore for LocalRegistryStore {
    fn load_all(&self) -> BoxFuture<'_, Result<Vec<VersionedValue>, StoreError>> {
        Box::pin(self.scan_all())
    }

    fn get_record<'a>(
        &'a self,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<VersionedValue>, StoreError>> {
        self.0.get_value(key)
    }

    fn put_record<'a>(
        &'a self,
        key: &'a str,
        expect: WritePrecondition,
        bytes: Option<Bytes>,
    ) -> BoxFuture<'a, Result<Version, StoreError>> {
        self.0.put_value(key, expect, bytes)
    }

    fn subscribe_changes(
        &self,
    ) -> BoxFuture<'_, Result<Option<Box<dyn ChangeReceiver>>, StoreError>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// A store that cannot be used: every operation fails with the stored error.
#[derive(Debug)]
pub struct UnavailableRegistryStore(pub StoreError);

impl UnavailableRegistryStore {
    fn unavailable<T: Send + 'static>(&self) -> BoxFuture<'_, Result<T, StoreError>> {
        Box::pin(std::future::ready(Err(self.0.clone())))
    }
}

impl RegistryStore for UnavailableRegistryStore {
    fn load_all(&self) -> BoxFuture<'_, Result<Vec<VersionedValue>, StoreError>> {
        self.unavailable()
    }

    fn get_record<'a>(
        &'a self,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Option<VersionedValue>, StoreError>> {
        self.unavailable()
    }

    fn put_record<'a>(
        &'a self,
        _: &'a str,
        _: WritePrecondition,
        _: Option<Bytes>,
    ) -> BoxFuture<'a, Result<Version, StoreError>> {
        self.unavailable()
    }

    /// Returns `None`, because no change will arrive.
    fn subscribe_changes(
        &self,
    ) -> BoxFuture<'_, Result<Option<Box<dyn ChangeReceiver>>, StoreError>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}
