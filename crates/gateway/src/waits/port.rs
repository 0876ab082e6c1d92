//! Ports of approvals: the current principal of a caller, and observers of approval events.

use std::fmt;

use identity::Principal;
use tool::{Caller, Wall};

use super::Shown;

/// Resolves the current principal of a caller.
pub trait Holders: Send + Sync + fmt::Debug {
    /// Returns the status of this caller's credential at `now`.
    fn holder(&self, caller: &Caller, now: Wall) -> Holder;

    /// Returns the principal as which stored work of this caller continues at `now`, with no more
    /// rights than `before`, which was verified earlier; `None` if the credential is no longer
    /// valid. Call it again each time that the work was suspended.
    fn renewed(&self, caller: &Caller, before: &Principal, now: Wall) -> Option<Principal> {
        match self.holder(caller, now) {
            Holder::Holds(principal) => {
                let narrowing = before.rights().narrowing();
                Some(principal.lowered(before.level()).narrowed(narrowing))
            }
            Holder::Gone => None,
            // Only its expiry is known here.
            Holder::Elsewhere => {
                before.until().is_none_or(|until| now < until).then(|| before.clone())
            }
        }
    }
}

/// Status of a caller's credential.
#[derive(Debug, Clone)]
pub enum Holder {
    /// The credential is valid.
    Holds(Principal),
    /// The credential was revoked, has expired, or belongs to another caller.
    Gone,
    /// The credential is not stored here: the caller must present it again.
    Elsewhere,
}

/// Observes approval events. Called on the call path: it must not block, and may drop events.
pub trait Herald: Send + Sync + fmt::Debug {
    /// Notifies of an event of an approval.
    fn tell(&self, event: &Event);
}

/// An event of an approval.
#[derive(Debug, Clone)]
pub struct Event {
    /// Kind of the event.
    pub heard: Heard,
    /// Approval after the event.
    pub shown: Shown,
}

/// Kinds of approval events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// An approval is requested, and somebody has to decide.
    Held,
    /// The approval was decided, edited, or has expired.
    Changed,
}

/// Notifies nobody and stores no credential.
#[derive(Debug, Clone, Copy)]
pub struct Nobody;

impl Herald for Nobody {
    fn tell(&self, _: &Event) {}
}

impl Holders for Nobody {
    fn holder(&self, _: &Caller, _: Wall) -> Holder {
        Holder::Elsewhere
    }
}
