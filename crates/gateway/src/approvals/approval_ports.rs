//! Ports of approvals: the current principal of a caller, and observers of approval events.

use std::fmt;

use identity::Principal;
use tool::{Caller, CallerType, ToolKey, WallTime};

use super::ApprovalDetails;

/// Resolves the current principal of a caller.
pub trait PrincipalResolver: Send + Sync + fmt::Debug {
    /// Returns the status of this caller's credential at `now`.
    fn resolve_caller(&self, caller: &Caller, now: WallTime) -> CredentialStatus;

    /// Returns the principal as which stored work of this caller continues at `now`, with no more
    /// rights than `before`, which was verified earlier; `None` if the credential is no longer
    /// valid. Call it again each time that the work was suspended.
    fn renew_principal(
        &self,
        caller: &Caller,
        before: &Principal,
        now: WallTime,
    ) -> Option<Principal> {
        match self.resolve_caller(caller, now) {
            CredentialStatus::Valid(principal) => {
                let narrowing = before.rights_class().restrictions();
                Some(principal.with_max_level(before.level()).with_restrictions(narrowing))
            }
            CredentialStatus::Invalid => None,
            // Only its expiry is known here.
            CredentialStatus::NotStoredHere => {
                before.expires_at().is_none_or(|until| now < until).then(|| before.clone())
            }
        }
    }
}

/// Status of a caller's credential.
#[derive(Debug, Clone)]
pub enum CredentialStatus {
    /// The credential is valid.
    Valid(Principal),
    /// The credential was revoked, has expired, or belongs to another caller.
    Invalid,
    /// The credential is not stored here: the caller must present it again.
    NotStoredHere,
}

/// Observes approval events. Called on the call path: it must not block, and may drop events.
pub trait ApprovalObserver: Send + Sync + fmt::Debug {
    /// Notifies of an event of an approval.
    fn notify_event(&self, event: &ApprovalEvent);
}

/// An event of an approval.
#[derive(Debug, Clone)]
pub struct ApprovalEvent {
    /// Kind of the event.
    pub kind: ApprovalEventKind,
    /// Approval after the event.
    pub approval: ApprovalDetails,
    /// Facts that decide who sees it.
    pub scope: ApprovalScope,
}

/// Facts of a pending call that decide who sees it, by [`crate::Gateway::sees_approval`].
#[derive(Debug, Clone)]
pub struct ApprovalScope {
    pub(crate) caller: Caller,
    pub(crate) tool_key: ToolKey,
    pub(crate) caller_type: CallerType,
}

/// Kinds of approval events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalEventKind {
    /// An approval is requested, and somebody has to decide.
    Requested,
    /// The approval was decided, edited, or has expired.
    Changed,
}

/// Notifies nobody and stores no credential.
#[derive(Debug, Clone, Copy)]
pub struct NoApprovalPorts;

impl ApprovalObserver for NoApprovalPorts {
    fn notify_event(&self, _: &ApprovalEvent) {}
}

impl PrincipalResolver for NoApprovalPorts {
    fn resolve_caller(&self, _: &Caller, _: WallTime) -> CredentialStatus {
        CredentialStatus::NotStoredHere
    }
}
