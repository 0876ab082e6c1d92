//! Listing pins and deciding on them.

use catalog::pin::{PinChange, PinDecision, PinDecisionError};
use catalog::{Pin, PinState};
use tool::ledger::AuditEventRecord;
use tool::{Caller, Digest, LedgerError, SourceName, StoreError, ToolName};

use super::pin_store::shard_index;
use super::{MAX_WRITE_ATTEMPTS, PinRegistry};

/// A pin with its source and tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinEntry {
    /// Name of the source.
    pub source: SourceName,
    /// Name of the tool.
    pub tool_name: ToolName,
    /// The pin itself, without texts in lists.
    pub pin: Pin,
}

/// Verdict of a reviewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinVerdict {
    /// The definition may be called.
    Approve,
    /// The definition may not be called.
    Reject,
}

/// Review of a pin: which definition was reviewed, with which verdict.
#[derive(Debug, Clone)]
pub struct PinReview<'a> {
    /// Verdict on the definition.
    pub verdict: PinVerdict,
    /// Digest of the definition that was reviewed.
    pub definition_digest: Digest,
    /// Caller who reviewed it.
    pub reviewer: &'a Caller,
    /// Reason of the verdict.
    pub reason: Option<String>,
}

/// Errors of deciding on a pin.
#[derive(Debug, thiserror::Error)]
pub enum DecidePinError {
    /// The pin does not exist.
    #[error("no pin of the tool `{tool}` of the source `{source_name}`")]
    NotFound {
        /// Name of the source.
        source_name: SourceName,
        /// Name of the tool.
        tool: ToolName,
    },
    /// The pin changed since it was reviewed.
    #[error(transparent)]
    NotDecidable(#[from] PinDecisionError),
    /// The store operation failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The decision cannot be recorded, and so was not applied.
    #[error(transparent)]
    Record(#[from] LedgerError),
}

impl PinRegistry {
    /// Lists the matching pins by source and tool, without texts.
    pub fn list_pins(&self, source: Option<&SourceName>, state: Option<PinState>) -> Vec<PinEntry> {
        let sources = self.pin_store.known_sources().into_iter();
        let sources = sources.filter(|name| source.is_none_or(|only| only == name));
        let of = |source: SourceName| {
            let mut found: Vec<_> = self.pin_store.with_pins(&source, |pins| {
                let fits = pins.iter().filter(|(_, pin)| state.is_none_or(|s| s == pin.state));
                fits.map(|(tool, pin)| (tool.clone(), pin.clone())).collect()
            });
            found.sort_unstable_by(|a: &(ToolName, Pin), b| a.0.cmp(&b.0));
            found.into_iter().map(move |(tool, pin)| PinEntry {
                source: source.clone(),
                tool_name: tool,
                pin,
            })
        };
        sources.flat_map(of).collect()
    }

    /// Returns the number of pins that need a review.
    pub fn review_count(&self, source: &SourceName) -> usize {
        self.pin_store
            .with_pins(source, |pins| pins.values().filter(|pin| pin.state.needs_review()).count())
    }

    /// Returns one pin with its texts.
    ///
    /// # Errors
    /// If it does not exist, or the store does not respond.
    pub async fn get_pin(
        &self,
        source: &SourceName,
        tool: &ToolName,
    ) -> Result<Pin, DecidePinError> {
        let (_, mut pins) = self.pin_store.read_row(source, shard_index(tool)).await?;
        pins.remove(tool).ok_or_else(|| no_such_pin(source, tool))
    }

    /// Decides on a reviewed definition. Recorded before it applies.
    ///
    /// # Errors
    /// If the pin changed, the decision cannot be recorded, or the store does not respond.
    pub async fn decide_pin(
        &self,
        source: &SourceName,
        tool: &ToolName,
        review: PinReview<'_>,
    ) -> Result<Pin, DecidePinError> {
        let shard = shard_index(tool);
        let PinReview { verdict, definition_digest, reviewer, reason } = review;
        let word = PinDecision {
            definition_digest,
            decided_by: reviewer.subject.clone(),
            decided_at: self.clock.wall_now(),
            reason: reason.clone(),
        };
        let mut tries = 0;
        loop {
            let (version, mut pins) = self.pin_store.read_row(source, shard).await?;
            let old = pins.get(tool).ok_or_else(|| no_such_pin(source, tool))?;
            let (pin, change) = match verdict {
                PinVerdict::Approve => (old.approve_definition(word.clone())?, PinChange::Approved),
                PinVerdict::Reject => (old.reject_definition(word.clone())?, PinChange::Rejected),
            };
            if tries == 0 {
                self.audit_log.record_event(&AuditEventRecord {
                    recorded_at: word.decided_at,
                    org: self.org.clone(),
                    kind: change.as_str().to_owned(),
                    changed_by: Some(reviewer.clone()),
                    source: Some(source.clone()),
                    tool: Some(tool.clone()),
                    digest_before: old.active.as_ref().map(|active| active.digest),
                    digest_after: Some(definition_digest),
                    comment: reason.clone(),
                })?;
            }
            pins.insert(tool.clone(), pin.clone());
            match self.pin_store.write_row(source, shard, (version, pins)).await {
                Ok(()) => return Ok(pin),
                Err(StoreError::Conflict { .. }) if tries < MAX_WRITE_ATTEMPTS => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn no_such_pin(source: &SourceName, tool: &ToolName) -> DecidePinError {
    DecidePinError::NotFound { source_name: source.clone(), tool: tool.clone() }
}
