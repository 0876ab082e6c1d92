//! Pins: the approved definition of each tool, and the state transitions when another definition is
//! observed.
//!
//! Pure functions: a pin, the source's trust and an observed definition give the next pin. The
//! repository of pins stores the result; only active definitions are callable.

mod definition_diff;

use serde::{Deserialize, Serialize};
use tool::{Digest, Json, SourceTrust, WallTime};

pub use definition_diff::{DefinitionChange, diff_definitions};

/// Maximum number of rejected definitions that are remembered per tool; the oldest is dropped
/// first.
const MAX_REJECTED: usize = 16;
/// Maximum number of former definitions that are stored per tool; the oldest is dropped first.
const MAX_FORMER: usize = 5;

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
    pub const fn needs_review(self) -> bool {
        matches!(self, Self::Pending | Self::Quarantined)
    }
}

/// A definition that was observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedDefinition {
    /// Digest, as [`definition_digest`](crate::definition_digest) computes it.
    #[serde(rename = "d")]
    pub digest: Digest,
    /// Time at which it was first observed or approved.
    #[serde(rename = "t")]
    pub observed_at: WallTime,
    /// Text as received, if it is stored, for a person to compare.
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub raw_definition: Option<Json>,
    /// True if it contains invisible characters.
    #[serde(rename = "h", default, skip_serializing_if = "std::ops::Not::not")]
    pub has_invisible_chars: bool,
}

/// Pin of one tool of one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// State of the pin.
    #[serde(rename = "s")]
    pub state: PinState,
    /// Definition that was approved last.
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub active: Option<ObservedDefinition>,
    /// Last observed definition, if it awaits review.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<ObservedDefinition>,
    /// Definitions that were active before, oldest first.
    #[serde(rename = "o", default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<ObservedDefinition>,
    /// Rejected definitions, oldest first.
    #[serde(rename = "n", default, skip_serializing_if = "Vec::is_empty")]
    pub rejected_digests: Vec<Digest>,
    /// Subject of the key that decided last.
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// Reason given for the decision.
    #[serde(rename = "y", default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Changes of a pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PinChange {
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
    Restored,
    /// A person approved the definition.
    Approved,
    /// A person rejected the definition.
    Rejected,
}

impl PinChange {
    /// Returns the word as recorded.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Activated => "pin_activated",
            Self::Pending => "pin_pending",
            Self::Quarantined => "pin_quarantined",
            Self::Changed => "pin_changed",
            Self::Retired => "pin_retired",
            Self::Restored => "pin_returned",
            Self::Approved => "pin_approved",
            Self::Rejected => "pin_rejected",
        }
    }
}

/// Next pin of a tool after its definition was observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinUpdate {
    /// Pin to store.
    pub pin: Pin,
    /// Change to report, if any.
    pub change: Option<PinChange>,
}

/// Returns true if this definition may be called, according to its pin and the source's trust.
pub fn is_callable(pin: Option<&Pin>, trust: SourceTrust, digest: Digest) -> bool {
    match pin {
        Some(pin) if trust == SourceTrust::Full => !pin.rejected_digests.contains(&digest),
        Some(pin) => pin.is_active_definition(digest),
        None => trust == SourceTrust::Full,
    }
}

/// Computes the next pin when a definition is observed; `None` if nothing changes. With
/// `is_first_listing`, the source was never listed before, so trust on first use applies.
pub fn observe_definition(
    pin: Option<&Pin>,
    trust: SourceTrust,
    observed: ObservedDefinition,
    is_first_listing: bool,
) -> Option<PinUpdate> {
    let Some(pin) = pin else { return Some(new_pin(trust, observed, is_first_listing)) };
    let is_active = pin.active.as_ref().is_some_and(|active| active.digest == observed.digest);
    if is_active && pin.state == PinState::Active {
        return None;
    }
    let mut next = pin.clone();
    if trust == SourceTrust::Full && !pin.rejected_digests.contains(&observed.digest) {
        next.state = PinState::Active;
        next.pending = None;
        next.replace_active(observed);
        let change = if is_active { PinChange::Restored } else { PinChange::Changed };
        return Some(PinUpdate { pin: next, change: Some(change) });
    }
    if is_active && pin.state == PinState::Retired {
        next.state = PinState::Active;
        return Some(PinUpdate { pin: next, change: Some(PinChange::Restored) });
    }
    if pin.state.needs_review()
        && pin.pending.as_ref().is_some_and(|old| old.digest == observed.digest)
    {
        return None;
    }
    let (state, change) = match pin.state {
        // A pin that awaits review keeps its state, with the new definition.
        PinState::Pending => (PinState::Pending, None),
        PinState::Quarantined => (PinState::Quarantined, None),
        PinState::Active | PinState::Retired => {
            (PinState::Quarantined, Some(PinChange::Quarantined))
        }
    };
    (next.state, next.pending) = (state, Some(observed));
    Some(PinUpdate { pin: next, change })
}

fn new_pin(trust: SourceTrust, seen: ObservedDefinition, first: bool) -> PinUpdate {
    let active = match trust {
        SourceTrust::Full => true,
        SourceTrust::FirstUse => first && !seen.has_invisible_chars,
        SourceTrust::Review => false,
    };
    let blank = Pin {
        state: PinState::Active,
        active: None,
        pending: None,
        former: Vec::new(),
        rejected_digests: Vec::new(),
        decided_by: None,
        reason: None,
    };
    if active {
        let pin = Pin { active: Some(seen), ..blank };
        PinUpdate { pin, change: Some(PinChange::Activated) }
    } else {
        let pin = Pin { state: PinState::Pending, pending: Some(seen), ..blank };
        PinUpdate { pin, change: Some(PinChange::Pending) }
    }
}

/// Retires the pin of a tool that its source no longer offers; `None` if nothing changes. A pin
/// that needs a review keeps its state, so that removing and re-adding a tool does not bypass the
/// review.
pub fn retire_pin(pin: &Pin) -> Option<Pin> {
    let active = pin.state == PinState::Active;
    active.then(|| Pin { state: PinState::Retired, ..pin.clone() })
}

/// Errors of a decision on a pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PinDecisionError {
    /// No definition awaits review.
    #[error("it has no pending definition")]
    NothingPending,
    /// Another definition awaits review than the one that was reviewed.
    #[error("the pending definition has changed since you read it")]
    DefinitionChanged,
}

/// Decision of a reviewer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinDecision {
    /// Definition that was reviewed.
    pub definition_digest: Digest,
    /// Subject of the reviewer.
    pub decided_by: String,
    /// Time of the decision.
    pub decided_at: WallTime,
    /// Reason of the decision.
    pub reason: Option<String>,
}

impl Pin {
    /// Returns true if this definition is the active one.
    pub fn is_active_definition(&self, digest: Digest) -> bool {
        let active = self.active.as_ref().filter(|_| self.state == PinState::Active);
        active.is_some_and(|active| active.digest == digest)
    }

    /// Returns the pin after the pending definition was approved.
    ///
    /// # Errors
    /// If no definition or another one awaits review.
    pub fn approve_definition(&self, decision: PinDecision) -> Result<Self, PinDecisionError> {
        let mut next = self.clone();
        let mut agreed = next.take_pending(decision.definition_digest)?;
        agreed.observed_at = decision.decided_at;
        next.rejected_digests.retain(|rejected| *rejected != decision.definition_digest);
        next.state = PinState::Active;
        next.replace_active(agreed);
        (next.decided_by, next.reason) = (Some(decision.decided_by), decision.reason);
        Ok(next)
    }

    /// Returns the pin after the pending definition was rejected, or the active one withdrawn.
    ///
    /// # Errors
    /// If neither is this definition.
    pub fn reject_definition(&self, decision: PinDecision) -> Result<Self, PinDecisionError> {
        let mut next = self.clone();
        if next.state == PinState::Active {
            next.pending = next.active.take();
        }
        let refused = next.take_pending(decision.definition_digest)?;
        next.rejected_digests.retain(|rejected| *rejected != decision.definition_digest);
        if next.rejected_digests.len() >= MAX_REJECTED {
            next.rejected_digests.remove(0);
        }
        next.rejected_digests.push(decision.definition_digest);
        (next.state, next.pending) = (PinState::Quarantined, Some(refused));
        (next.decided_by, next.reason) = (Some(decision.decided_by), decision.reason);
        Ok(next)
    }

    /// Makes a definition the active one, and keeps the one before it.
    fn replace_active(&mut self, active: ObservedDefinition) {
        let replaced = self.active.replace(active);
        let digest = self.active.as_ref().map(|active| active.digest);
        let Some(replaced) = replaced.filter(|replaced| Some(replaced.digest) != digest) else {
            return;
        };
        if self.former.len() >= MAX_FORMER {
            self.former.remove(0);
        }
        self.former.push(replaced);
    }

    fn take_pending(&mut self, definition: Digest) -> Result<ObservedDefinition, PinDecisionError> {
        match self.pending.take() {
            None => Err(PinDecisionError::NothingPending),
            Some(waiting) if waiting.digest != definition => {
                Err(PinDecisionError::DefinitionChanged)
            }
            Some(waiting) => Ok(waiting),
        }
    }
}

#[cfg(test)]
mod tests;
