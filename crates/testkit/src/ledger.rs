//! An in-memory ledger for tests.

use std::sync::{Arc, Mutex, PoisonError};

use tool::ledger::{
    AuditEventRecord, AuditLog, LedgerRecord, RecordKind, RecordPage, RecordQuery, RecordReader,
};
use tool::{
    ApprovalStepRecord, BoxFuture, CallId, Durability, IntentReceipt, IntentRecord, Json, Ledger,
    LedgerError, OutcomeRecord, RefusalRecord, WallTime,
};

type RecordList = Arc<Mutex<Vec<LedgerRecord>>>;

/// A ledger that stores records in a list and can be made to fail.
#[derive(Debug, Default)]
pub struct MemoryLedger {
    records: RecordList,
    failing_durability: Mutex<Option<Durability>>,
}

impl MemoryLedger {
    /// Makes all intents fail that require at least this durability.
    pub fn fail_from(&self, durability: Option<Durability>) {
        *self.failing_durability.lock().unwrap_or_else(PoisonError::into_inner) = durability;
    }

    /// All records in order.
    pub fn all_records(&self) -> Vec<LedgerRecord> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The record kinds of one call.
    pub fn record_kinds(&self, call: CallId) -> Vec<RecordKind> {
        let of_call = |record: &LedgerRecord| (record.call_id == Some(call)).then_some(record.kind);
        self.all_records().iter().filter_map(of_call).collect()
    }
}

fn append_record(frames: &RecordList, kind: RecordKind, call: Option<CallId>, body: Json) {
    let mut frames = frames.lock().unwrap_or_else(PoisonError::into_inner);
    let seq = frames.len() as u64;
    frames.push(LedgerRecord { sequence: seq, kind, call_id: call, body });
}

impl Ledger for MemoryLedger {
    fn record_intent(
        &self,
        intent: IntentRecord,
        need: Durability,
    ) -> BoxFuture<'_, Result<IntentReceipt, LedgerError>> {
        let broken = *self.failing_durability.lock().unwrap_or_else(PoisonError::into_inner);
        Box::pin(async move {
            if broken.is_some_and(|from| need >= from) {
                return Err(LedgerError::new("no space left on device"));
            }
            append_record(
                &self.records,
                RecordKind::Intent,
                Some(intent.call_id),
                Json::encode(&intent),
            );
            let frames = Arc::clone(&self.records);
            Ok(IntentReceipt::with_abandon_hook(intent.call_id, move |call| {
                let status = tool::call_outcome::CallStatus::Abandoned;
                let end = OutcomeRecord {
                    recorded_at: WallTime(0),
                    status,
                    code: None,
                    elapsed_ms: 0,
                    result_bytes: 0,
                    result_digest: None,
                    sandbox_usage: None,
                };
                append_record(&frames, RecordKind::Outcome, Some(call), Json::encode(&end));
            }))
        })
    }

    fn record_outcome(
        &self,
        ticket: IntentReceipt,
        end: OutcomeRecord,
        _: Durability,
    ) -> BoxFuture<'_, Result<(), LedgerError>> {
        append_record(
            &self.records,
            RecordKind::Outcome,
            Some(ticket.mark_complete()),
            Json::encode(&end),
        );
        Box::pin(async { Ok(()) })
    }

    fn record_approval_step(&self, waited: &ApprovalStepRecord) -> Result<(), LedgerError> {
        self.check_health()?;
        append_record(
            &self.records,
            RecordKind::ApprovalStep,
            Some(waited.call_id),
            Json::encode(waited),
        );
        Ok(())
    }

    fn record_refusal(&self, refusal: RefusalRecord) {
        append_record(
            &self.records,
            RecordKind::Refusal,
            Some(refusal.call_id),
            Json::encode(&refusal),
        );
    }

    fn check_health(&self) -> Result<(), LedgerError> {
        match *self.failing_durability.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(_) => Err(LedgerError::new("no space left on device")),
            None => Ok(()),
        }
    }
}

impl AuditLog for MemoryLedger {
    fn record_event(&self, event: &AuditEventRecord) -> Result<(), LedgerError> {
        self.check_health()?;
        append_record(&self.records, RecordKind::AuditEvent, None, Json::encode(event));
        Ok(())
    }
}

impl RecordReader for MemoryLedger {
    fn list_records(&self, query: RecordQuery) -> BoxFuture<'_, Result<RecordPage, LedgerError>> {
        let frames = self.all_records();
        let caller = |record: &LedgerRecord| {
            let own = record.body.get("caller").or_else(|| record.body.get("by"));
            let of_call = || {
                frames
                    .iter()
                    .find(|it| it.call_id == record.call_id && it.kind == RecordKind::Intent)
            };
            own.or_else(|| of_call()?.body.get("caller"))?.get("subject")?.decode::<String>().ok()
        };
        let fits = |record: &&LedgerRecord| {
            query.before_sequence.is_none_or(|before| record.sequence < before)
                && query.matches_header(record.kind, record.call_id)
                && query.matches_facts(record.kind, record.body.decode().unwrap_or_default())
                && query.caller.as_ref().is_none_or(|it| caller(record).as_ref() == Some(it))
        };
        let mut all = frames.iter().rev().filter(fits).cloned();
        let records: Vec<_> = all.by_ref().take(query.limit).collect();
        let next = all.next().and_then(|_| records.last()).map(|last| last.sequence);
        Box::pin(async move { Ok(RecordPage { records, next_before: next }) })
    }

    fn list_for_call(&self, call: CallId) -> BoxFuture<'_, Result<Vec<LedgerRecord>, LedgerError>> {
        let found =
            self.all_records().into_iter().filter(|record| record.call_id == Some(call)).collect();
        Box::pin(async { Ok(found) })
    }
}
