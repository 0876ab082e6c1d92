use proptest::prelude::{Strategy as _, prop_oneof};
use tool::{Digest, Trust, Wall};

use super::{Change, Pin, PinState, Sighting, Undecided, Word, callable, gone, see};

fn seen(definition: u8) -> Sighting {
    Sighting { digest: digest(definition), at: Wall(1), received: None, hidden: false }
}

fn digest(definition: u8) -> Digest {
    Digest([definition; 32])
}

fn word(definition: u8) -> Word {
    Word { definition: digest(definition), by: "ann".to_owned(), at: Wall(9), reason: None }
}

/// Follows a tool of one source.
struct Followed {
    pin: Option<Pin>,
    trust: Trust,
    changes: Vec<Change>,
}

impl Followed {
    fn new(trust: Trust) -> Self {
        Self { pin: None, trust, changes: Vec::new() }
    }

    /// Its source lists this definition; whether it may be called.
    fn see(&mut self, definition: u8) -> bool {
        let first = self.pin.is_none();
        if let Some((pin, change)) = see(self.pin.as_ref(), self.trust, seen(definition), first) {
            self.pin = Some(pin);
            self.changes.extend(change);
        }
        callable(self.pin.as_ref(), self.trust, digest(definition))
    }

    fn lose(&mut self) {
        self.pin = self.pin.as_ref().and_then(gone).or(self.pin.take());
    }

    fn state(&self) -> PinState {
        self.pin.as_ref().unwrap().state
    }
}

#[test]
fn full_trust_takes_a_change_and_tells() {
    let mut tool = Followed::new(Trust::Full);
    assert!(tool.see(1) && tool.see(1) && tool.see(2));
    assert_eq!(tool.changes, [Change::Activated, Change::Changed]);
    tool.pin = Some(tool.pin.unwrap().rejected(word(2)).unwrap());
    assert!(!callable(tool.pin.as_ref(), Trust::Full, digest(2)));
    let mut tool = Followed { pin: tool.pin, ..Followed::new(Trust::Full) };
    assert!(!tool.see(2), "what a person rejected stays out, whatever the trust");
    assert!(tool.see(3));
}

#[test]
fn first_use_holds_a_change_until_someone_agrees() {
    let mut tool = Followed::new(Trust::FirstUse);
    assert!(tool.see(1));
    assert!(!tool.see(2));
    assert!(!callable(tool.pin.as_ref(), tool.trust, digest(1)), "neither is the old one");
    let pin = tool.pin.clone().unwrap();
    assert_eq!(pin.approved(word(1)).unwrap_err(), Undecided::Other);
    tool.pin = Some(pin.approved(word(2)).unwrap());
    assert!(tool.see(2));
    assert!(!tool.see(1), "what was approved once is another definition now");
    assert_eq!(tool.changes, [Change::Activated, Change::Quarantined, Change::Quarantined]);
}

#[test]
fn review_lets_nothing_through() {
    let mut tool = Followed::new(Trust::Review);
    assert!(!tool.see(1) && !tool.see(2) && !tool.see(2));
    assert_eq!(
        (tool.state(), tool.changes.as_slice()),
        (PinState::Pending, &[Change::Pending][..])
    );
    tool.pin = Some(tool.pin.unwrap().approved(word(2)).unwrap());
    let mut tool = Followed { pin: tool.pin, ..Followed::new(Trust::Review) };
    assert!(tool.see(2) && !tool.see(1));
    assert_eq!(tool.pin.unwrap().rejected(word(9)).unwrap_err(), Undecided::Other);
}

#[test]
fn what_comes_after_the_first_sight_of_its_source_waits_and_so_does_what_hides_something() {
    let (pin, change) = see(None, Trust::FirstUse, seen(1), false).unwrap();
    assert_eq!((pin.state, change), (PinState::Pending, Some(Change::Pending)));
    let hides = Sighting { hidden: true, ..seen(1) };
    let (pin, _) = see(None, Trust::FirstUse, hides, true).unwrap();
    assert_eq!(pin.state, PinState::Pending);
    let (pin, _) = see(None, Trust::FirstUse, seen(1), true).unwrap();
    assert_eq!(pin.state, PinState::Active, "the control");
}

#[test]
fn nothing_known_is_nothing_callable_without_full_trust() {
    assert!(callable(None, Trust::Full, digest(1)));
    assert!(!callable(None, Trust::FirstUse, digest(1)));
    assert!(!callable(None, Trust::Review, digest(1)));
}

#[test]
fn a_rejected_definition_is_remembered_within_a_bound() {
    let mut tool = Followed::new(Trust::Review);
    for definition in 0..40 {
        tool.see(definition);
        tool.pin = Some(tool.pin.unwrap().rejected(word(definition)).unwrap());
    }
    let pin = tool.pin.unwrap();
    assert_eq!((pin.rejected.len(), pin.rejected[15]), (16, digest(39)));
}

/// What a source or a person may do.
#[derive(Debug, Clone, Copy)]
enum Step {
    See(u8),
    Lose,
    Approve,
    Reject,
}

proptest::proptest! {
    /// However a source changes, loses and regains its tool: what may be called is the definition that
    /// was seen first, or one that a person agreed to after that.
    #[test]
    fn only_what_was_agreed_to_is_ever_callable(steps in proptest::collection::vec(prop_oneof![
        6 => (0_u8..4).prop_map(Step::See), 2 => proptest::prelude::Just(Step::Lose),
        1 => proptest::prelude::Just(Step::Approve), 1 => proptest::prelude::Just(Step::Reject)], 1..40)) {
        for trust in [Trust::FirstUse, Trust::Review] {
            let mut tool = Followed::new(trust);
            // The reference: what a person agreed to, or the first sight; and whether something else
            // was seen since.
            let (mut agreed, mut disturbed) = (None, false);
            for step in &steps {
                match *step {
                    Step::See(definition) => {
                        if tool.pin.is_none() && trust == Trust::FirstUse {
                            agreed = Some(definition);
                        }
                        disturbed |= agreed != Some(definition);
                        proptest::prop_assert_eq!(tool.see(definition), !disturbed);
                    }
                    Step::Lose => tool.lose(),
                    Step::Approve => {
                        let waits = tool.pin.as_ref().and_then(|pin| pin.waiting.clone());
                        if let Some(waits) = waits {
                            let definition = waits.digest.0[0];
                            tool.pin = Some(tool.pin.unwrap().approved(word(definition)).unwrap());
                            (agreed, disturbed) = (Some(definition), false);
                        }
                    }
                    Step::Reject => {
                        let pin = tool.pin.clone();
                        let definition = pin.as_ref().and_then(|pin| {
                            let active = pin.active.as_ref().filter(|_| pin.state == PinState::Active);
                            active.or(pin.waiting.as_ref()).map(|seen| seen.digest.0[0])
                        });
                        if let Some(definition) = definition {
                            tool.pin = Some(pin.unwrap().rejected(word(definition)).unwrap());
                            (agreed, disturbed) = (None, true);
                        }
                    }
                }
            }
        }
    }
}
