//! Bounds the streams of events that are open at each source. Each of them is a call that lasts, and a
//! source has a limited number of calls at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use identity::Principal;

/// Maximum number of streams at one source: a quarter of the calls of a connection, so that tools have the
/// rest.
const MAX_OF_SOURCE: usize = 64;
/// Maximum number of streams of one root key at one source.
const MAX_OF_KEY: usize = 16;

/// The open streams, counted by source, and by source and root key.
#[derive(Debug, Clone, Default)]
pub(crate) struct FeedSlots(Arc<Mutex<HashMap<String, usize>>>);

/// The place of one stream; freed when dropped.
#[derive(Debug)]
pub(super) struct FeedSlot {
    slots: FeedSlots,
    counted: [String; 2],
}

impl FeedSlots {
    fn lock_counts(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place; `None` if the source, or the key at the source, has its maximum.
    pub(super) fn take_slot(&self, principal: &Principal, source: &str) -> Option<FeedSlot> {
        let key = format!("{source}/{}/{}", principal.org().as_str(), principal.limit_key_id());
        let counted = [source.to_owned(), key];
        let mut counts = self.lock_counts();
        let has_room = counted
            .iter()
            .zip([MAX_OF_SOURCE, MAX_OF_KEY])
            .all(|(name, most)| counts.get(name).is_none_or(|count| *count < most));
        if !has_room {
            return None;
        }
        for name in &counted {
            *counts.entry(name.clone()).or_default() += 1;
        }
        drop(counts);
        Some(FeedSlot { slots: self.clone(), counted })
    }
}

impl Drop for FeedSlot {
    fn drop(&mut self) {
        let mut counts = self.slots.lock_counts();
        for name in &self.counted {
            if let Some(count) = counts.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(name);
                }
            }
        }
    }
}

/// The failure of a stream without a place.
pub(super) const NO_SLOT: &str = "the source has the maximum number of event streams, 64 in all and 16 of a key; close some, \
    or poll";
