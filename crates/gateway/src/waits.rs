//! Calls that are held for a person: kept through the store by compare-and-set, decided once, run once.
//!
//! What waits costs a row in the store and a line in an index: no task, no timer, no connection. This
//! module decides nothing about tools, and runs nothing that the pipeline did not look at anew.

mod authority;
mod decide;
mod hold;
mod index;
mod kept;
mod port;
mod resume;
mod shown;
mod sweep;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
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

/// Where calls are held, and who is asked.
#[derive(Debug, Clone)]
pub struct Holding {
    /// Where they are kept. It should be sealed: arguments may be confidential.
    pub store: Arc<dyn Store>,
    /// Who a caller is now.
    pub holders: Arc<dyn Holders>,
    /// Who hears of what is to be decided.
    pub herald: Arc<dyn Herald>,
    /// Times and bounds.
    pub patience: Patience,
}

/// Times and bounds of calls that are held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patience {
    /// How long a decision is waited for.
    pub expires: Duration,
    /// Calls of one root key that wait at once.
    pub pending: usize,
    /// Calls that one root key may have held within a minute.
    pub per_minute: usize,
    /// Calls that are kept at once, decided and ended ones among them; of one root key a quarter.
    pub total: usize,
    /// Bytes of their arguments; of one root key a quarter.
    pub bytes: usize,
    /// How long what came of one is kept for its caller.
    pub kept: Duration,
    /// Ids of the keys whose client may give the approval itself.
    pub client_confirm: HashSet<String>,
}

/// No call waits longer, whatever is configured.
pub const LONGEST: Duration = Duration::from_hours(1);

/// Why a call does not go on whose caller's credential ended.
pub(crate) const GONE: &str = "the key that made the call does not hold any more";

impl Default for Patience {
    /// 10 min; 32 of one key and 60 a minute; 20,000 and 256 MiB in all; kept for an hour.
    fn default() -> Self {
        Self {
            expires: Duration::from_mins(10),
            pending: 32,
            per_minute: 60,
            total: 20_000,
            bytes: 256 << 20,
            kept: Duration::from_hours(1),
            client_confirm: HashSet::new(),
        }
    }
}

/// The calls that are held, and those that were.
#[derive(Debug)]
pub(crate) struct Waits {
    pub(crate) holding: Holding,
    /// Times and bounds as they are now; those in `holding` are those of the start.
    patience: ArcSwap<Patience>,
    pub(crate) index: Index,
    /// Something is due earlier than what was waited for.
    pub(crate) news: Notify,
    /// Nobody is kept waiting any more.
    pub(crate) closing: CancellationToken,
}

/// A wait as it stood when it was read.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) kept: Kept,
    version: Version,
}

impl crate::Gateway {
    /// From here on calls are held so: what waits already keeps the time it was given.
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

    /// Times and bounds.
    pub(crate) fn patience(&self) -> Arc<Patience> {
        self.patience.load_full()
    }

    /// One wait; nothing where there is none.
    pub(crate) async fn read(&self, id: CallId) -> Result<Option<Read>, Failure> {
        let found = self.holding.store.get(&key(id)).await.map_err(|error| unavailable(&error))?;
        let Some(found) = found else { return Ok(None) };
        let kept = Kept::read(&found.bytes).map_err(|error| {
            tracing::error!(%error, call = %id, "a held call cannot be read");
            Failure::new(Code::StoreUnavailable, "the held call cannot be read; call again")
        })?;
        Ok(Some(Read { kept, version: found.version }))
    }

    /// Writes a change of what was read; a conflict where another came first.
    pub(crate) async fn write(&self, read: Read) -> Result<Read, StoreError> {
        let Read { kept, version } = read;
        let expect = Expect::Version(version);
        let version = self.holding.store.put(&key(kept.id), expect, Some(kept.bytes())).await?;
        Ok(Read { kept, version })
    }

    /// Takes one away, whatever stands there.
    pub(crate) async fn forget(&self, id: CallId) {
        self.index.forget(id);
        let name = key(id);
        let Ok(Some(found)) = self.holding.store.get(&name).await else { return };
        let removed = self.holding.store.put(&name, Expect::Version(found.version), None).await;
        if let Err(error) = removed {
            tracing::warn!(%error, call = %id, "a call that was held is not forgotten");
        }
    }

    /// Those who wait for it see that it changed; at its end, with what came of it.
    pub(crate) fn tell(&self, id: CallId, answer: Option<&Answer>) {
        self.index.tell(id, answer);
        self.news.notify_one();
    }
}

/// How long until `until`, and no time where that is over.
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
