//! The nonces of used request states, counted per root key.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::RequestError;

/// Maximum number of used nonces that are remembered until they expire. Beyond that, new ones are
/// rejected rather than old ones forgotten.
pub(super) const MAX_USED_NONCES: usize = 100_000;
/// Maximum number of used nonces per root key.
pub(super) const MAX_USED_NONCES_PER_KEY: usize = MAX_USED_NONCES / 10;
/// Maximum number of expired nonces removed per insertion.
const MAX_REMOVED_AT_ONCE: usize = 4;
/// Length of a nonce in bytes.
pub(super) const NONCE_BYTES: usize = 16;

/// Expiry time, nonce and root key of a used request state.
pub(super) type UsedNonce = (u64, [u8; NONCE_BYTES], Arc<str>);

/// The used nonces that have not expired.
#[derive(Debug, Default)]
pub(super) struct UsedNonces {
    nonces: HashSet<[u8; NONCE_BYTES]>,
    by_expiry: VecDeque<UsedNonce>,
    count_by_key: HashMap<Arc<str>, usize>,
}

impl UsedNonces {
    /// Marks a nonce as used by this root key. Returns expired nonces whose rows can be removed.
    pub(super) fn insert_nonce(
        &mut self,
        (nonce, expires_at): ([u8; NONCE_BYTES], u64),
        key: Arc<str>,
        now: u64,
    ) -> Result<Vec<[u8; NONCE_BYTES]>, RequestError> {
        if self.nonces.contains(&nonce) {
            return Err(super::already_used());
        }
        let over = self.remove_expired(now, MAX_REMOVED_AT_ONCE);
        let own = self.count_by_key.get(&key).copied().unwrap_or_default();
        if self.by_expiry.len() >= MAX_USED_NONCES || own >= MAX_USED_NONCES_PER_KEY {
            return Err(super::invalid_state(
                "cannot be accepted: too many were used recently; try again later",
            ));
        }
        self.nonces.insert(nonce);
        *self.count_by_key.entry(Arc::clone(&key)).or_default() += 1;
        self.by_expiry.push_back((expires_at, nonce, key));
        Ok(over)
    }

    /// Adds the nonces used by earlier processes, in order of expiry.
    pub(super) fn restore_nonces(&mut self, mut nonces: Vec<UsedNonce>) {
        nonces.retain(|(_, nonce, _)| self.nonces.insert(*nonce));
        for one in nonces.into_iter().rev() {
            *self.count_by_key.entry(Arc::clone(&one.2)).or_default() += 1;
            self.by_expiry.push_front(one);
        }
    }

    /// Removes at most `most` expired nonces and returns them.
    fn remove_expired(&mut self, now: u64, most: usize) -> Vec<[u8; NONCE_BYTES]> {
        let mut over = Vec::new();
        while over.len() < most
            && let Some((_, nonce, key)) = self.by_expiry.pop_front_if(|(until, ..)| *until < now)
        {
            self.nonces.remove(&nonce);
            self.release_key(&key);
            over.push(nonce);
        }
        over
    }

    fn release_key(&mut self, key: &Arc<str>) {
        if let Some(count) = self.count_by_key.get_mut(key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.count_by_key.remove(key);
            }
        }
    }

    /// Removes a nonce that could not be stored.
    pub(super) fn remove_nonce(&mut self, nonce: &[u8; NONCE_BYTES]) {
        self.nonces.remove(nonce);
        let at = self.by_expiry.iter().position(|(_, one, _)| one == nonce);
        if let Some((.., key)) = at.and_then(|at| self.by_expiry.remove(at)) {
            self.release_key(&key);
        }
    }
}
