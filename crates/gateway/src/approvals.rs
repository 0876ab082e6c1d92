//! Approvals of pending calls: stored by compare-and-set, decided once, executed once.
//!
//! A pending approval costs a row in the store and an index entry: no task, no timer, no
//! connection. This module does not decide about tools, and runs nothing that the pipeline did not
//! evaluate again.

mod approval_closure;
mod approval_details;
mod approval_expiry;
mod approval_index;
mod approval_overview;
mod approval_ports;
mod approval_requests;
mod approval_rights;
mod argument_edits;
mod decisions;
mod result_retrieval;
mod resumption;
mod stored_approval;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
pub(crate) use option_types::{ApprovalSettings, MAX_DECISION_TIMEOUT};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tool::call_outcome::{CallFailure, CallResponse};
use tool::store::WritePrecondition;
use tool::{CallId, ErrorCode, MonotonicTime, Store, StoreError, Version};

pub use approval_details::{ApprovalDecision, ApprovalDetails, ApprovalPage, ApprovalState};
pub use approval_overview::PendingCallCount;
pub use approval_ports::{
    ApprovalEvent, ApprovalEventKind, ApprovalObserver, ApprovalScope, CredentialStatus,
    NoApprovalPorts, PrincipalResolver,
};
pub use argument_edits::ArgumentEdit;
pub use stored_approval::PendingRequest;

use approval_index::ApprovalIndex;
use stored_approval::{StoredApproval, store_key};

/// Store, ports and settings of approvals.
#[derive(Debug, Clone)]
pub struct ApprovalComponents {
    /// Store of pending calls. It should be encrypted: arguments may be confidential.
    pub store: Arc<dyn Store>,
    /// Resolves the current principal of a caller.
    pub principal_resolver: Arc<dyn PrincipalResolver>,
    /// Observer of approval events.
    pub observer: Arc<dyn ApprovalObserver>,
    /// Timeouts and limits of approvals.
    pub settings: ApprovalSettings,
}

/// Message for a call whose caller's credential is no longer valid.
pub(crate) const CREDENTIAL_ENDED: &str = "the key that made the call is no longer valid";

/// Registry of all pending and completed approvals.
#[derive(Debug)]
pub(crate) struct ApprovalRegistry {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) principal_resolver: Arc<dyn PrincipalResolver>,
    observer: Arc<dyn ApprovalObserver>,
    settings: ArcSwap<ApprovalSettings>,
    pub(crate) index: ApprovalIndex,
    /// Notifies that something is due earlier than before.
    pub(crate) schedule_changed: Notify,
    /// Releases everybody who waits for a decision.
    pub(crate) shutdown: CancellationToken,
}

/// A stored approval with the version that was read.
#[derive(Debug)]
pub(crate) struct VersionedApproval {
    pub(crate) approval: StoredApproval,
    version: Version,
}

impl crate::Gateway {
    /// Sets the approval settings for new calls; pending calls keep their timeouts.
    pub fn set_approval_settings(&self, settings: ApprovalSettings) {
        if let Some(waits) = &self.approvals {
            waits.index.set_limits(&settings);
            waits.settings.store(Arc::new(settings));
        }
    }
}

impl ApprovalRegistry {
    pub(crate) fn new(components: ApprovalComponents) -> Self {
        let ApprovalComponents { store, principal_resolver, observer, settings } = components;
        Self {
            store,
            principal_resolver,
            observer,
            index: ApprovalIndex::new(&settings),
            settings: ArcSwap::from_pointee(settings),
            schedule_changed: Notify::new(),
            shutdown: CancellationToken::new(),
        }
    }

    /// Returns the current settings.
    pub(crate) fn current_settings(&self) -> Arc<ApprovalSettings> {
        self.settings.load_full()
    }

    /// Reads one approval; `None` if it does not exist.
    pub(crate) async fn read_approval(
        &self,
        id: CallId,
    ) -> Result<Option<VersionedApproval>, CallFailure> {
        let found =
            self.store.get_value(&store_key(id)).await.map_err(|error| store_failure(&error))?;
        let Some(found) = found else { return Ok(None) };
        let kept = StoredApproval::decode(&found.bytes).map_err(|error| {
            tracing::error!(%error, call = %id, "cannot read a pending call");
            CallFailure::new(
                ErrorCode::StoreUnavailable,
                "the pending call cannot be read; call again",
            )
        })?;
        Ok(Some(VersionedApproval { approval: kept, version: found.version }))
    }

    /// Writes a change of an approval; fails with a conflict if another write came first.
    pub(crate) async fn write_approval(
        &self,
        versioned: VersionedApproval,
    ) -> Result<VersionedApproval, StoreError> {
        let VersionedApproval { approval: kept, version } = versioned;
        let expect = WritePrecondition::Version(version);
        let version =
            self.store.put_value(&store_key(kept.id), expect, Some(kept.encode())).await?;
        Ok(VersionedApproval { approval: kept, version })
    }

    /// Removes an approval in any state.
    pub(crate) async fn remove_approval(&self, id: CallId) {
        self.index.remove_entry(id);
        let name = store_key(id);
        let Ok(Some(found)) = self.store.get_value(&name).await else { return };
        let removed =
            self.store.put_value(&name, WritePrecondition::Version(found.version), None).await;
        if let Err(error) = removed {
            tracing::warn!(%error, call = %id, "cannot remove an ended approval");
        }
    }

    /// Notifies waiters of a change; at the end, with the final response.
    pub(crate) fn notify_waiters(&self, id: CallId, answer: Option<&CallResponse>) {
        self.index.notify(id, answer);
        self.schedule_changed.notify_one();
    }
}

/// Returns the time until `deadline`, or zero if it is over.
pub(crate) fn time_until(deadline: MonotonicTime, now: MonotonicTime) -> Duration {
    deadline.saturating_duration_since(now)
}

pub(crate) fn store_failure(error: &StoreError) -> CallFailure {
    let code = match error {
        StoreError::Conflict { .. } => ErrorCode::Conflict,
        StoreError::Unavailable(_) => ErrorCode::StoreUnavailable,
    };
    CallFailure::new(code, error.to_string())
}

#[cfg(test)]
mod tests;
