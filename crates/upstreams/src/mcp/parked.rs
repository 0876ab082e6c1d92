//! Requests whose server waits for an answer of a client that can only be asked between two calls.

use std::collections::HashMap;
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
}

/// The requests that are kept.
#[derive(Debug, Default)]
pub(super) struct Parked {
    held: Mutex<HashMap<Uuid, (Held, CancellationToken)>>,
}

impl Parked {
    /// Keeps a request under a name that cannot be guessed; gives it back where there are too many.
    /// Nobody came for it in time: it is dropped, which its server is told.
    pub(super) fn park(
        self: &Arc<Self>,
        held: Held,
        closing: &CancellationToken,
    ) -> Result<Bytes, Box<Held>> {
        let name = Uuid::new_v4();
        let taken = CancellationToken::new();
        let link = Arc::clone(held.exchange.link());
        {
            let mut all = self.all();
            if all.len() >= MOST {
                return Err(Box::new(held));
            }
            all.insert(name, (held, taken.clone()));
        }
        let (parked, closing) = (Arc::clone(self), closing.clone());
        drop(link.shared.tasks.clone().spawn(async move {
            tokio::select! {
                () = taken.cancelled() => return,
                () = closing.cancelled() => {}
                () = link.over() => {}
                () = sleep(KEPT) => {}
            }
            drop(parked.all().remove(&name));
        }));
        Ok(Bytes::copy_from_slice(name.as_bytes()))
    }

    /// Gives a request back, once, to whom it belongs.
    pub(super) fn take(&self, name: &[u8], owner: &Owner) -> Option<Held> {
        let name = Uuid::from_slice(name).ok()?;
        let mut all = self.all();
        all.get(&name).filter(|(held, _)| held.owner == *owner)?;
        let (held, taken) = all.remove(&name)?;
        taken.cancel();
        Some(held)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Uuid, (Held, CancellationToken)>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
