//! The nonces of used request states, counted per root key.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::Refused;

/// Maximum number of used nonces that are remembered until they expire. Beyond that, new ones are
/// rejected rather than old ones forgotten.
pub(super) const TAKEN: usize = 100_000;
/// Maximum number of used nonces per root key.
pub(super) const TAKEN_OF_KEY: usize = TAKEN / 10;
/// Maximum number of expired nonces removed per insertion.
const REMOVED: usize = 4;
/// Length of a nonce in bytes.
pub(super) const NONCE: usize = 16;

/// Expiry time, nonce and root key of a used request state.
pub(super) type TakenState = (u64, [u8; NONCE], Arc<str>);

/// The used nonces that have not expired.
#[derive(Debug, Default)]
pub(super) struct Taken {
    nonces: HashSet<[u8; NONCE]>,
    order: VecDeque<TakenState>,
    keys: HashMap<Arc<str>, usize>,
}

impl Taken {
    /// Marks a nonce as used by this root key. Returns expired nonces whose rows can be removed.
    pub(super) fn insert(
        &mut self,
        (nonce, until): ([u8; NONCE], u64),
        key: Arc<str>,
        now: u64,
    ) -> Result<Vec<[u8; NONCE]>, Refused> {
        if self.nonces.contains(&nonce) {
            return Err(super::used());
        }
        let over = self.sweep(now, REMOVED);
        let own = self.keys.get(&key).copied().unwrap_or_default();
        if self.order.len() >= TAKEN || own >= TAKEN_OF_KEY {
            return Err(super::wrong(
                "cannot be taken: too many questions were answered lately; try later",
            ));
        }
        self.nonces.insert(nonce);
        *self.keys.entry(Arc::clone(&key)).or_default() += 1;
        self.order.push_back((until, nonce, key));
        Ok(over)
    }

    /// Adds the nonces used by earlier processes, in order of expiry.
    pub(super) fn restore(&mut self, mut all: Vec<TakenState>) {
        all.retain(|(_, nonce, _)| self.nonces.insert(*nonce));
        for one in all.into_iter().rev() {
            *self.keys.entry(Arc::clone(&one.2)).or_default() += 1;
            self.order.push_front(one);
        }
    }

    /// Removes at most `most` expired nonces and returns them.
    fn sweep(&mut self, now: u64, most: usize) -> Vec<[u8; NONCE]> {
        let mut over = Vec::new();
        while over.len() < most
            && let Some((_, nonce, key)) = self.order.pop_front_if(|(until, ..)| *until < now)
        {
            self.nonces.remove(&nonce);
            self.release(&key);
            over.push(nonce);
        }
        over
    }

    fn release(&mut self, key: &Arc<str>) {
        if let Some(count) = self.keys.get_mut(key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.keys.remove(key);
            }
        }
    }

    /// Removes a nonce that could not be stored.
    pub(super) fn forget(&mut self, nonce: &[u8; NONCE]) {
        self.nonces.remove(nonce);
        let at = self.order.iter().position(|(_, one, _)| one == nonce);
        if let Some((.., key)) = at.and_then(|at| self.order.remove(at)) {
            self.release(&key);
        }
    }
}
