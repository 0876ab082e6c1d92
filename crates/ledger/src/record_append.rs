//! Appends intents, outcomes and refusals to the ledger: one lock and one write, in the caller's
//! thread.

use std::sync::atomic::Ordering;
use std::sync::{Arc, TryLockError};
use std::time::Duration;

use tokio::sync::oneshot;
use tool::call_outcome::CallStatus;
use tool::clock::duration_millis;
use tool::ledger::{RecordFacts, RecordKind};
use tool::{
    ApprovalStepRecord, CallId, Durability, ErrorCode, IntentReceipt, IntentRecord, LedgerError,
    OutcomeRecord, RefusalRecord, WallTime,
};

use crate::error_messages::backlog_full;
use crate::frame::FrameBuilder;
use crate::ledger_inner::{DroppedReceipt, LedgerInner, lock_mutex};
use crate::ledger_state::{LedgerMode, LedgerState, RunningCall, SyncConfirmation};
use crate::record_index::{FramePosition, IndexEntry, IndexFacts, SearchKey};
use crate::search_fields::SearchFacts;

impl LedgerInner {
    /// Writes one frame. The one place that does.
    pub(crate) fn append_frame(
        &self,
        state: &mut LedgerState,
        frame: &mut FrameBuilder,
        search_key: Option<SearchKey>,
    ) -> Result<(), LedgerError> {
        let seq = state.next_seq;
        let Some(active) = &state.active_segment else {
            state.check_health(&self.writer_dir.dir)?;
            return Err(LedgerError::new("the record has no segment to write to"));
        };
        let position = FramePosition { segment_number: active.segment_number, offset: active.size };
        let bytes = frame.finish(seq);
        if let Err(error) = state.write_frame(bytes) {
            return Err(self.handle_write_failure(state, &error));
        }
        state.next_seq += 1;
        state.pending_frames.extend_from_slice(bytes);
        state.pending_records += 1;
        self.lock_index().push_entry(IndexEntry {
            seq,
            position,
            kind: frame.kind,
            call_id: frame.call_id,
            search_key,
            facts: Some(IndexFacts::new(frame.facts)),
        });
        Ok(())
    }

    /// Writes an intent. The returned future resolves when a required sync has finished.
    pub(crate) fn append_intent(
        self: &Arc<Self>,
        intent: &IntentRecord,
        durability: Durability,
    ) -> Result<(IntentReceipt, Option<SyncConfirmation>), LedgerError> {
        let call = intent.call_id;
        let mut draft = FrameBuilder::intent(intent)?;
        let search_key = self.search_key_of_call(&intent.caller, intent.tool_key.name.as_str());
        let running_call = RunningCall { search_key, started_at: self.clock.monotonic_now() };
        let mut state = self.lock_state();
        state.check_intent(durability, draft.len(), &self.writer_dir.dir)?;
        let waiting = state.pending_frames.len() + self.unsynced_bytes.load(Ordering::Relaxed);
        if waiting + draft.len() > self.options.max_unsynced_bytes {
            return Err(backlog_full(&self.writer_dir.dir, waiting));
        }
        if call.0.is_nil() || state.running_calls.contains_key(&call) {
            return Err(LedgerError::new(format!(
                "the call `{call}` already has an intent on record; give each call its own ID"
            )));
        }
        state.running_calls.insert(call, running_call);
        if let Err(error) = self.append_frame(&mut state, &mut draft, Some(search_key)) {
            state.running_calls.remove(&call);
            return Err(error);
        }
        let confirmed = (durability >= Durability::Synced).then(|| add_sync_waiter(&mut state));
        self.wake_sync_thread(&state);
        drop(state);
        let inner = Arc::clone(self);
        Ok((
            IntentReceipt::with_abandon_hook(call, move |call| inner.append_abandoned(call)),
            confirmed,
        ))
    }

    /// Writes an outcome. If that fails, the outcome is stored and written as soon as possible.
    pub(crate) fn append_outcome(
        &self,
        call: CallId,
        outcome: &OutcomeRecord,
        durability: Durability,
    ) -> Result<Option<SyncConfirmation>, LedgerError> {
        let draft = FrameBuilder::outcome(call, outcome)?;
        let mut state = self.lock_state();
        self.append_outcome_frame(&mut state, draft)?;
        let confirmed = (durability == Durability::Full).then(|| add_sync_waiter(&mut state));
        self.wake_sync_thread(&state);
        Ok(confirmed)
    }

    fn append_outcome_frame(
        &self,
        state: &mut LedgerState,
        mut draft: FrameBuilder,
    ) -> Result<(), LedgerError> {
        let running_call = draft.call_id.and_then(|call| state.running_calls.get(&call));
        let search_key = running_call.map(|running| running.search_key);
        let written = state
            .check_outcome(draft.len(), &self.writer_dir.dir)
            .and_then(|()| self.append_frame(state, &mut draft, search_key));
        if written.is_err() {
            state.deferred_outcomes.push_back(draft);
        } else if let Some(call) = draft.call_id {
            state.running_calls.remove(&call);
        }
        written
    }

    /// Records that a call did not run, because its intent was not confirmed.
    pub(crate) fn append_not_executed(&self, call: CallId) {
        let code = Some(ErrorCode::RecordUnavailable);
        let end =
            internal_outcome(CallStatus::Refused, code, (self.clock.wall_now(), Duration::ZERO));
        // If the write fails now, it is deferred.
        self.append_outcome(call, &end, Durability::Written).ok();
    }

    /// Records a dropped receipt without blocking on the disk. If another thread holds the lock,
    /// the sync thread does it on its next turn.
    fn append_abandoned(&self, call: CallId) {
        let dropped = DroppedReceipt {
            call_id: call,
            wall: self.clock.wall_now(),
            mono: self.clock.monotonic_now(),
        };
        match self.state.try_lock() {
            Ok(mut state) => self.append_abandoned_locked(&mut state, dropped),
            Err(TryLockError::Poisoned(_) | TryLockError::WouldBlock) => {
                lock_mutex(&self.dropped_receipts).push(dropped);
            }
        }
    }

    fn append_abandoned_locked(&self, state: &mut LedgerState, dropped: DroppedReceipt) {
        let Some(running_call) = state.running_calls.get(&dropped.call_id) else { return };
        let elapsed = dropped.mono.saturating_duration_since(running_call.started_at);
        let end = internal_outcome(CallStatus::Abandoned, None, (dropped.wall, elapsed));
        match FrameBuilder::outcome(dropped.call_id, &end) {
            // If the write fails now, it is deferred.
            Ok(draft) => {
                self.append_outcome_frame(state, draft).ok();
            }
            Err(error) => tracing::error!(%error, call = %dropped.call_id, "an abandoned call"),
        }
    }

    /// Appends a step of a pending approval, as an intent that need not be synced.
    pub(crate) fn append_approval_step(
        &self,
        step: &ApprovalStepRecord,
    ) -> Result<(), LedgerError> {
        let kind = RecordKind::ApprovalStep;
        let facts = RecordFacts { step: Some(step.step), ..RecordFacts::default() };
        let mut draft = FrameBuilder::json(kind, Some(step.call_id), step)?
            .with_facts(SearchFacts::from_facts(kind, facts));
        let search_key = self.search_key_of_call(&step.caller, step.tool_key.name.as_str());
        let mut state = self.lock_state();
        state.check_intent(Durability::Written, draft.len(), &self.writer_dir.dir)?;
        self.append_frame(&mut state, &mut draft, Some(search_key))?;
        self.wake_sync_thread(&state);
        Ok(())
    }

    /// Appends a refusal, or counts it if the rate limit is exceeded.
    pub(crate) fn append_refusal(&self, refusal: &RefusalRecord) {
        let now = self.clock.monotonic_now();
        let mut state = self.lock_state();
        self.write_refusal_gap(&mut state);
        // The reserve is for calls that run.
        let open = matches!(state.mode, LedgerMode::Accepting);
        // Above the rate limit a refusal is not even encoded.
        let written = open && state.refusals.try_acquire(now) && {
            let search_key = self.search_key_of_call(&refusal.caller, &refusal.tool_name);
            let facts = SearchFacts::from_facts(RecordKind::Refusal, RecordFacts::default());
            FrameBuilder::json(RecordKind::Refusal, Some(refusal.call_id), refusal)
                .map(|draft| draft.with_facts(facts))
                .and_then(|mut draft| self.append_frame(&mut state, &mut draft, Some(search_key)))
                .is_ok()
        };
        if !written {
            state.refusals.count_dropped(1, refusal.recorded_at);
        }
        self.wake_sync_thread(&state);
    }

    fn write_refusal_gap(&self, state: &mut LedgerState) {
        if !matches!(state.mode, LedgerMode::Accepting) {
            return;
        }
        let Some(gap) = state.refusals.take_gap(self.clock.monotonic_now(), self.clock.wall_now())
        else {
            return;
        };
        let written = FrameBuilder::json(RecordKind::Gap, None, &gap)
            .and_then(|mut draft| self.append_frame(state, &mut draft, None));
        if written.is_err() {
            state.refusals.count_dropped(gap.refusal_count, gap.first_at);
        }
    }

    /// Writes the end of calls that were dropped while another thread held the lock, so that
    /// readers see them as ended.
    pub(crate) fn write_dropped_receipts(&self) {
        if !lock_mutex(&self.dropped_receipts).is_empty() {
            self.write_dropped_receipts_locked(&mut self.lock_state());
        }
    }

    fn write_dropped_receipts_locked(&self, state: &mut LedgerState) {
        let receipts = std::mem::take(&mut *lock_mutex(&self.dropped_receipts));
        for dropped in receipts {
            self.append_abandoned_locked(state, dropped);
        }
    }

    /// Writes the deferred records.
    pub(crate) fn write_deferred(&self, state: &mut LedgerState) {
        self.write_dropped_receipts_locked(state);
        self.write_refusal_gap(state);
        for _ in 0..state.deferred_outcomes.len() {
            let Some(draft) = state.deferred_outcomes.pop_front() else { return };
            if self.append_outcome_frame(state, draft).is_err() {
                return;
            }
        }
    }
}

/// An outcome that the ledger itself writes.
fn internal_outcome(
    status: CallStatus,
    code: Option<ErrorCode>,
    (recorded_at, elapsed): (WallTime, Duration),
) -> OutcomeRecord {
    let elapsed_ms = duration_millis(elapsed);
    OutcomeRecord {
        recorded_at,
        status,
        code,
        elapsed_ms,
        result_bytes: 0,
        result_digest: None,
        sandbox_usage: None,
    }
}

fn add_sync_waiter(state: &mut LedgerState) -> SyncConfirmation {
    let (waiter, confirmed) = oneshot::channel();
    state.sync_waiters.push(waiter);
    confirmed
}
