//! What callers have seen that makes their next call more delicate, for conditions that ask for it.
//!
//! It goes by which tools were called, never by what they answered: nothing in a result changes a decision.
//! It is kept in memory only. Where more callers are marked than can be kept, all others count as marked
//! until that has passed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use identity::Principal;
use policy::Taint;
use tool::{Map, Mono};

/// What was seen counts until its caller has made no call for so long.
const QUIET: Duration = Duration::from_hours(1);
/// Callers that are kept.
const CALLERS: usize = 65_536;

/// A first key and a user: keys that were handed on within one user's work are one caller, for what one
/// of them read may be told to the others.
type Whose = (String, String);

fn whose(principal: &Principal) -> Whose {
    let first = principal.rights().delegations().first();
    let key = first.map_or(principal.key(), |hand| hand.by.as_str());
    (key.to_owned(), principal.subject().to_owned())
}

/// Who has seen what.
#[derive(Debug, Default)]
pub(crate) struct Taints {
    kept: Mutex<Kept>,
    /// Whether anyone has.
    any: AtomicBool,
}

#[derive(Debug, Default)]
struct Kept {
    callers: Map<Whose, (Taint, Mono)>,
    /// Until when those that are not kept count as marked.
    over: Option<Mono>,
}

fn counts(since: Mono, now: Mono) -> bool {
    now.since(since) < QUIET
}

impl Taints {
    /// What this caller has seen, who calls now.
    pub(crate) fn of(&self, principal: &Principal, now: Mono) -> Taint {
        if !self.any.load(Ordering::Acquire) {
            return Taint::default();
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let over = kept.over.is_some_and(|since| counts(since, now));
        let unknown = Taint { untrusted: over, private: over };
        match kept.callers.get_mut(&whose(principal)) {
            Some((taint, last)) if counts(*last, now) => {
                *last = now;
                *taint
            }
            _ => unknown,
        }
    }

    /// The same of one who does not call.
    pub(crate) fn look(&self, principal: &Principal, now: Mono) -> Taint {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.callers.get(&whose(principal)).filter(|(_, last)| counts(*last, now));
        let over = kept.over.is_some_and(|since| counts(since, now));
        found.map_or(Taint { untrusted: over, private: over }, |(taint, _)| *taint)
    }

    /// This caller sees `taint` from here on.
    pub(crate) fn mark(&self, principal: &Principal, taint: Taint, now: Mono) {
        if taint == Taint::default() {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let whose = whose(principal);
        if kept.callers.len() >= CALLERS && !kept.callers.contains_key(&whose) {
            kept.callers.retain(|_, (_, last)| counts(*last, now));
            if kept.callers.len() >= CALLERS {
                kept.over = Some(now);
                return;
            }
        }
        let (seen, last) = kept.callers.entry(whose).or_insert((Taint::default(), now));
        let before = if counts(*last, now) { *seen } else { Taint::default() };
        *seen = before.and(taint);
        *last = now;
        self.any.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use identity::{KeyId, KeyRing, NewKey, Principal};
    use policy::Taint;
    use tool::{Mono, Wall};

    use super::{CALLERS, Taints};

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
            let many = (1..CALLERS).map(|n| ((n.to_string(), String::new()), (UNTRUSTED, at(0))));
            kept.callers.extend(many);
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
