//! Pins: which definition of a tool was agreed to, and what becomes of another one.
//!
//! Pure: one function from a pin, the source's trust and what was seen to the next pin. Whoever keeps
//! pins asks here and writes down the answer; nothing is callable that is not active.

mod changes;

use serde::{Deserialize, Serialize};
use tool::{Digest, Json, Trust, Wall};

pub use changes::{Difference, between};

/// So many rejected definitions are remembered of one tool; the oldest is forgotten first.
const REJECTED: usize = 16;

/// How a pin stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PinState {
    /// It was seen, and nobody has looked at it.
    Pending,
    /// Its definition may be called.
    Active,
    /// Its definition changed, or was rejected.
    Quarantined,
    /// It was active, and its source offers it no more.
    Retired,
}

impl PinState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Active, Self::Quarantined, Self::Retired];

    /// The word, as it stands in answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Active => "active",
            Self::Quarantined => "quarantined",
            Self::Retired => "retired",
        }
    }

    /// Whether it waits for a person.
    pub const fn waits(self) -> bool {
        matches!(self, Self::Pending | Self::Quarantined)
    }
}

/// A definition that was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sighting {
    /// Its hash, as [`crate::canonical::digest`] makes it.
    #[serde(rename = "d")]
    pub digest: Digest,
    /// When it was first seen, or agreed to.
    #[serde(rename = "t")]
    pub at: Wall,
    /// The text as received, where it is kept: a person compares it.
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub received: Option<Json>,
    /// Whether it holds characters that nobody sees.
    #[serde(rename = "h", default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
}

/// What is kept of one tool of one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// How it stands.
    #[serde(rename = "s")]
    pub state: PinState,
    /// What was agreed to last.
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub active: Option<Sighting>,
    /// What was seen last, where that waits for a person.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Sighting>,
    /// What was rejected, oldest first.
    #[serde(rename = "n", default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<Digest>,
    /// Who decided last: the subject of a key.
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why, in their words.
    #[serde(rename = "y", default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What happened to a pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Change {
    /// First seen, and active at once.
    Activated,
    /// First seen, and waiting.
    Pending,
    /// Another definition than the active one.
    Quarantined,
    /// Another definition, taken because the source has full trust.
    Changed,
    /// Its source offers it no more.
    Retired,
    /// Its source offers the active definition again.
    Returned,
    /// A person agreed.
    Approved,
    /// A person did not.
    Rejected,
}

impl Change {
    /// The word in the record.
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

/// Whether this definition of a tool may be called: what its pin says, or nothing where there is none.
pub fn callable(pin: Option<&Pin>, trust: Trust, digest: Digest) -> bool {
    match pin {
        Some(pin) if trust == Trust::Full => !pin.rejected.contains(&digest),
        Some(pin) => pin.is_at(digest),
        None => trust == Trust::Full,
    }
}

/// What becomes of a pin when a definition is seen; `None` where nothing does. `first` says that
/// nothing at all is known of the source: what it shows then is its first sight.
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
        // What waits goes on waiting, as whatever it now is.
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

/// The pin of a tool that its source offers no more; `None` where nothing changes. What waits for a
/// person goes on waiting: going away is no way out.
pub fn gone(pin: &Pin) -> Option<Pin> {
    let active = pin.state == PinState::Active;
    active.then(|| Pin { state: PinState::Retired, ..pin.clone() })
}

/// Why a pin cannot be decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Undecided {
    /// Nothing waits.
    #[error("nothing of it waits for a decision")]
    Nothing,
    /// Something else waits than was looked at.
    #[error("another definition waits now than the one that was looked at")]
    Other,
}

/// A person's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The definition that was looked at.
    pub definition: Digest,
    /// Who.
    pub by: String,
    /// When.
    pub at: Wall,
    /// Why.
    pub reason: Option<String>,
}

impl Pin {
    /// Whether this definition is the active one.
    pub fn is_at(&self, digest: Digest) -> bool {
        let active = self.active.as_ref().filter(|_| self.state == PinState::Active);
        active.is_some_and(|active| active.digest == digest)
    }

    /// The pin after someone agreed to what waits.
    ///
    /// # Errors
    /// Where nothing waits, or something else.
    pub fn approved(&self, word: Word) -> Result<Self, Undecided> {
        let mut next = self.clone();
        let mut agreed = next.waited(word.definition)?;
        agreed.at = word.at;
        next.rejected.retain(|rejected| *rejected != word.definition);
        (next.state, next.active) = (PinState::Active, Some(agreed));
        (next.by, next.reason) = (Some(word.by), word.reason);
        Ok(next)
    }

    /// The pin after someone refused what waits, or withdrew what is active.
    ///
    /// # Errors
    /// Where neither is this definition.
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
