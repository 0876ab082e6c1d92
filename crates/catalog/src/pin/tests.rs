use proptest::prelude::{Strategy as _, prop_oneof};
use tool::{Digest, SourceTrust, WallTime};

use super::{
    ObservedDefinition, Pin, PinChange, PinDecision, PinDecisionError, PinState, is_callable,
    observe_definition, retire_pin,
};

fn seen(definition: u8) -> ObservedDefinition {
    ObservedDefinition {
        digest: digest(definition),
        observed_at: WallTime(1),
        raw_definition: None,
        has_invisible_chars: false,
    }
}

fn digest(definition: u8) -> Digest {
    Digest([definition; 32])
}

fn word(definition: u8) -> PinDecision {
    PinDecision {
        definition_digest: digest(definition),
        decided_by: "ann".to_owned(),
        decided_at: WallTime(9),
        reason: None,
    }
}

/// Follows a tool of one source.
struct Followed {
    pin: Option<Pin>,
    trust: SourceTrust,
    changes: Vec<PinChange>,
}

impl Followed {
    fn new(trust: SourceTrust) -> Self {
        Self { pin: None, trust, changes: Vec::new() }
    }

    /// Its source lists this definition; whether it may be called.
    fn see(&mut self, definition: u8) -> bool {
        let first = self.pin.is_none();
        if let Some(update) =
            observe_definition(self.pin.as_ref(), self.trust, seen(definition), first)
        {
            self.pin = Some(update.pin);
            self.changes.extend(update.change);
        }
        is_callable(self.pin.as_ref(), self.trust, digest(definition))
    }

    fn lose(&mut self) {
        self.pin = self.pin.as_ref().and_then(retire_pin).or(self.pin.take());
    }

    fn state(&self) -> PinState {
        self.pin.as_ref().unwrap().state
    }
}

#[test]
fn full_trust_takes_a_change_and_tells() {
    let mut tool = Followed::new(SourceTrust::Full);
    assert!(tool.see(1) && tool.see(1) && tool.see(2));
    assert_eq!(tool.changes, [PinChange::Activated, PinChange::Changed]);
    tool.pin = Some(tool.pin.unwrap().reject_definition(word(2)).unwrap());
    assert!(!is_callable(tool.pin.as_ref(), SourceTrust::Full, digest(2)));
    let mut tool = Followed { pin: tool.pin, ..Followed::new(SourceTrust::Full) };
    assert!(!tool.see(2), "what a person rejected stays out, whatever the trust");
    assert!(tool.see(3));
}

#[test]
fn first_use_holds_a_change_until_someone_agrees() {
    let mut tool = Followed::new(SourceTrust::FirstUse);
    assert!(tool.see(1));
    assert!(!tool.see(2));
    assert!(!is_callable(tool.pin.as_ref(), tool.trust, digest(1)), "neither is the old one");
    let pin = tool.pin.clone().unwrap();
    assert_eq!(pin.approve_definition(word(1)).unwrap_err(), PinDecisionError::DefinitionChanged);
    tool.pin = Some(pin.approve_definition(word(2)).unwrap());
    assert!(tool.see(2));
    assert!(!tool.see(1), "what was approved once is another definition now");
    assert_eq!(
        tool.changes,
        [PinChange::Activated, PinChange::Quarantined, PinChange::Quarantined]
    );
}

#[test]
fn review_lets_nothing_through() {
    let mut tool = Followed::new(SourceTrust::Review);
    assert!(!tool.see(1) && !tool.see(2) && !tool.see(2));
    assert_eq!(
        (tool.state(), tool.changes.as_slice()),
        (PinState::Pending, &[PinChange::Pending][..])
    );
    tool.pin = Some(tool.pin.unwrap().approve_definition(word(2)).unwrap());
    let mut tool = Followed { pin: tool.pin, ..Followed::new(SourceTrust::Review) };
    assert!(tool.see(2) && !tool.see(1));
    assert_eq!(
        tool.pin.unwrap().reject_definition(word(9)).unwrap_err(),
        PinDecisionError::DefinitionChanged
    );
}

#[test]
fn what_comes_after_the_first_sight_of_its_source_waits_and_so_does_what_hides_something() {
    let late = observe_definition(None, SourceTrust::FirstUse, seen(1), false).unwrap();
    assert_eq!((late.pin.state, late.change), (PinState::Pending, Some(PinChange::Pending)));
    let hides = ObservedDefinition { has_invisible_chars: true, ..seen(1) };
    let hiding = observe_definition(None, SourceTrust::FirstUse, hides, true).unwrap();
    assert_eq!(hiding.pin.state, PinState::Pending);
    let first = observe_definition(None, SourceTrust::FirstUse, seen(1), true).unwrap();
    assert_eq!(first.pin.state, PinState::Active, "the control");
}

#[test]
fn nothing_known_is_nothing_callable_without_full_trust() {
    assert!(is_callable(None, SourceTrust::Full, digest(1)));
    assert!(!is_callable(None, SourceTrust::FirstUse, digest(1)));
    assert!(!is_callable(None, SourceTrust::Review, digest(1)));
}

#[test]
fn a_rejected_definition_is_remembered_within_a_bound() {
    let mut tool = Followed::new(SourceTrust::Review);
    for definition in 0..40 {
        tool.see(definition);
        tool.pin = Some(tool.pin.unwrap().reject_definition(word(definition)).unwrap());
    }
    let pin = tool.pin.unwrap();
    assert_eq!((pin.rejected_digests.len(), pin.rejected_digests[15]), (16, digest(39)));
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
        for trust in [SourceTrust::FirstUse, SourceTrust::Review] {
            let mut tool = Followed::new(trust);
            // The reference: what a person agreed to, or the first sight; and whether something else
            // was seen since.
            let (mut agreed, mut disturbed) = (None, false);
            for step in &steps {
                match *step {
                    Step::See(definition) => {
                        if tool.pin.is_none() && trust == SourceTrust::FirstUse {
                            agreed = Some(definition);
                        }
                        disturbed |= agreed != Some(definition);
                        proptest::prop_assert_eq!(tool.see(definition), !disturbed);
                    }
                    Step::Lose => tool.lose(),
                    Step::Approve => {
                        let waits = tool.pin.as_ref().and_then(|pin| pin.pending.clone());
                        if let Some(waits) = waits {
                            let definition = waits.digest.0[0];
                            tool.pin = Some(tool.pin.unwrap().approve_definition(word(definition)).unwrap());
                            (agreed, disturbed) = (Some(definition), false);
                        }
                    }
                    Step::Reject => {
                        let pin = tool.pin.clone();
                        let definition = pin.as_ref().and_then(|pin| {
                            let active = pin.active.as_ref().filter(|_| pin.state == PinState::Active);
                            active.or(pin.pending.as_ref()).map(|seen| seen.digest.0[0])
                        });
                        if let Some(definition) = definition {
                            tool.pin = Some(pin.unwrap().reject_definition(word(definition)).unwrap());
                            (agreed, disturbed) = (None, true);
                        }
                    }
                }
            }
        }
    }
}
