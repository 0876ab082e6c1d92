//! Feedback of calls: queued on the path of a call, and written to the store in the background.

use std::collections::VecDeque;
use std::sync::{MutexGuard, PoisonError};

use identity::Principal;
use search::{CallerHashes, MIN_IDLE_DAYS};
use tool::{StoreError, ToolKey};

use super::SearchLearning;
use super::evidence_rows::MAX_ORGS;
use super::identity_hashes::OrgTag;

/// Maximum number of calls that wait to be learned; further ones teach nothing.
const MAX_FEEDBACK: usize = 1_024;
/// Maximum number of attempts to learn from a call.
const MAX_ATTEMPTS: u8 = 3;
/// Maximum number of failures after which the other calls wait for the next time: the store may be unavailable.
const MAX_FAILURES: usize = 16;

/// A successful call of a tool that a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CallFeedback {
    pub(super) org: OrgTag,
    pub(super) tool: ToolKey,
    pub(super) stems: Vec<u64>,
    pub(super) caller: CallerHashes,
    /// Number of attempts that failed.
    pub(super) attempts: u8,
}

impl SearchLearning {
    pub(super) fn lock_feedback(&self) -> MutexGuard<'_, VecDeque<CallFeedback>> {
        self.feedback.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues what a successful call teaches.
    pub(super) fn queue_feedback(&self, principal: &Principal, tool: &ToolKey) {
        let Some(org) = self.learning_org(principal) else { return };
        let caller = self.hasher.caller_hash(principal);
        let now = self.clock.monotonic_now();
        let stems = self.lock_recent().take_stems(caller, tool, now);
        if stems.is_empty() {
            return;
        }
        let caller = self.hasher.caller_hashes(principal);
        let mut queue = self.lock_feedback();
        if queue.len() < MAX_FEEDBACK {
            queue.push_back(CallFeedback { org, tool: tool.clone(), stems, caller, attempts: 0 });
            self.feedback_added.notify_one();
        }
    }

    /// Writes what the queued calls teach. A call that cannot be written waits behind the others, and is dropped after
    /// some attempts.
    ///
    /// # Errors
    /// The first [`StoreError`], after the other calls were written.
    pub async fn flush_feedback(&self) -> Result<(), StoreError> {
        let waiting = self.lock_feedback().len();
        let (mut failures, mut result) = (0, Ok(()));
        for _ in 0..waiting {
            let next = self.lock_feedback().pop_front();
            let Some(feedback) = next else { break };
            let Err(error) = self.write_feedback(&feedback).await else { continue };
            self.retry_later(feedback, &error);
            result = result.and(Err(error));
            failures += 1;
            if failures >= MAX_FAILURES {
                break;
            }
        }
        result
    }

    /// Queues a call again that could not be written.
    fn retry_later(&self, mut feedback: CallFeedback, error: &StoreError) {
        feedback.attempts += 1;
        if feedback.attempts < MAX_ATTEMPTS {
            self.lock_feedback().push_back(feedback);
            return;
        }
        let tool = feedback.tool.name.as_str();
        tracing::warn!(%error, tool, "tool search does not learn from a call that it cannot keep");
    }

    async fn write_feedback(&self, feedback: &CallFeedback) -> Result<(), StoreError> {
        let CallFeedback { org, tool, stems, caller, .. } = feedback;
        let today = self.today();
        if !self.teaches_anything(feedback, today) {
            return Ok(());
        }
        if !self.evict_oldest_org(*org, today).await {
            tracing::debug!("no further organisation learns: none is without calls for days");
            return Ok(());
        }
        self.update_row(*org, tool, |evidence| {
            let is_shorter = evidence.remove_expired(today);
            evidence.add_call(stems, *caller, today) || is_shorter
        })
        .await?;
        self.evict_excess_tools(*org).await;
        Ok(())
    }

    /// Returns whether a call changes anything, so that the store is not read for one that is known.
    fn teaches_anything(&self, feedback: &CallFeedback, today: u32) -> bool {
        let evidence = self.read_evidence();
        let known = evidence.get(&feedback.org).and_then(|org| org.tool(&feedback.tool));
        let mut known = known.cloned().unwrap_or_default();
        let is_shorter = known.remove_expired(today);
        known.add_call(&feedback.stems, feedback.caller, today) || is_shorter
    }

    /// Removes the evidence of the organisations without a call for the longest time, until another one fits. Returns
    /// false if it does not fit, because all had calls in the last days.
    async fn evict_oldest_org(&self, org: OrgTag, today: u32) -> bool {
        loop {
            let oldest = {
                let evidence = self.read_evidence();
                if evidence.len() < MAX_ORGS || evidence.contains_key(&org) {
                    return true;
                }
                evidence.iter().map(|(org, it)| (it.last_day(), *org)).min()
            };
            let Some((last_day, oldest)) = oldest else { return true };
            if today.saturating_sub(last_day) < MIN_IDLE_DAYS {
                return false;
            }
            for tool in self.tools_of_org(oldest) {
                self.remove_tool(oldest, &tool).await;
            }
        }
    }
}
