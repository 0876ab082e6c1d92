//! The nonces of the states that were taken, with the share of each root key.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::Refused;

/// States that were taken and are remembered until they would expire anyway. Past that, new ones are
/// refused rather than old ones forgotten.
pub(super) const TAKEN: usize = 100_000;
/// Those of one root key among them.
pub(super) const TAKEN_OF_KEY: usize = TAKEN / 10;
/// Expired states that are removed when one is taken.
const REMOVED: usize = 4;
/// Bytes of a nonce.
pub(super) const NONCE: usize = 16;

/// When it expires, its nonce, and the root key that it counts for.
pub(super) type TakenState = (u64, [u8; NONCE], Arc<str>);

/// The states that were taken and have not expired.
#[derive(Debug, Default)]
pub(super) struct Taken {
    nonces: HashSet<[u8; NONCE]>,
    order: VecDeque<TakenState>,
    keys: HashMap<Arc<str>, usize>,
}

impl Taken {
    /// Marks a state as taken by this root key. Gives those that may be removed because they expired.
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

    /// Adds what processes before have taken, in order of expiry.
    pub(super) fn restore(&mut self, mut all: Vec<TakenState>) {
        all.retain(|(_, nonce, _)| self.nonces.insert(*nonce));
        for one in all.into_iter().rev() {
            *self.keys.entry(Arc::clone(&one.2)).or_default() += 1;
            self.order.push_front(one);
        }
    }

    /// Those that would have expired by now need not be remembered, nor their rows kept: at most `most`.
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

    /// Takes back what could not be stored.
    pub(super) fn forget(&mut self, nonce: &[u8; NONCE]) {
        self.nonces.remove(nonce);
        let at = self.order.iter().position(|(_, one, _)| one == nonce);
        if let Some((.., key)) = at.and_then(|at| self.order.remove(at)) {
            self.release(&key);
        }
    }
}
