//! Taint of callers: which callers have used tools with untrusted or private content, for
//! conditions on it.
//!
//! Taint depends on the called tools, never on their results: nothing in a result changes a
//! decision. It is kept in memory, and in the store so that a restart clears no caller's taint. If
//! more callers are marked than can be tracked, all others count as marked until the overflow
//! expires.

mod kept;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use identity::Principal;
use policy::Taint;
use tokio::sync::Notify;
use tool::{Map, Mono, Version};

/// Lifetime of a taint after the caller's last call.
const QUIET: Duration = Duration::from_hours(1);
/// Interval at which the time of the last call is written again.
const REFRESH: Duration = Duration::from_mins(10);
/// Maximum number of tracked callers.
const CALLERS: usize = 65_536;

/// Root key and user: keys delegated within one user's work count as one caller, because content
/// that one reads may reach the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Whose<'a> {
    key: &'a str,
    subject: &'a str,
}

impl<'a> Whose<'a> {
    fn of(principal: &'a Principal) -> Self {
        let first = principal.rights().delegations().first();
        let key = first.map_or(principal.key(), |hand| hand.by.as_str());
        Self { key, subject: principal.subject() }
    }
}

/// Tracks the taint of all callers.
#[derive(Debug, Default)]
pub(crate) struct Taints {
    kept: Mutex<Kept>,
    /// True if any caller is marked.
    any: AtomicBool,
    /// Hash state for caller ids: a keyed hash, for which nobody can find collisions.
    keys: RandomState,
    /// Notifies that a row must be written.
    news: Notify,
}

#[derive(Debug, Default)]
struct Kept {
    callers: Map<u64, Seen>,
    /// Callers with a pending write, by key and user.
    due: Map<u64, (String, String)>,
    /// Time of the overflow, since which untracked callers count as marked.
    over: Option<Mono>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    taint: Taint,
    last: Mono,
    /// Stored taint with its time and version.
    written: Option<(Taint, Mono, Version)>,
}

impl Seen {
    fn is_due(&self) -> bool {
        self.written
            .is_none_or(|(taint, at, _)| taint != self.taint || self.last.since(at) >= REFRESH)
    }
}

fn counts(since: Mono, now: Mono) -> bool {
    now.since(since) < QUIET
}

impl Taints {
    fn id(&self, whose: Whose<'_>) -> u64 {
        self.keys.hash_one(whose)
    }

    /// Returns the taint of this caller and refreshes the time of its last call.
    pub(crate) fn of(&self, principal: &Principal, now: Mono) -> Taint {
        if !self.any.load(Ordering::Acquire) {
            return Taint::default();
        }
        let whose = Whose::of(principal);
        let id = self.id(whose);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let over = kept.over.is_some_and(|since| counts(since, now));
        let Some(seen) = kept.callers.get_mut(&id).filter(|seen| counts(seen.last, now)) else {
            return Taint { untrusted: over, private: over };
        };
        seen.last = now;
        let (taint, due) = (seen.taint, seen.is_due());
        if due {
            self.note(&mut kept, id, whose);
        }
        taint
    }

    /// Returns the taint of this caller without a refresh.
    pub(crate) fn look(&self, principal: &Principal, now: Mono) -> Taint {
        let id = self.id(Whose::of(principal));
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.callers.get(&id).filter(|seen| counts(seen.last, now));
        let over = kept.over.is_some_and(|since| counts(since, now));
        found.map_or(Taint { untrusted: over, private: over }, |seen| seen.taint)
    }

    /// Marks this caller with `taint`.
    pub(crate) fn mark(&self, principal: &Principal, taint: Taint, now: Mono) {
        if taint == Taint::default() {
            return;
        }
        let whose = Whose::of(principal);
        let id = self.id(whose);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.room(id, now) {
            return;
        }
        let new = Seen { taint, last: now, written: None };
        let seen = kept.callers.entry(id).or_insert(new);
        let before = if counts(seen.last, now) { seen.taint } else { Taint::default() };
        (seen.taint, seen.last) = (before.and(taint), now);
        if seen.is_due() {
            self.note(&mut kept, id, whose);
        }
        self.any.store(true, Ordering::Release);
    }

    /// Schedules one write of this caller.
    fn note(&self, kept: &mut Kept, id: u64, whose: Whose<'_>) {
        kept.due.entry(id).or_insert_with(|| {
            self.news.notify_one();
            (whose.key.to_owned(), whose.subject.to_owned())
        });
    }
}

impl Kept {
    /// Reserves a slot for this caller; without space, all untracked callers count as marked.
    fn room(&mut self, id: u64, now: Mono) -> bool {
        if self.callers.len() < CALLERS || self.callers.contains_key(&id) {
            return true;
        }
        self.callers.retain(|_, seen| counts(seen.last, now));
        let Self { callers, due, .. } = self;
        due.retain(|id, _| callers.contains_key(id));
        if self.callers.len() < CALLERS {
            return true;
        }
        self.over = Some(now);
        false
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use identity::{KeyId, KeyRing, NewKey, Principal};
    use policy::Taint;
    use tool::{Mono, Wall};

    use super::{CALLERS, Seen, Taints};

    const UNTRUSTED: Taint = Taint { untrusted: true, private: false };
    const PRIVATE: Taint = Taint { untrusted: false, private: true };
    const BOTH: Taint = Taint { untrusted: true, private: true };

    fn at(minutes: u64) -> Mono {
        Mono(Duration::from_mins(minutes))
    }

    fn caller(id: &str, subject: &str) -> Principal {
        let key = NewKey::user(KeyId::new(id).unwrap(), subject);
        let (secret, record) = key.issue([7; 32], Wall(0)).unwrap();
        KeyRing::new([record]).verify(Some(secret.open()), Wall(1)).unwrap()
    }

    #[test]
    fn what_was_seen_adds_up_and_is_forgotten_after_an_hour_of_silence() {
        let (taints, ann) = (Taints::default(), caller("a", "ann"));
        assert_eq!(taints.of(&ann, at(0)), Taint::default());
        taints.mark(&ann, UNTRUSTED, at(0));
        assert_eq!(taints.of(&ann, at(59)), UNTRUSTED, "and this call keeps it");
        taints.mark(&ann, PRIVATE, at(100));
        assert_eq!((taints.of(&ann, at(159)), taints.look(&ann, at(159))), (BOTH, BOTH));
        assert_eq!(taints.look(&ann, at(219)), Taint::default(), "to look is no call");
        // What counts no more does not come back with the next mark.
        taints.mark(&ann, PRIVATE, at(300));
        assert_eq!(taints.of(&ann, at(300)), PRIVATE);
        assert_eq!(taints.of(&caller("b", "ann"), at(300)), Taint::default(), "another key");
    }

    #[test]
    fn keys_handed_on_within_one_users_work_are_one_caller() {
        let first = NewKey::user(KeyId::new("first").unwrap(), "ann");
        let (_, above) = first.issue([1; 32], Wall(0)).unwrap();
        let maker = KeyRing::new([above.clone()]).principal("first").unwrap().clone();
        let id = KeyId::new("second").unwrap();
        let hand = NewKey::delegated(id, (&above, &maker), identity::Hand::default(), Wall(1));
        let (_, below) = hand.unwrap().issue([2; 32], Wall(1)).unwrap();
        let ring = KeyRing::new([above, below]);
        let (taints, second) = (Taints::default(), ring.principal("second").unwrap());
        taints.mark(second, UNTRUSTED, at(0));
        assert_eq!(taints.of(&maker, at(1)), UNTRUSTED, "what the second read may be told to it");
    }

    #[test]
    fn where_too_many_are_marked_everyone_is() {
        let (taints, last) = (Taints::default(), caller("last", "zoe"));
        let one = caller("a", "ann");
        taints.mark(&one, UNTRUSTED, at(0));
        {
            let mut kept = taints.kept.lock().unwrap();
            let seen = Seen { taint: UNTRUSTED, last: at(0), written: None };
            kept.callers.extend((1..CALLERS).map(|n| (n as u64, seen)));
        }
        assert_eq!(taints.of(&last, at(1)), Taint::default());
        taints.mark(&caller("one", "more"), UNTRUSTED, at(1));
        assert_eq!((taints.of(&last, at(2)), taints.of(&one, at(2))), (BOTH, UNTRUSTED));
        assert_eq!(taints.of(&last, at(62)), Taint::default());
        // Then there is room again.
        taints.mark(&last, PRIVATE, at(63));
        assert_eq!(taints.of(&last, at(63)), PRIVATE);
    }
}
