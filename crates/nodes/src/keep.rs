//! Where the registry is kept: in this machine's store, or where servers share it.
//!
//! All writes are compare-and-set. A version never comes twice under one key, and a later write of a
//! key has a greater one.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tool::node::NodeTool;
use tool::store::Expect;
use tool::{Boxed, Store, StoreError, Version, Versioned};

use crate::registry::PREFIXES;

/// Values of one look into a store.
const PAGE: usize = 1_000;

/// What keeps the registry's records: tools, owners of names, nodes.
pub trait Keep: Send + Sync + fmt::Debug {
    /// All records; nodes before owners, owners before tools.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn all(&self) -> Boxed<'_, Result<Vec<Versioned>, StoreError>>;

    /// One record.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn get<'a>(&'a self, key: &'a str) -> Boxed<'a, Result<Option<Versioned>, StoreError>>;

    /// Writes where `expect` holds; `None` removes.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] where it does not hold, [`StoreError::Unavailable`] soon: the write may
    /// have been made all the same.
    fn put<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        bytes: Option<Bytes>,
    ) -> Boxed<'a, Result<Version, StoreError>>;

    /// A tool as it will be read again.
    ///
    /// # Errors
    /// In words, where it cannot be kept.
    fn as_kept(&self, tool: NodeTool) -> Result<NodeTool, String> {
        Ok(tool)
    }

    /// Hears of all writes of tools from here on; `None` where nobody else writes.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn listen(&self) -> Boxed<'_, Result<Option<Box<dyn Heard>>, StoreError>>;
}

/// What others write, as it comes.
pub trait Heard: Send {
    /// The next change.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: changes may have been missed, all is to be read anew.
    fn next(&mut self) -> Boxed<'_, Result<Change, StoreError>>;
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// This was written.
    Written(Versioned),
    /// Something was done to this key: it is to be read.
    Touched(String),
}

/// In the store of one server, whose file is its own.
#[derive(Debug)]
pub struct Alone(pub Arc<dyn Store>);

impl Alone {
    async fn read(&self) -> Result<Vec<Versioned>, StoreError> {
        let mut all = Vec::new();
        for prefix in PREFIXES {
            let mut after: Option<String> = None;
            loop {
                let page = self.0.scan(prefix, after.as_deref(), PAGE).await?;
                let full = page.len() >= PAGE;
                after = page.last().map(|row| row.key.clone());
                all.extend(page);
                if !full {
                    break;
                }
            }
        }
        Ok(all)
    }
}

impl Keep for Alone {
    fn all(&self) -> Boxed<'_, Result<Vec<Versioned>, StoreError>> {
        Box::pin(self.read())
    }

    fn get<'a>(&'a self, key: &'a str) -> Boxed<'a, Result<Option<Versioned>, StoreError>> {
        self.0.get(key)
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        bytes: Option<Bytes>,
    ) -> Boxed<'a, Result<Version, StoreError>> {
        self.0.put(key, expect, bytes)
    }

    fn listen(&self) -> Boxed<'_, Result<Option<Box<dyn Heard>>, StoreError>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// Nowhere, and why: what should keep it cannot be used. Nothing is known then, and nothing written.
#[derive(Debug)]
pub struct Nowhere(pub StoreError);

impl Nowhere {
    fn told<T: Send + 'static>(&self) -> Boxed<'_, Result<T, StoreError>> {
        Box::pin(std::future::ready(Err(self.0.clone())))
    }
}

impl Keep for Nowhere {
    fn all(&self) -> Boxed<'_, Result<Vec<Versioned>, StoreError>> {
        self.told()
    }

    fn get<'a>(&'a self, _: &'a str) -> Boxed<'a, Result<Option<Versioned>, StoreError>> {
        self.told()
    }

    fn put<'a>(
        &'a self,
        _: &'a str,
        _: Expect,
        _: Option<Bytes>,
    ) -> Boxed<'a, Result<Version, StoreError>> {
        self.told()
    }

    /// Nothing will be heard.
    fn listen(&self) -> Boxed<'_, Result<Option<Box<dyn Heard>>, StoreError>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}
