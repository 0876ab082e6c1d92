//! The keys with which people act for other users from the page of a tool, so that one key serves
//! several tries.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use identity::{KeyRing, Principal};
use tool::WallTime;

/// Maximum number of stored pairs; all are dropped for a new one.
const MAX_KEYS: usize = 1_024;
/// Milliseconds that a key must still be valid to be used again: a call takes time.
const MIN_LIFETIME_MS: u64 = 5 * 60_000;

/// The ID of a key, and the user it acts for.
pub(crate) type ActingPair = (String, String);

/// IDs of delegated keys, by the key that acts and the user it acts for.
#[derive(Debug, Default)]
pub(crate) struct ActingKeys(Mutex<HashMap<ActingPair, String>>);

impl ActingKeys {
    /// Returns the principal of a stored key that is valid for some minutes more.
    pub(crate) fn find_principal(
        &self,
        pair: &ActingPair,
        ring: &KeyRing,
        now: WallTime,
    ) -> Option<Principal> {
        let keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let id = keys.get(pair)?;
        let soon = WallTime(now.0.saturating_add(MIN_LIFETIME_MS));
        let is_valid = ring.invalid_reason(id, soon).is_none();
        ring.principal_of_key(id).filter(|_| is_valid).cloned()
    }

    /// Stores the ID of the key for later tries.
    pub(crate) fn store_key(&self, pair: ActingPair, id: &str) {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.len() >= MAX_KEYS {
            keys.clear();
        }
        keys.insert(pair, id.to_owned());
    }
}
