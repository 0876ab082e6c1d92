//! What the waits need from outside: who a caller is now, and who hears of them.

use std::fmt;

use identity::Principal;
use tool::{Caller, Wall};

use super::Shown;

/// Tells who the holder of a credential is now.
pub trait Holders: Send + Sync + fmt::Debug {
    /// The principal that this caller's credential makes at `now`.
    fn holder(&self, caller: &Caller, now: Wall) -> Holder;

    /// The principal for whom stored work of this caller goes on at `now`, with no more than `before`, which
    /// was verified earlier; nothing where the credential does not hold any more. To be asked again each time
    /// that work has waited.
    fn renewed(&self, caller: &Caller, before: &Principal, now: Wall) -> Option<Principal> {
        match self.holder(caller, now) {
            Holder::Holds(principal) => {
                let narrowing = before.rights().narrowing();
                Some(principal.lowered(before.level()).narrowed(narrowing))
            }
            Holder::Gone => None,
            // Only its end is known here.
            Holder::Elsewhere => {
                before.until().is_none_or(|until| now < until).then(|| before.clone())
            }
        }
    }
}

/// A caller's credential, as it stands.
#[derive(Debug, Clone)]
pub enum Holder {
    /// It holds.
    Holds(Principal),
    /// It was taken back, has expired, or is another's.
    Gone,
    /// It is not kept here: the caller must bring it again.
    Elsewhere,
}

/// Hears of held calls. Called on the path of a call: it must not wait, and may lose what it is told.
pub trait Herald: Send + Sync + fmt::Debug {
    /// Something happened to a held call.
    fn tell(&self, event: &Event);
}

/// Something that happened to a held call.
#[derive(Debug, Clone)]
pub struct Event {
    /// What.
    pub heard: Heard,
    /// The call as it stands after it.
    pub shown: Shown,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// It is held, and somebody has to decide.
    Held,
    /// It was decided, changed, or has expired.
    Changed,
}

/// Nobody is told, and no credential is kept here.
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
