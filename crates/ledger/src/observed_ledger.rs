//! Ledger wrapper that reports the end of each call exactly once, as recorded.
//!
//! If a caller disconnects, the interface does not learn how the call ended, but the record does.
//! The observer belongs to the receipt of the inner ledger; the wrapper itself stores and writes
//! nothing.

use std::fmt;
use std::sync::Arc;

use tool::call_outcome::CallStatus;
use tool::ledger::{CompletionGuard, CompletionObserver};
use tool::{
    ApprovalStepRecord, BoxFuture, Durability, IntentReceipt, IntentRecord, Interface, Ledger,
    LedgerError, OutcomeRecord, RefusalRecord,
};

/// Wraps `ledger` so that `on_completion` receives the status of each call when it ends: refused,
/// its outcome, abandoned, or unknown if the outcome could not be written.
pub fn observe_completions(
    ledger: Arc<dyn Ledger>,
    on_completion: impl Fn(Interface, CallStatus) + Send + Sync + 'static,
) -> Arc<dyn Ledger> {
    Arc::new(ObservedLedger { ledger, observer: Arc::new(on_completion) })
}

struct ObservedLedger {
    ledger: Arc<dyn Ledger>,
    observer: CompletionObserver,
}

impl Ledger for ObservedLedger {
    fn record_intent(
        &self,
        intent: IntentRecord,
        need: Durability,
    ) -> BoxFuture<'_, Result<IntentReceipt, LedgerError>> {
        Box::pin(async move {
            // Dropped with the future or the ticket: the ledger notes the call as abandoned then.
            let (hear, door) = (Arc::clone(&self.observer), intent.interface);
            let mut watch = CompletionGuard {
                observer: hear,
                interface: door,
                status: Some(CallStatus::Abandoned),
            };
            let begun = self.ledger.record_intent(intent, need).await;
            let ticket = begun.inspect_err(|_| watch.status = Some(CallStatus::Refused))?;
            Ok(ticket.with_completion_guard(watch))
        })
    }

    fn record_outcome(
        &self,
        mut ticket: IntentReceipt,
        end: OutcomeRecord,
        need: Durability,
    ) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            let Some(mut watch) = ticket.take_completion_guard() else {
                let call = ticket.call_id();
                let told = format!("the ticket of call `{call}` was not issued by this ledger");
                return Err(LedgerError::new(told));
            };
            // Written first, then awaited: if dropped in between, the call has still ended.
            watch.status = Some(end.status);
            let finished = self.ledger.record_outcome(ticket, end, need).await;
            finished.inspect_err(|_| watch.status = Some(CallStatus::Unknown))
        })
    }

    fn record_approval_step(&self, waited: &ApprovalStepRecord) -> Result<(), LedgerError> {
        self.ledger.record_approval_step(waited)
    }

    fn record_refusal(&self, refusal: RefusalRecord) {
        (self.observer)(refusal.interface, CallStatus::Refused);
        self.ledger.record_refusal(refusal);
    }

    fn check_health(&self) -> Result<(), LedgerError> {
        self.ledger.check_health()
    }
}

impl fmt::Debug for ObservedLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("ledger", &self.ledger).finish_non_exhaustive()
    }
}
