//! Quota of stored programs and bytes for each root key. Concurrent writes are counted together, so
//! they cannot exceed it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tool::call_outcome::CallFailure;
use tool::{CallId, Caller, ErrorCode};

use crate::program_head::ProgramHead;
use crate::program_state::ProgramStatus;
use crate::program_store::ProgramKey;

/// Limits of one root key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuotaLimits {
    /// Programs that have not ended, and as many that have.
    pub(crate) max_programs: usize,
    /// Total size of the programs, in bytes.
    pub(crate) max_bytes: usize,
}

impl Default for QuotaLimits {
    /// 64 and 64 MiB.
    fn default() -> Self {
        Self { max_programs: 64, max_bytes: 64 << 20 }
    }
}

/// Stored programs by root key.
#[derive(Debug, Default)]
pub(crate) struct ProgramQuota {
    limits: QuotaLimits,
    by_root_key: HashMap<Arc<str>, BTreeMap<CallId, QuotaEntry>>,
}

#[derive(Debug)]
struct QuotaEntry {
    row: ProgramKey,
    bytes: usize,
    rank: EvictionRank,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EvictionRank {
    /// Runs, or resumes without its caller.
    Active,
    /// Waits for its caller.
    Paused,
    Ended,
}

impl EvictionRank {
    fn from_status(state: ProgramStatus) -> Self {
        match state {
            ProgramStatus::Paused => Self::Paused,
            state if state.has_ended() => Self::Ended,
            _ => Self::Active,
        }
    }
}

impl ProgramQuota {
    #[cfg(test)]
    fn new(bounds: QuotaLimits) -> Self {
        Self { limits: bounds, by_root_key: HashMap::new() }
    }

    /// Sets the limit of unfinished programs, and of retained ended programs, for each root key.
    pub(crate) fn set_max_programs(&mut self, programs: usize) {
        self.limits.max_programs = programs;
    }

    /// Counts a stored program, even above the limits.
    pub(crate) fn record_program(&mut self, head: &ProgramHead) {
        let stored = QuotaEntry {
            row: head.program_key(),
            bytes: head.state_bytes,
            rank: EvictionRank::from_status(head.state),
        };
        self.by_root_key.entry(root_key(&head.caller)).or_default().insert(head.id, stored);
    }

    /// Removes a program that is no longer stored.
    pub(crate) fn remove_program(&mut self, caller: &Caller, id: CallId) {
        let root = root_key(caller);
        if let Some(all) = self.by_root_key.get_mut(&root) {
            all.remove(&id);
            if all.is_empty() {
                self.by_root_key.remove(&root);
            }
        }
    }

    /// Admits a program that is to be stored, and returns the programs to evict for it, which are
    /// no longer counted. Ended ones are deleted, then paused ones are ended, oldest first.
    ///
    /// # Errors
    /// [`ErrorCode::RateLimited`] if active programs use the whole quota. An ended program is
    /// always admitted.
    pub(crate) fn admit_program(
        &mut self,
        head: &ProgramHead,
    ) -> Result<Vec<ProgramKey>, CallFailure> {
        let (root, bounds) = (root_key(&head.caller), self.limits);
        let before = self.by_root_key.get_mut(&root).and_then(|all| all.remove(&head.id));
        let grows = before.as_ref().is_none_or(|before| head.state_bytes > before.bytes);
        self.record_program(head);
        if !grows && !head.state.has_ended() {
            return Ok(Vec::new());
        }
        let Some(all) = self.by_root_key.get_mut(&root) else { return Ok(Vec::new()) };
        let (rows, full) = choose_evictions(all, Some(head.id), bounds);
        let full = full.filter(|_| !head.state.has_ended());
        let Some(full) = full else {
            return Ok(rows.into_iter().filter_map(|id| Some(all.remove(&id)?.row)).collect());
        };
        // Restore the previous entry.
        match before {
            Some(before) => drop(all.insert(head.id, before)),
            None => self.remove_program(&head.caller, head.id),
        }
        Err(full)
    }

    /// Returns the programs to evict above the limits, as [`ProgramQuota::admit_program`] does.
    pub(crate) fn evict_excess(&mut self) -> Vec<ProgramKey> {
        let bounds = self.limits;
        let out = |all: &mut BTreeMap<CallId, QuotaEntry>| {
            let ids = choose_evictions(all, None, bounds).0;
            ids.into_iter().filter_map(|id| Some(all.remove(&id)?.row)).collect::<Vec<_>>()
        };
        self.by_root_key.values_mut().flat_map(out).collect()
    }
}

/// Chooses the programs to evict, oldest first and never `admitted`. Also returns the error if
/// eviction does not suffice.
fn choose_evictions(
    all: &BTreeMap<CallId, QuotaEntry>,
    admitted: Option<CallId>,
    bounds: QuotaLimits,
) -> (Vec<CallId>, Option<CallFailure>) {
    let oldest = |rank: EvictionRank| {
        all.iter().filter(move |(id, it)| it.rank == rank && Some(**id) != admitted)
    };
    let (mut ended, mut paused) = (oldest(EvictionRank::Ended), oldest(EvictionRank::Paused));
    let mut finished = all.values().filter(|it| it.rank == EvictionRank::Ended).count();
    let mut unfinished = all.len() - finished;
    let mut bytes: usize = all.values().map(|it| it.bytes).sum();
    let mut out = Vec::new();
    loop {
        let next = if unfinished > bounds.max_programs {
            paused.next()
        } else if finished > bounds.max_programs {
            ended.next()
        } else if bytes > bounds.max_bytes {
            ended.next().or_else(|| paused.next())
        } else {
            return (out, None);
        };
        let Some((id, stored)) = next else {
            return (out, Some(quota_exceeded((unfinished, bytes), bounds)));
        };
        match stored.rank {
            EvictionRank::Ended => finished -= 1,
            EvictionRank::Paused | EvictionRank::Active => unfinished -= 1,
        }
        bytes -= stored.bytes;
        out.push(*id);
    }
}

fn quota_exceeded((unfinished, bytes): (usize, usize), bounds: QuotaLimits) -> CallFailure {
    let message = if unfinished > bounds.max_programs {
        format!("this key already has {} unfinished programs, the maximum", bounds.max_programs)
    } else {
        let (has, may) = (bytes >> 20, bounds.max_bytes >> 20);
        format!(
            "the programs of this key would need {has} MiB of storage; the maximum is {may} \
            MiB"
        )
    };
    CallFailure::new(
        ErrorCode::RateLimited,
        format!("{message}; decide on their pending calls, or cancel some"),
    )
}

/// The word that a root key's programs are counted under.
fn root_key(caller: &Caller) -> Arc<str> {
    format!("{}/{}", caller.org.as_str(), caller.limit_key_id()).into()
}

#[cfg(test)]
mod tests;
