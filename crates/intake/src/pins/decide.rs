//! What a person sees of pins, and decides.

use catalog::pin::{Change, Undecided, Word};
use catalog::{Pin, PinState};
use tool::ledger::Event;
use tool::{Caller, Digest, LedgerError, SourceName, StoreError, ToolName};

use super::book::shard_of;
use super::{Pins, TRIES};

/// A pin and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pinned {
    /// The source.
    pub source: SourceName,
    /// The tool.
    pub tool: ToolName,
    /// The pin. In lists without texts.
    pub pin: Pin,
}

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It may be called.
    Approve,
    /// It may not.
    Reject,
}

/// Why nothing was decided.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// No such pin.
    #[error("there is no pin of `{tool}` of source `{source_name}`")]
    Missing {
        /// The source.
        source_name: SourceName,
        /// The tool.
        tool: ToolName,
    },
    /// It is not as it was when it was looked at.
    #[error(transparent)]
    Undecided(#[from] Undecided),
    /// The store did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It cannot be recorded, and so it was not done.
    #[error(transparent)]
    Record(#[from] LedgerError),
}

impl Pins {
    /// All pins that fit, by source and tool, without texts.
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

    /// How many wait for a person.
    pub fn waiting(&self, source: &SourceName) -> usize {
        self.book.reading(source, |pins| pins.values().filter(|pin| pin.state.waits()).count())
    }

    /// One pin with its texts.
    ///
    /// # Errors
    /// Where there is none, or the store does not answer.
    pub async fn show(&self, source: &SourceName, tool: &ToolName) -> Result<Pin, DecideError> {
        let (_, mut pins) = self.book.read(source, shard_of(tool)).await?;
        pins.remove(tool).ok_or_else(|| missing(source, tool))
    }

    /// Decides on a definition that was looked at. On record before it counts.
    ///
    /// # Errors
    /// Where it is not as it was, where it cannot be recorded, or where the store does not answer.
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
