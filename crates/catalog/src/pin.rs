//! Pins: the approved definition of each tool, and the state transitions when another definition is
//! observed.
//!
//! Pure functions: a pin, the source's trust and an observed definition give the next pin. The
//! repository of pins stores the result; only active definitions are callable.

mod changes;

use serde::{Deserialize, Serialize};
use tool::{Digest, Json, Trust, Wall};

pub use changes::{Difference, between};

/// Maximum number of rejected definitions that are remembered per tool; the oldest is dropped
/// first.
const REJECTED: usize = 16;

/// States of a pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PinState {
    /// The definition was observed and awaits review.
    Pending,
    /// The definition is active and callable.
    Active,
    /// The definition changed or was rejected.
    Quarantined,
    /// The definition was active, and the source no longer offers it.
    Retired,
}

impl PinState {
    /// Every state of a pin.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Active, Self::Quarantined, Self::Retired];

    /// Returns the word as it appears in responses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Active => "active",
            Self::Quarantined => "quarantined",
            Self::Retired => "retired",
        }
    }

    /// Returns true if a person must review it.
    pub const fn waits(self) -> bool {
        matches!(self, Self::Pending | Self::Quarantined)
    }
}

/// A definition that was observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sighting {
    /// Digest, as [`crate::canonical::digest`] computes it.
    #[serde(rename = "d")]
    pub digest: Digest,
    /// Time at which it was first observed or approved.
    #[serde(rename = "t")]
    pub at: Wall,
    /// Text as received, if it is stored, for a person to compare.
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub received: Option<Json>,
    /// True if it contains invisible characters.
    #[serde(rename = "h", default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
}

/// Pin of one tool of one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// State of the pin.
    #[serde(rename = "s")]
    pub state: PinState,
    /// Definition that was approved last.
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub active: Option<Sighting>,
    /// Last observed definition, if it awaits review.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Sighting>,
    /// Rejected definitions, oldest first.
    #[serde(rename = "n", default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<Digest>,
    /// Subject of the key that decided last.
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Reason given for the decision.
    #[serde(rename = "y", default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Changes of a pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Change {
    /// First observed, and active at once.
    Activated,
    /// First observed, and awaiting review.
    Pending,
    /// A definition other than the active one was observed.
    Quarantined,
    /// Another definition was accepted because the source has full trust.
    Changed,
    /// The source no longer offers it.
    Retired,
    /// The source offers the active definition again.
    Returned,
    /// A person approved the definition.
    Approved,
    /// A person rejected the definition.
    Rejected,
}

impl Change {
    /// Returns the word as recorded.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Activated => "pin_activated",
            Self::Pending => "pin_pending",
            Self::Quarantined => "pin_quarantined",
            Self::Changed => "pin_changed",
            Self::Retired => "pin_retired",
            Self::Returned => "pin_returned",
            Self::Approved => "pin_approved",
            Self::Rejected => "pin_rejected",
        }
    }
}

/// Returns true if this definition may be called, according to its pin and the source's trust.
pub fn callable(pin: Option<&Pin>, trust: Trust, digest: Digest) -> bool {
    match pin {
        Some(pin) if trust == Trust::Full => !pin.rejected.contains(&digest),
        Some(pin) => pin.is_at(digest),
        None => trust == Trust::Full,
    }
}

/// Computes the next pin when a definition is observed; `None` if nothing changes. `first` means
/// that the source was never listed before, so trust on first use applies.
pub fn see(
    pin: Option<&Pin>,
    trust: Trust,
    seen: Sighting,
    first: bool,
) -> Option<(Pin, Option<Change>)> {
    let Some(pin) = pin else { return Some(first_seen(trust, seen, first)) };
    let is_active = pin.active.as_ref().is_some_and(|active| active.digest == seen.digest);
    if is_active && pin.state == PinState::Active {
        return None;
    }
    let mut next = pin.clone();
    if trust == Trust::Full && !pin.rejected.contains(&seen.digest) {
        next.state = PinState::Active;
        next.waiting = None;
        next.active = Some(seen);
        return Some((next, Some(if is_active { Change::Returned } else { Change::Changed })));
    }
    if is_active && pin.state == PinState::Retired {
        next.state = PinState::Active;
        return Some((next, Some(Change::Returned)));
    }
    if pin.state.waits() && pin.waiting.as_ref().is_some_and(|old| old.digest == seen.digest) {
        return None;
    }
    let (state, change) = match pin.state {
        // A pin that awaits review keeps its state, with the new definition.
        PinState::Pending => (PinState::Pending, None),
        PinState::Quarantined => (PinState::Quarantined, None),
        PinState::Active | PinState::Retired => (PinState::Quarantined, Some(Change::Quarantined)),
    };
    (next.state, next.waiting) = (state, Some(seen));
    Some((next, change))
}

fn first_seen(trust: Trust, seen: Sighting, first: bool) -> (Pin, Option<Change>) {
    let active = match trust {
        Trust::Full => true,
        Trust::FirstUse => first && !seen.hidden,
        Trust::Review => false,
    };
    let blank = Pin {
        state: PinState::Active,
        active: None,
        waiting: None,
        rejected: Vec::new(),
        by: None,
        reason: None,
    };
    if active {
        (Pin { active: Some(seen), ..blank }, Some(Change::Activated))
    } else {
        let pin = Pin { state: PinState::Pending, waiting: Some(seen), ..blank };
        (pin, Some(Change::Pending))
    }
}

/// Retires the pin of a tool that its source no longer offers; `None` if nothing changes. A pin
/// that needs a review keeps its state, so that removing and re-adding a tool does not bypass the
/// review.
pub fn gone(pin: &Pin) -> Option<Pin> {
    let active = pin.state == PinState::Active;
    active.then(|| Pin { state: PinState::Retired, ..pin.clone() })
}

/// Errors of a decision on a pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Undecided {
    /// No definition awaits review.
    #[error("nothing of it waits for a decision")]
    Nothing,
    /// Another definition awaits review than the one that was reviewed.
    #[error("another definition waits now than the one that was looked at")]
    Other,
}

/// Decision of a reviewer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// Definition that was reviewed.
    pub definition: Digest,
    /// Subject of the reviewer.
    pub by: String,
    /// Time of the decision.
    pub at: Wall,
    /// Reason of the decision.
    pub reason: Option<String>,
}

impl Pin {
    /// Returns true if this definition is the active one.
    pub fn is_at(&self, digest: Digest) -> bool {
        let active = self.active.as_ref().filter(|_| self.state == PinState::Active);
        active.is_some_and(|active| active.digest == digest)
    }

    /// Returns the pin after the pending definition was approved.
    ///
    /// # Errors
    /// If no definition or another one awaits review.
    pub fn approved(&self, word: Word) -> Result<Self, Undecided> {
        let mut next = self.clone();
        let mut agreed = next.waited(word.definition)?;
        agreed.at = word.at;
        next.rejected.retain(|rejected| *rejected != word.definition);
        (next.state, next.active) = (PinState::Active, Some(agreed));
        (next.by, next.reason) = (Some(word.by), word.reason);
        Ok(next)
    }

    /// Returns the pin after the pending definition was rejected, or the active one withdrawn.
    ///
    /// # Errors
    /// If neither is this definition.
    pub fn rejected(&self, word: Word) -> Result<Self, Undecided> {
        let mut next = self.clone();
        if next.state == PinState::Active {
            next.waiting = next.active.take();
        }
        let refused = next.waited(word.definition)?;
        next.rejected.retain(|rejected| *rejected != word.definition);
        if next.rejected.len() >= REJECTED {
            next.rejected.remove(0);
        }
        next.rejected.push(word.definition);
        (next.state, next.waiting) = (PinState::Quarantined, Some(refused));
        (next.by, next.reason) = (Some(word.by), word.reason);
        Ok(next)
    }

    fn waited(&mut self, definition: Digest) -> Result<Sighting, Undecided> {
        match self.waiting.take() {
            None => Err(Undecided::Nothing),
            Some(waiting) if waiting.digest != definition => Err(Undecided::Other),
            Some(waiting) => Ok(waiting),
        }
    }
}

#[cfg(test)]
mod tests;
