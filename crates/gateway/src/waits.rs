//! Approvals of pending calls: stored by compare-and-set, decided once, executed once.
//!
//! A pending approval costs a row in the store and an index entry: no task, no timer, no
//! connection. This module does not decide about tools, and runs nothing that the pipeline did not
//! evaluate again.

mod authority;
mod decide;
mod hold;
mod index;
mod kept;
mod port;
mod resume;
mod shown;
mod sweep;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
pub(crate) use option_types::{LONGEST, Patience};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tool::outcome::{Answer, Failure};
use tool::store::Expect;
use tool::{CallId, Code, Mono, Store, StoreError, Version};

pub use kept::PendingRequest;
pub use port::{Event, Heard, Herald, Holder, Holders, Nobody};
pub use shown::{Decided, Page, Shown, State};

use index::Index;
use kept::{Kept, key};

/// Store, ports and settings of approvals.
#[derive(Debug, Clone)]
pub struct Holding {
    /// Store of pending calls. It should be encrypted: arguments may be confidential.
    pub store: Arc<dyn Store>,
    /// Resolves the current principal of a caller.
    pub holders: Arc<dyn Holders>,
    /// Observer of approval events.
    pub herald: Arc<dyn Herald>,
    /// Timeouts and limits of approvals.
    pub patience: Patience,
}

/// Message for a call whose caller's credential is no longer valid.
pub(crate) const GONE: &str = "the key that made the call does not hold any more";

/// Registry of all pending and completed approvals.
#[derive(Debug)]
pub(crate) struct Waits {
    pub(crate) holding: Holding,
    /// Current settings; those in `holding` are the initial ones.
    patience: ArcSwap<Patience>,
    pub(crate) index: Index,
    /// Notifies that something is due earlier than before.
    pub(crate) news: Notify,
    /// Releases everybody who waits for a decision.
    pub(crate) closing: CancellationToken,
}

/// A stored approval with the version that was read.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) kept: Kept,
    version: Version,
}

impl crate::Gateway {
    /// Sets the approval settings for new calls; pending calls keep their timeouts.
    pub fn set_patience(&self, patience: Patience) {
        if let Some(waits) = &self.waits {
            waits.index.bound(&patience);
            waits.patience.store(Arc::new(patience));
        }
    }
}

impl Waits {
    pub(crate) fn new(holding: Holding) -> Self {
        let patience = ArcSwap::from_pointee(holding.patience.clone());
        let index = Index::new(&holding.patience);
        Self { holding, patience, index, news: Notify::new(), closing: CancellationToken::new() }
    }

    /// Returns the current settings.
    pub(crate) fn patience(&self) -> Arc<Patience> {
        self.patience.load_full()
    }

    /// Reads one approval; `None` if it does not exist.
    pub(crate) async fn read(&self, id: CallId) -> Result<Option<Read>, Failure> {
        let found = self.holding.store.get(&key(id)).await.map_err(|error| unavailable(&error))?;
        let Some(found) = found else { return Ok(None) };
        let kept = Kept::read(&found.bytes).map_err(|error| {
            tracing::error!(%error, call = %id, "a held call cannot be read");
            Failure::new(Code::StoreUnavailable, "the held call cannot be read; call again")
        })?;
        Ok(Some(Read { kept, version: found.version }))
    }

    /// Writes a change of an approval; fails with a conflict if another write came first.
    pub(crate) async fn write(&self, read: Read) -> Result<Read, StoreError> {
        let Read { kept, version } = read;
        let expect = Expect::Version(version);
        let version = self.holding.store.put(&key(kept.id), expect, Some(kept.bytes())).await?;
        Ok(Read { kept, version })
    }

    /// Removes an approval, whatever its state.
    pub(crate) async fn forget(&self, id: CallId) {
        self.index.forget(id);
        let name = key(id);
        let Ok(Some(found)) = self.holding.store.get(&name).await else { return };
        let removed = self.holding.store.put(&name, Expect::Version(found.version), None).await;
        if let Err(error) = removed {
            tracing::warn!(%error, call = %id, "a call that was held is not forgotten");
        }
    }

    /// Notifies waiters of a change; at the end, with the final response.
    pub(crate) fn tell(&self, id: CallId, answer: Option<&Answer>) {
        self.index.tell(id, answer);
        self.news.notify_one();
    }
}

/// Returns the time until `until`, or zero if it is over.
pub(crate) fn left(until: Mono, now: Mono) -> Duration {
    until.since(now)
}

pub(crate) fn unavailable(error: &StoreError) -> Failure {
    let code = match error {
        StoreError::Conflict { .. } => Code::Conflict,
        StoreError::Unavailable(_) => Code::StoreUnavailable,
    };
    Failure::new(code, error.to_string())
}

#[cfg(test)]
mod tests;
