use std::sync::Arc;

use futures_util::FutureExt as _;
use testkit::ledger::MemoryLedger;
use tool::call_outcome::CallStatus;
use tool::{
    ApprovalStepRecord, BoxFuture, CallId, CallerType, Digest, Durability, IntentReceipt,
    IntentRecord, Interface, Ledger, LedgerError, Org, OutcomeRecord, RefusalRecord, SourceName,
    ToolKey, ToolName, WallTime,
};
use uuid::Uuid;

use super::{CallCounters, CallLabels};

/// Writes at once, and then waits for a disk that never answers.
#[derive(Debug, Default)]
struct Slow(MemoryLedger);

impl Ledger for Slow {
    fn record_intent(
        &self,
        intent: IntentRecord,
        need: Durability,
    ) -> BoxFuture<'_, Result<IntentReceipt, LedgerError>> {
        Box::pin(async move {
            let _ticket = self.0.record_intent(intent, need).await?;
            std::future::pending().await
        })
    }
    fn record_outcome(
        &self,
        ticket: IntentReceipt,
        end: OutcomeRecord,
        need: Durability,
    ) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            self.0.record_outcome(ticket, end, need).await?;
            std::future::pending().await
        })
    }
    fn record_approval_step(&self, waited: &ApprovalStepRecord) -> Result<(), LedgerError> {
        self.0.record_approval_step(waited)
    }
    fn record_refusal(&self, refusal: RefusalRecord) {
        self.0.record_refusal(refusal);
    }
    fn check_health(&self) -> Result<(), LedgerError> {
        self.0.check_health()
    }
}

/// As [`Slow`], where intents are written without waiting.
#[derive(Debug, Default)]
struct SlowEnd(Slow);

impl Ledger for SlowEnd {
    fn record_intent(
        &self,
        intent: IntentRecord,
        need: Durability,
    ) -> BoxFuture<'_, Result<IntentReceipt, LedgerError>> {
        self.0.0.record_intent(intent, need)
    }
    fn record_outcome(
        &self,
        ticket: IntentReceipt,
        end: OutcomeRecord,
        need: Durability,
    ) -> BoxFuture<'_, Result<(), LedgerError>> {
        self.0.record_outcome(ticket, end, need)
    }
    fn record_approval_step(&self, waited: &ApprovalStepRecord) -> Result<(), LedgerError> {
        self.0.record_approval_step(waited)
    }
    fn record_refusal(&self, refusal: RefusalRecord) {
        self.0.record_refusal(refusal);
    }
    fn check_health(&self) -> Result<(), LedgerError> {
        self.0.check_health()
    }
}

fn intent(number: u128) -> IntentRecord {
    IntentRecord {
        call_id: CallId(Uuid::from_u128(number)),
        parent_id: None,
        chain_id: None,
        chain_index: None,
        continues_call: None,
        recorded_at: WallTime(0),
        caller: testkit::context::test_caller(),
        interface: Interface::Rest,
        caller_type: CallerType::Direct,
        tool_key: ToolKey {
            org: Org::default(),
            source: SourceName::new("s").unwrap(),
            name: ToolName::new("t").unwrap(),
        },
        definition_digest: Digest([0; 32]),
        catalog_version: 1,
        policy_digest: Digest([0; 32]),
        reason: "allowed".into(),
        arguments_digest: Digest([0; 32]),
        arguments_bytes: 2,
        may_change_state: false,
        has_unknown_effects: false,
        toolset: None,
    }
}

fn end(status: CallStatus) -> OutcomeRecord {
    OutcomeRecord {
        recorded_at: WallTime(0),
        status,
        code: None,
        elapsed_ms: 0,
        result_bytes: 0,
        result_digest: None,
        sandbox_usage: None,
    }
}

fn all(counts: &CallCounters) -> [u64; 5] {
    ["succeeded", "failed", "abandoned", "refused", "unknown"].map(|status| {
        let of = CallLabels { door: "rest", status };
        counts.family.get_or_create(&of).get()
    })
}

#[tokio::test]
async fn a_future_that_is_dropped_counts_as_its_record_says() {
    let counts = CallCounters::default();
    let slow = counts.wrap_ledger(Arc::new(Slow::default()));
    assert!(slow.record_intent(intent(1), Durability::Synced).now_or_never().is_none());
    assert_eq!(all(&counts), [0, 0, 1, 0, 0]);
    let slow = counts.wrap_ledger(Arc::new(SlowEnd::default()));
    let ticket = slow.record_intent(intent(2), Durability::Written).await.unwrap();
    assert!(
        slow.record_outcome(ticket, end(CallStatus::Failed), Durability::Full)
            .now_or_never()
            .is_none()
    );
    assert_eq!(all(&counts), [0, 1, 1, 0, 0]);
    let ticket = slow.record_intent(intent(3), Durability::Written).await.unwrap();
    drop(slow.record_outcome(ticket, end(CallStatus::Failed), Durability::Full));
    assert_eq!(all(&counts), [0, 1, 2, 0, 0]);
}

#[tokio::test]
async fn a_ticket_that_is_dropped_is_abandoned_in_record_and_count() {
    let (counts, kept) = (CallCounters::default(), Arc::new(MemoryLedger::default()));
    let ledger = counts.wrap_ledger(Arc::clone(&kept) as _);
    let ticket = ledger.record_intent(intent(1), Durability::Written).await.unwrap();
    assert_eq!(all(&counts), [0; 5]);
    drop(ticket);
    assert_eq!(
        kept.all_records()[1].body.decode::<OutcomeRecord>().unwrap().status,
        CallStatus::Abandoned
    );
    assert_eq!(all(&counts), [0, 0, 1, 0, 0]);
    let ticket = ledger.record_intent(intent(2), Durability::Written).await.unwrap();
    ledger.record_outcome(ticket, end(CallStatus::Succeeded), Durability::Written).await.unwrap();
    assert_eq!(all(&counts), [1, 0, 1, 0, 0]);
    let foreign = IntentReceipt::with_abandon_hook(CallId(Uuid::from_u128(3)), |_| {});
    ledger
        .record_outcome(foreign, end(CallStatus::Succeeded), Durability::Written)
        .await
        .unwrap_err();
    assert_eq!(all(&counts), [1, 0, 1, 0, 0]);
}
