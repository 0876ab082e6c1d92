//! Taint of callers: which callers have used tools with untrusted or private content, for
//! conditions on it.
//!
//! Taint depends on the called tools, never on their results: nothing in a result changes a
//! decision. It is kept in memory, and in the store so that a restart clears no caller's taint. If
//! more callers are marked than can be tracked, all others count as marked until the overflow
//! expires.

mod taint_store;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use identity::Principal;
use policy::SessionTaint;
use tokio::sync::Notify;
use tool::{FastMap, MonotonicTime, Version};

/// Lifetime of a taint after the caller's last call.
const TAINT_LIFETIME: Duration = Duration::from_hours(1);
/// Interval at which the time of the last call is written again.
const REWRITE_INTERVAL: Duration = Duration::from_mins(10);
/// Maximum number of tracked callers.
const MAX_CALLERS: usize = 65_536;

/// Root key and user: keys delegated within one user's work count as one caller, because content
/// that one reads may reach the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct TaintSubject<'a> {
    root_key_id: &'a str,
    subject: &'a str,
}

impl<'a> TaintSubject<'a> {
    fn from_principal(principal: &'a Principal) -> Self {
        let first = principal.rights_class().delegations().first();
        let key = first.map_or(principal.key_id(), |hand| hand.delegated_by.as_str());
        Self { root_key_id: key, subject: principal.subject() }
    }

    fn to_owned_subject(self) -> OwnedTaintSubject {
        OwnedTaintSubject {
            root_key_id: self.root_key_id.to_owned(),
            subject: self.subject.to_owned(),
        }
    }
}

/// A [`TaintSubject`] that is kept until its row is written.
#[derive(Debug, Clone)]
struct OwnedTaintSubject {
    root_key_id: String,
    subject: String,
}

/// Tracks the taint of all callers.
#[derive(Debug, Default)]
pub(crate) struct TaintTracker {
    table: Mutex<TaintTable>,
    /// True if any caller is marked.
    is_any_marked: AtomicBool,
    /// Hash state for caller ids: a keyed hash, for which nobody can find collisions.
    hash_state: RandomState,
    /// Notifies that a row must be written.
    write_notify: Notify,
}

#[derive(Debug, Default)]
struct TaintTable {
    callers: FastMap<u64, CallerTaint>,
    /// Callers with a pending write.
    pending_writes: FastMap<u64, OwnedTaintSubject>,
    /// Time of the overflow, since which untracked callers count as marked.
    overflow_since: Option<MonotonicTime>,
}

#[derive(Debug, Clone, Copy)]
struct CallerTaint {
    taint: SessionTaint,
    last_call: MonotonicTime,
    /// Row in the store, once it is written.
    written: Option<WrittenTaint>,
}

/// Taint as it was last written to the store.
#[derive(Debug, Clone, Copy)]
struct WrittenTaint {
    taint: SessionTaint,
    /// Time of the call that was the last one then.
    last_call: MonotonicTime,
    version: Version,
}

impl CallerTaint {
    fn needs_write(&self) -> bool {
        self.written.is_none_or(|written| {
            let age = self.last_call.saturating_duration_since(written.last_call);
            written.taint != self.taint || age >= REWRITE_INTERVAL
        })
    }
}

fn is_recent(since: MonotonicTime, now: MonotonicTime) -> bool {
    now.saturating_duration_since(since) < TAINT_LIFETIME
}

impl TaintTracker {
    fn caller_hash(&self, whose: TaintSubject<'_>) -> u64 {
        self.hash_state.hash_one(whose)
    }

    /// Returns the taint of this caller and refreshes the time of its last call.
    pub(crate) fn touch_caller(&self, principal: &Principal, now: MonotonicTime) -> SessionTaint {
        if !self.is_any_marked.load(Ordering::Acquire) {
            return SessionTaint::default();
        }
        let whose = TaintSubject::from_principal(principal);
        let id = self.caller_hash(whose);
        let mut kept = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let over = kept.overflow_since.is_some_and(|since| is_recent(since, now));
        let Some(caller_taint) =
            kept.callers.get_mut(&id).filter(|seen| is_recent(seen.last_call, now))
        else {
            return SessionTaint { has_untrusted: over, has_private: over };
        };
        caller_taint.last_call = now;
        let (taint, due) = (caller_taint.taint, caller_taint.needs_write());
        if due {
            self.schedule_write(&mut kept, id, whose);
        }
        taint
    }

    /// Returns the taint of this caller without a refresh.
    pub(crate) fn peek_caller(&self, principal: &Principal, now: MonotonicTime) -> SessionTaint {
        let id = self.caller_hash(TaintSubject::from_principal(principal));
        let kept = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.callers.get(&id).filter(|seen| is_recent(seen.last_call, now));
        let over = kept.overflow_since.is_some_and(|since| is_recent(since, now));
        found.map_or(SessionTaint { has_untrusted: over, has_private: over }, |seen| seen.taint)
    }

    /// Marks this caller with `taint`.
    pub(crate) fn mark_caller(
        &self,
        principal: &Principal,
        taint: SessionTaint,
        now: MonotonicTime,
    ) {
        if taint == SessionTaint::default() {
            return;
        }
        let whose = TaintSubject::from_principal(principal);
        let id = self.caller_hash(whose);
        let mut kept = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.reserve_slot(id, now) {
            return;
        }
        let new = CallerTaint { taint, last_call: now, written: None };
        let seen = kept.callers.entry(id).or_insert(new);
        let before =
            if is_recent(seen.last_call, now) { seen.taint } else { SessionTaint::default() };
        (seen.taint, seen.last_call) = (before.union(taint), now);
        if seen.needs_write() {
            self.schedule_write(&mut kept, id, whose);
        }
        self.is_any_marked.store(true, Ordering::Release);
    }

    /// Schedules one write of this caller.
    fn schedule_write(&self, kept: &mut TaintTable, id: u64, whose: TaintSubject<'_>) {
        kept.pending_writes.entry(id).or_insert_with(|| {
            self.write_notify.notify_one();
            whose.to_owned_subject()
        });
    }
}

impl TaintTable {
    /// Reserves a slot for this caller; without space, all untracked callers count as marked.
    fn reserve_slot(&mut self, id: u64, now: MonotonicTime) -> bool {
        if self.callers.len() < MAX_CALLERS || self.callers.contains_key(&id) {
            return true;
        }
        self.callers.retain(|_, seen| is_recent(seen.last_call, now));
        let Self { callers, pending_writes: due, .. } = self;
        due.retain(|id, _| callers.contains_key(id));
        if self.callers.len() < MAX_CALLERS {
            return true;
        }
        self.overflow_since = Some(now);
        false
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use identity::{KeyId, KeyRing, NewKey, Principal};
    use policy::SessionTaint;
    use tool::{MonotonicTime, WallTime};

    use super::{CallerTaint, MAX_CALLERS, TaintTracker};

    const UNTRUSTED: SessionTaint = SessionTaint { has_untrusted: true, has_private: false };
    const PRIVATE: SessionTaint = SessionTaint { has_untrusted: false, has_private: true };
    const BOTH: SessionTaint = SessionTaint { has_untrusted: true, has_private: true };

    fn at(minutes: u64) -> MonotonicTime {
        MonotonicTime(Duration::from_mins(minutes))
    }

    fn caller(id: &str, subject: &str) -> Principal {
        let key = NewKey::for_user(KeyId::new(id).unwrap(), subject);
        let (secret, record) = key.issue_key([7; 32], WallTime(0)).unwrap();
        KeyRing::new([record]).verify_key(Some(secret.expose()), WallTime(1)).unwrap()
    }

    #[test]
    fn what_was_seen_adds_up_and_is_forgotten_after_an_hour_of_silence() {
        let (taints, ann) = (TaintTracker::default(), caller("a", "ann"));
        assert_eq!(taints.touch_caller(&ann, at(0)), SessionTaint::default());
        taints.mark_caller(&ann, UNTRUSTED, at(0));
        assert_eq!(taints.touch_caller(&ann, at(59)), UNTRUSTED, "and this call keeps it");
        taints.mark_caller(&ann, PRIVATE, at(100));
        assert_eq!(
            (taints.touch_caller(&ann, at(159)), taints.peek_caller(&ann, at(159))),
            (BOTH, BOTH)
        );
        assert_eq!(
            taints.peek_caller(&ann, at(219)),
            SessionTaint::default(),
            "to look is no call"
        );
        // What counts no more does not come back with the next mark.
        taints.mark_caller(&ann, PRIVATE, at(300));
        assert_eq!(taints.touch_caller(&ann, at(300)), PRIVATE);
        assert_eq!(
            taints.touch_caller(&caller("b", "ann"), at(300)),
            SessionTaint::default(),
            "another key"
        );
    }

    #[test]
    fn keys_handed_on_within_one_users_work_are_one_caller() {
        let first = NewKey::for_user(KeyId::new("first").unwrap(), "ann");
        let (_, above) = first.issue_key([1; 32], WallTime(0)).unwrap();
        let maker = KeyRing::new([above.clone()]).principal_of_key("first").unwrap().clone();
        let id = KeyId::new("second").unwrap();
        let hand = NewKey::delegate_key(
            id,
            (&above, &maker),
            identity::DelegationRequest::default(),
            WallTime(1),
        );
        let (_, below) = hand.unwrap().issue_key([2; 32], WallTime(1)).unwrap();
        let ring = KeyRing::new([above, below]);
        let (taints, second) = (TaintTracker::default(), ring.principal_of_key("second").unwrap());
        taints.mark_caller(second, UNTRUSTED, at(0));
        assert_eq!(
            taints.touch_caller(&maker, at(1)),
            UNTRUSTED,
            "what the second read may be told to it"
        );
    }

    #[test]
    fn where_too_many_are_marked_everyone_is() {
        let (taints, last) = (TaintTracker::default(), caller("last", "zoe"));
        let one = caller("a", "ann");
        taints.mark_caller(&one, UNTRUSTED, at(0));
        {
            let mut kept = taints.table.lock().unwrap();
            let seen = CallerTaint { taint: UNTRUSTED, last_call: at(0), written: None };
            kept.callers.extend((1..MAX_CALLERS).map(|n| (n as u64, seen)));
        }
        assert_eq!(taints.touch_caller(&last, at(1)), SessionTaint::default());
        taints.mark_caller(&caller("one", "more"), UNTRUSTED, at(1));
        assert_eq!(
            (taints.touch_caller(&last, at(2)), taints.touch_caller(&one, at(2))),
            (BOTH, UNTRUSTED)
        );
        assert_eq!(taints.touch_caller(&last, at(62)), SessionTaint::default());
        // Then there is room again.
        taints.mark_caller(&last, PRIVATE, at(63));
        assert_eq!(taints.touch_caller(&last, at(63)), PRIVATE);
    }
}
