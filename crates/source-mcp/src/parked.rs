//! Requests whose server waits for an answer of a client that can only be asked between two calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::mcp::Request;
use bytes::Bytes;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tool::{Caller, Org, ToolKey};
use uuid::Uuid;

use super::exchange::Exchange;

/// Requests of one source.
pub(super) const MOST: usize = 64;
/// Of these, those of one key and of all keys that were delegated from it.
const SHARE: usize = 8;
/// How long each is kept.
pub(super) const KEPT: Duration = Duration::from_mins(10);

/// Who may go on with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    key: ToolKey,
    org: Org,
    subject: String,
}

impl Owner {
    pub(super) fn new(key: &ToolKey, caller: &Caller) -> Self {
        Self { key: key.clone(), org: caller.org.clone(), subject: caller.subject.clone() }
    }
}

/// A request that is kept.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) exchange: Exchange,
    /// What it waits for.
    pub(super) question: Request,
    pub(super) owner: Owner,
    /// The key that shares are counted by.
    pub(super) root: String,
}

#[derive(Debug)]
struct Entry {
    name: Uuid,
    held: Held,
    taken: CancellationToken,
}

/// The requests that are kept, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Parked {
    entries: Mutex<Vec<Entry>>,
}

impl Parked {
    /// Keeps a request under a name that cannot be guessed. Where its key has its share already, the key's
    /// oldest is dropped, which its server is told; it is given back where other keys have all places.
    /// Nobody came for it in time: it is dropped too.
    pub(super) fn park(
        self: &Arc<Self>,
        held: Held,
        closing: &CancellationToken,
    ) -> Result<Bytes, Box<Held>> {
        let name = Uuid::new_v4();
        let taken = CancellationToken::new();
        let link = Arc::clone(held.exchange.link());
        let displaced = {
            let mut all = self.entries();
            let own = all.iter().filter(|entry| entry.held.root == held.root).count();
            let oldest = all.iter().position(|entry| entry.held.root == held.root);
            let displaced = match oldest {
                Some(oldest) if own >= SHARE || all.len() >= MOST => Some(all.remove(oldest)),
                None if all.len() >= MOST => return Err(Box::new(held)),
                Some(_) | None => None,
            };
            all.push(Entry { name, held, taken: taken.clone() });
            displaced
        };
        // Outside of the lock: its server is told.
        drop(displaced.inspect(|entry| entry.taken.cancel()));
        let (parked, closing) = (Arc::clone(self), closing.clone());
        drop(link.shared.tasks.clone().spawn(async move {
            tokio::select! {
                () = taken.cancelled() => return,
                () = closing.cancelled() => {}
                () = link.over() => {}
                () = sleep(KEPT) => {}
            }
            drop(parked.remove(|entry| entry.name == name));
        }));
        Ok(Bytes::copy_from_slice(name.as_bytes()))
    }

    /// Gives a request back, once, to whom it belongs.
    pub(super) fn take(&self, name: &[u8], owner: &Owner) -> Option<Held> {
        let name = Uuid::from_slice(name).ok()?;
        let Entry { held, taken, .. } =
            self.remove(|entry| entry.name == name && entry.held.owner == *owner)?;
        taken.cancel();
        Some(held)
    }

    fn remove(&self, is: impl FnMut(&Entry) -> bool) -> Option<Entry> {
        let mut all = self.entries();
        let at = all.iter().position(is)?;
        Some(all.remove(at))
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
