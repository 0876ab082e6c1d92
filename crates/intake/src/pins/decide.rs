//! Listing pins and deciding on them.

use catalog::pin::{Change, Undecided, Word};
use catalog::{Pin, PinState};
use tool::ledger::Event;
use tool::{Caller, Digest, LedgerError, SourceName, StoreError, ToolName};

use super::book::shard_of;
use super::{Pins, TRIES};

/// A pin with its source and tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pinned {
    /// Name of the source.
    pub source: SourceName,
    /// Name of the tool.
    pub tool: ToolName,
    /// The pin itself, without texts in lists.
    pub pin: Pin,
}

/// Verdict of a reviewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The definition may be called.
    Approve,
    /// The definition may not be called.
    Reject,
}

/// Errors of deciding on a pin.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// The pin does not exist.
    #[error("there is no pin of `{tool}` of source `{source_name}`")]
    Missing {
        /// Name of the source.
        source_name: SourceName,
        /// Name of the tool.
        tool: ToolName,
    },
    /// The pin changed since it was reviewed.
    #[error(transparent)]
    Undecided(#[from] Undecided),
    /// The store operation failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The decision cannot be recorded, and so was not applied.
    #[error(transparent)]
    Record(#[from] LedgerError),
}

impl Pins {
    /// Lists the matching pins by source and tool, without texts.
    pub fn list(&self, source: Option<&SourceName>, state: Option<PinState>) -> Vec<Pinned> {
        let sources = self.book.sources().into_iter();
        let sources = sources.filter(|name| source.is_none_or(|only| only == name));
        let of = |source: SourceName| {
            let mut found: Vec<_> = self.book.reading(&source, |pins| {
                let fits = pins.iter().filter(|(_, pin)| state.is_none_or(|s| s == pin.state));
                fits.map(|(tool, pin)| (tool.clone(), pin.clone())).collect()
            });
            found.sort_unstable_by(|a: &(ToolName, Pin), b| a.0.cmp(&b.0));
            found.into_iter().map(move |(tool, pin)| Pinned { source: source.clone(), tool, pin })
        };
        sources.flat_map(of).collect()
    }

    /// Returns the number of pins that need a review.
    pub fn waiting(&self, source: &SourceName) -> usize {
        self.book.reading(source, |pins| pins.values().filter(|pin| pin.state.waits()).count())
    }

    /// Returns one pin with its texts.
    ///
    /// # Errors
    /// If it does not exist, or the store does not respond.
    pub async fn show(&self, source: &SourceName, tool: &ToolName) -> Result<Pin, DecideError> {
        let (_, mut pins) = self.book.read(source, shard_of(tool)).await?;
        pins.remove(tool).ok_or_else(|| missing(source, tool))
    }

    /// Decides on a reviewed definition. Recorded before it applies.
    ///
    /// # Errors
    /// If the pin changed, the decision cannot be recorded, or the store does not respond.
    pub async fn decide(
        &self,
        (source, tool): (&SourceName, &ToolName),
        (decision, definition): (Decision, Digest),
        (by, reason): (&Caller, Option<String>),
    ) -> Result<Pin, DecideError> {
        let shard = shard_of(tool);
        let word = Word {
            definition,
            by: by.subject.clone(),
            at: self.clock.wall(),
            reason: reason.clone(),
        };
        let mut tries = 0;
        loop {
            let (version, mut pins) = self.book.read(source, shard).await?;
            let old = pins.get(tool).ok_or_else(|| missing(source, tool))?;
            let (pin, change) = match decision {
                Decision::Approve => (old.approved(word.clone())?, Change::Approved),
                Decision::Reject => (old.rejected(word.clone())?, Change::Rejected),
            };
            if tries == 0 {
                self.events.note(&Event {
                    at: word.at,
                    org: self.org.clone(),
                    event: change.as_str().to_owned(),
                    by: Some(by.clone()),
                    source: Some(source.clone()),
                    tool: Some(tool.clone()),
                    before: old.active.as_ref().map(|active| active.digest),
                    after: Some(definition),
                    note: reason.clone(),
                })?;
            }
            pins.insert(tool.clone(), pin.clone());
            match self.book.put(source, shard, (version, pins)).await {
                Ok(()) => return Ok(pin),
                Err(StoreError::Conflict { .. }) if tries < TRIES => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn missing(source: &SourceName, tool: &ToolName) -> DecideError {
    DecideError::Missing { source_name: source.clone(), tool: tool.clone() }
}
