//! Pending requests. Their server waits for input of a client that receives requests only between
//! two calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::mcp::RpcRequest;
use bytes::Bytes;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tool::{Caller, Org, ToolKey};
use uuid::Uuid;

use super::in_flight_request::InFlightRequest;

/// Maximum pending requests of one source.
pub(super) const MAX_PENDING: usize = 64;
/// Maximum of these for one key and all keys delegated from it.
const KEY_SHARE: usize = 8;
/// Time after which a pending request is dropped.
pub(super) const PENDING_TTL: Duration = Duration::from_mins(10);

/// Caller that may resume a pending request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PendingInputOwner {
    tool_key: ToolKey,
    org: Org,
    subject: String,
}

impl PendingInputOwner {
    pub(super) fn new(key: &ToolKey, caller: &Caller) -> Self {
        Self { tool_key: key.clone(), org: caller.org.clone(), subject: caller.subject.clone() }
    }
}

/// Pending request with the input that it waits for.
#[derive(Debug)]
pub(super) struct PendingInput {
    pub(super) in_flight: InFlightRequest,
    /// Input request that it waits for.
    pub(super) input_request: RpcRequest,
    pub(super) owner: PendingInputOwner,
    /// Root key that the per-key share is counted by.
    pub(super) limit_key_id: String,
}

#[derive(Debug)]
struct PendingInputEntry {
    entry_id: Uuid,
    pending: PendingInput,
    taken_signal: CancellationToken,
}

/// Pending requests of one source, oldest first.
#[derive(Debug, Default)]
pub(super) struct PendingInputs {
    entries: Mutex<Vec<PendingInputEntry>>,
}

impl PendingInputs {
    /// Stores a pending request under an unguessable name. If its key has used its share, the key's
    /// oldest request is dropped, which notifies the server. If other keys use all places, the
    /// request is returned. A request that is not resumed in time is dropped.
    pub(super) fn insert_pending(
        self: &Arc<Self>,
        pending: PendingInput,
        closing: &CancellationToken,
    ) -> Result<Bytes, Box<PendingInput>> {
        let name = Uuid::new_v4();
        let taken = CancellationToken::new();
        let link = Arc::clone(pending.in_flight.connection());
        let displaced = {
            let mut all = self.lock_entries();
            let count_of_key = all
                .iter()
                .filter(|entry| entry.pending.limit_key_id == pending.limit_key_id)
                .count();
            let oldest =
                all.iter().position(|entry| entry.pending.limit_key_id == pending.limit_key_id);
            let displaced = match oldest {
                Some(oldest) if count_of_key >= KEY_SHARE || all.len() >= MAX_PENDING => {
                    Some(all.remove(oldest))
                }
                None if all.len() >= MAX_PENDING => return Err(Box::new(pending)),
                Some(_) | None => None,
            };
            all.push(PendingInputEntry { entry_id: name, pending, taken_signal: taken.clone() });
            displaced
        };
        // Outside the lock: the drop notifies the server.
        drop(displaced.inspect(|entry| entry.taken_signal.cancel()));
        let (parked, closing) = (Arc::clone(self), closing.clone());
        drop(link.context.tasks.clone().spawn(async move {
            tokio::select! {
                () = taken.cancelled() => return,
                () = closing.cancelled() => {}
                () = link.wait_until_closed() => {}
                () = sleep(PENDING_TTL) => {}
            }
            drop(parked.remove_entry(|entry| entry.entry_id == name));
        }));
        Ok(Bytes::copy_from_slice(name.as_bytes()))
    }

    /// Removes and returns a pending request if this owner stored it.
    pub(super) fn take_pending(
        &self,
        name: &[u8],
        owner: &PendingInputOwner,
    ) -> Option<PendingInput> {
        let name = Uuid::from_slice(name).ok()?;
        let PendingInputEntry { pending: held, taken_signal: taken, .. } =
            self.remove_entry(|entry| entry.entry_id == name && entry.pending.owner == *owner)?;
        taken.cancel();
        Some(held)
    }

    fn remove_entry(
        &self,
        matches: impl FnMut(&PendingInputEntry) -> bool,
    ) -> Option<PendingInputEntry> {
        let mut all = self.lock_entries();
        let at = all.iter().position(matches)?;
        Some(all.remove(at))
    }

    fn lock_entries(&self) -> MutexGuard<'_, Vec<PendingInputEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
