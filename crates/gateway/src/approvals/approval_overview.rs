//! Overviews of stored calls for a person: how many wait, and the last approved one of a tool.

use identity::Principal;
use tool::call_outcome::CallFailure;
use tool::{CallId, CallerType, Org, ToolKey, WallTime};

use super::approval_index::ApprovalPhase;
use super::{ApprovalDetails, ApprovalState};
use crate::Gateway;

/// Maximum number of stored calls that are read to find an approved one.
const MAX_READ_CALLS: usize = 50;

/// The calls that wait for an approval, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingCallCount {
    /// Number of calls.
    pub count: usize,
    /// When the oldest was requested, if it is still stored.
    pub oldest_at: Option<WallTime>,
}

impl Gateway {
    /// Counts the pending calls that this principal may see.
    ///
    /// # Errors
    /// If the store does not respond.
    pub async fn count_pending_calls(
        &self,
        principal: &Principal,
    ) -> Result<PendingCallCount, CallFailure> {
        let none = PendingCallCount { count: 0, oldest_at: None };
        let Some(approvals) = &self.approvals else { return Ok(none) };
        let scope = self.approver_scope(principal);
        let sees = |org: &Org, (tool, by): &(ToolKey, CallerType)| scope.is_visible(org, tool, *by);
        let ids = approvals
            .index
            .list_ids((principal.caller(), sees), |_, phase, _| phase == ApprovalPhase::Pending);
        let Some(oldest) = ids.last() else { return Ok(none) };
        let oldest = approvals.read_approval(*oldest).await?;
        let oldest_at = oldest.map(|read| read.approval.created_at);
        Ok(PendingCallCount { count: ids.len(), oldest_at })
    }

    /// Returns the newest call of the same tool before this one that was approved, if the principal
    /// may see it. Looks at no more than 50 calls.
    ///
    /// # Errors
    /// [`tool::ErrorCode::NotFound`] for unknown and for invisible calls; an error of the store.
    pub async fn last_approved_call(
        &self,
        principal: &Principal,
        id: CallId,
    ) -> Result<Option<ApprovalDetails>, CallFailure> {
        let (approvals, current) = self.load_visible(principal, id).await?;
        let tool_key = &current.approval.tool_key;
        let scope = self.approver_scope(principal);
        let sees = |org: &Org, (tool, by): &(ToolKey, CallerType)| scope.is_visible(org, tool, *by);
        let is_former =
            |other: CallId, _: ApprovalPhase, tool: &ToolKey| other < id && tool == tool_key;
        let ids = approvals.index.list_ids((principal.caller(), sees), is_former);
        for id in ids.into_iter().take(MAX_READ_CALLS) {
            let Some(read) = approvals.read_approval(id).await? else { continue };
            if was_approved(read.approval.state) {
                return Ok(Some(ApprovalDetails::from_stored(&read.approval)));
            }
        }
        Ok(None)
    }
}

const fn was_approved(state: ApprovalState) -> bool {
    match state {
        ApprovalState::Approved | ApprovalState::Consumed | ApprovalState::Done => true,
        ApprovalState::Pending
        | ApprovalState::Denied
        | ApprovalState::Expired
        | ApprovalState::Void => false,
    }
}
