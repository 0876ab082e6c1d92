//! The in-memory index of approvals by id, key and due time; rebuilt at every start.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tool::call_outcome::{CallFailure, CallResponse};
use tool::{CallId, Caller, CallerType, Digest, ErrorCode, FastMap, MonotonicTime, Org, ToolKey};

use super::ApprovalSettings;
use super::stored_approval::StoredApproval;

/// Time window in which requests are counted.
const MINUTE: Duration = Duration::from_mins(1);
/// Maximum number of keys whose requests are tracked.
const MAX_TRACKED_KEYS: usize = 10_000;

/// Final response, as waiters see it.
pub(crate) type FinalResponse = Option<Arc<CallResponse>>;

/// Index of all approvals.
#[derive(Debug)]
pub(crate) struct ApprovalIndex {
    state: Mutex<IndexState>,
}

/// Limits of the index.
#[derive(Debug, Clone, Copy, Default)]
struct IndexLimits {
    pending_calls: usize,
    calls_per_minute: usize,
    total_calls: usize,
    argument_bytes: usize,
}

impl IndexLimits {
    /// Divisor of the total count and size for the share of one root key.
    const KEY_SHARE_DIVISOR: usize = 4;

    /// Returns the limits of one root key: at least as many calls as may be pending.
    fn key_limits(self) -> (usize, usize) {
        let calls = (self.total_calls / Self::KEY_SHARE_DIVISOR)
            .max(self.pending_calls)
            .min(self.total_calls);
        (calls, self.argument_bytes / Self::KEY_SHARE_DIVISOR)
    }
}

impl From<&ApprovalSettings> for IndexLimits {
    fn from(settings: &ApprovalSettings) -> Self {
        Self {
            pending_calls: settings.max_pending_per_key,
            calls_per_minute: settings.max_requests_per_minute,
            total_calls: settings.max_stored,
            argument_bytes: settings.max_argument_bytes,
        }
    }
}

#[derive(Debug, Default)]
struct IndexState {
    limits: IndexLimits,
    entries: FastMap<CallId, IndexEntry>,
    /// Due times of the next actions.
    due_times: BTreeSet<(MonotonicTime, CallId)>,
    /// Counts by root key, so that delegating keys yields no additional quota.
    keys: FastMap<Arc<str>, KeyCounts>,
    bytes: usize,
}

/// Counts of one root key.
#[derive(Debug, Default)]
struct KeyCounts {
    pending_count: usize,
    request_times: VecDeque<MonotonicTime>,
    /// Stored calls, including decided and completed ones, and the size of their arguments.
    entry_count: usize,
    bytes: usize,
}

#[derive(Debug)]
struct IndexEntry {
    caller_key: Arc<str>,
    /// Root key that it counts for.
    root_key: Arc<str>,
    org: Org,
    tool_and_caller_type: (ToolKey, CallerType),
    bytes: usize,
    due: MonotonicTime,
    phase: ApprovalPhase,
    /// Fingerprint of tool and arguments, until the result was fetched.
    call_fingerprint: Option<Digest>,
    watch_sender: Option<watch::Sender<FinalResponse>>,
}

/// Phase of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApprovalPhase {
    /// Nobody has decided yet.
    Pending,
    /// It was approved; `true` if this process runs it or is about to.
    Approved(bool),
    /// It has ended and is retained for its caller.
    Completed,
}

/// A new entry of the index.
#[derive(Debug)]
pub(crate) struct NewIndexEntry<'a> {
    pub(crate) id: CallId,
    pub(crate) caller: &'a Caller,
    /// Tool, and how it is called.
    pub(crate) tool_and_caller_type: (&'a ToolKey, CallerType),
    pub(crate) bytes: usize,
    pub(crate) due: MonotonicTime,
    pub(crate) phase: ApprovalPhase,
    /// Fingerprint of tool and arguments.
    pub(crate) call_fingerprint: Digest,
}

impl<'a> NewIndexEntry<'a> {
    pub(crate) fn from_approval(
        approval: &'a StoredApproval,
        phase: ApprovalPhase,
        due: MonotonicTime,
    ) -> Self {
        Self {
            id: approval.id,
            caller: &approval.caller,
            tool_and_caller_type: (&approval.tool_key, approval.caller_type),
            bytes: approval.arguments.bytes().len(),
            due,
            phase,
            call_fingerprint: approval.call_fingerprint(),
        }
    }
}

impl ApprovalIndex {
    pub(crate) fn new(settings: &ApprovalSettings) -> Self {
        let index = Self { state: Mutex::default() };
        index.set_limits(settings);
        index
    }

    /// Sets the limits for new entries.
    pub(crate) fn set_limits(&self, settings: &ApprovalSettings) {
        self.lock_state().limits = settings.into();
    }

    fn lock_state(&self) -> MutexGuard<'_, IndexState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Inserts a new call, or returns the limit that it exceeds.
    pub(crate) fn try_insert(
        &self,
        new: &NewIndexEntry<'_>,
        now: MonotonicTime,
    ) -> Result<(), CallFailure> {
        let mut inner = self.lock_state();
        let limits = inner.limits;
        if inner.entries.len() >= limits.total_calls
            || inner.bytes + new.bytes > limits.argument_bytes
        {
            let told = "too many pending calls; decide some of them and try again";
            return Err(CallFailure::new(ErrorCode::Busy, told));
        }
        let (most, most_bytes) = limits.key_limits();
        let counts = inner.key_counts(new.caller);
        if counts.entry_count >= most || counts.bytes + new.bytes > most_bytes {
            let told = "too many recent approvals of this key are stored; try again later";
            return Err(CallFailure::new(ErrorCode::RateLimited, told));
        }
        while counts
            .request_times
            .front()
            .is_some_and(|at| now.saturating_duration_since(*at) >= MINUTE)
        {
            counts.request_times.pop_front();
        }
        if counts.pending_count >= limits.pending_calls {
            let told = format!(
                "this key already has {} pending calls, the maximum; decide them first",
                counts.pending_count
            );
            return Err(CallFailure::new(ErrorCode::RateLimited, told));
        }
        if counts.request_times.len() >= limits.calls_per_minute {
            let told = format!(
                "this key requested {} approvals within a minute, the maximum; try again later",
                counts.request_times.len()
            );
            return Err(CallFailure::new(ErrorCode::RateLimited, told));
        }
        counts.request_times.push_back(now);
        inner.insert_entry(new);
        Ok(())
    }

    /// Restores a call that was pending before a restart.
    pub(crate) fn restore_entry(&self, new: &NewIndexEntry<'_>) {
        self.lock_state().insert_entry(new);
    }

    /// Moves an approval to another phase; does nothing if it is unknown.
    pub(crate) fn set_phase(&self, id: CallId, phase: ApprovalPhase, due: Option<MonotonicTime>) {
        let mut inner = self.lock_state();
        let Some(slot) = inner.entries.get_mut(&id) else { return };
        let (before, root) = (slot.phase, Arc::clone(&slot.root_key));
        let old = slot.due;
        slot.phase = phase;
        slot.due = due.unwrap_or(old);
        let new = slot.due;
        inner.due_times.remove(&(old, id));
        inner.due_times.insert((new, id));
        if before == ApprovalPhase::Pending && phase != ApprovalPhase::Pending {
            inner.count_decided(&root);
        }
    }

    pub(crate) fn phase_of(&self, id: CallId) -> Option<ApprovalPhase> {
        self.lock_state().entries.get(&id).map(|slot| slot.phase)
    }

    /// Returns true if its time is over by the monotonic clock.
    pub(crate) fn is_expired(&self, id: CallId, now: MonotonicTime) -> bool {
        let inner = self.lock_state();
        inner
            .entries
            .get(&id)
            .is_some_and(|slot| slot.phase != ApprovalPhase::Completed && slot.due <= now)
    }

    pub(crate) fn remove_entry(&self, id: CallId) {
        let mut inner = self.lock_state();
        let Some(slot) = inner.entries.remove(&id) else { return };
        inner.due_times.remove(&(slot.due, id));
        inner.bytes = inner.bytes.saturating_sub(slot.bytes);
        if slot.phase == ApprovalPhase::Pending {
            inner.count_decided(&slot.root_key);
        }
        if let Some(counts) = inner.keys.get_mut(&slot.root_key) {
            counts.entry_count = counts.entry_count.saturating_sub(1);
            counts.bytes = counts.bytes.saturating_sub(slot.bytes);
        }
    }

    /// Returns the next due entry.
    pub(crate) fn next_due(&self) -> Option<(MonotonicTime, CallId)> {
        self.lock_state().due_times.first().copied()
    }

    /// Subscribes to changes of an approval.
    pub(crate) fn watch_call(&self, id: CallId) -> Option<watch::Receiver<FinalResponse>> {
        let mut inner = self.lock_state();
        let slot = inner.entries.get_mut(&id)?;
        Some(slot.watch_sender.get_or_insert_with(|| watch::Sender::new(None)).subscribe())
    }

    pub(crate) fn notify(&self, id: CallId, answer: Option<&CallResponse>) {
        let mut inner = self.lock_state();
        let Some(slot) = inner.entries.get_mut(&id) else { return };
        let Some(watched) = &slot.watch_sender else { return };
        watched.send_replace(answer.cloned().map(Arc::new));
        // Waiters have it by now; a large response is not kept for nobody.
        if answer.is_some() || watched.receiver_count() == 0 {
            slot.watch_sender = None;
        }
    }

    /// Lists the ids of this caller's own approvals and of those that it may see, newest first, as
    /// far as `is_wanted` selects them.
    pub(crate) fn list_ids(
        &self,
        (caller, is_visible): (&Caller, impl Fn(&Org, &(ToolKey, CallerType)) -> bool),
        is_wanted: impl Fn(CallId, ApprovalPhase, &ToolKey) -> bool,
    ) -> Vec<CallId> {
        let whose = caller_key(caller);
        let inner = self.lock_state();
        let listed = |id: CallId, slot: &IndexEntry| {
            is_wanted(id, slot.phase, &slot.tool_and_caller_type.0)
                && (*slot.caller_key == *whose || is_visible(&slot.org, &slot.tool_and_caller_type))
        };
        let entries = inner.entries.iter().filter(|(id, slot)| listed(**id, slot));
        let mut ids: Vec<_> = entries.map(|(id, _)| *id).collect();
        ids.sort_unstable_by(|a, b| b.cmp(a));
        ids
    }

    /// Returns true if this caller has a call whose result was not fetched.
    pub(crate) fn has_unfetched(&self, caller: &Caller) -> bool {
        let inner = self.lock_state();
        if inner.entries.is_empty() {
            return false;
        }
        let whose = caller_key(caller);
        inner.keys.contains_key(root_key(caller).as_str())
            && inner
                .entries
                .values()
                .any(|slot| slot.call_fingerprint.is_some() && *slot.caller_key == *whose)
    }

    /// Finds the oldest unfetched call with this fingerprint.
    pub(crate) fn find_unfetched(&self, caller: &Caller, fingerprint: Digest) -> Option<CallId> {
        let whose = caller_key(caller);
        let inner = self.lock_state();
        let same = |slot: &IndexEntry| {
            slot.call_fingerprint == Some(fingerprint) && *slot.caller_key == *whose
        };
        inner.entries.iter().filter(|(_, slot)| same(slot)).map(|(id, _)| *id).min()
    }

    /// Marks the result of a call as fetched.
    pub(crate) fn mark_fetched(&self, id: CallId) {
        if let Some(slot) = self.lock_state().entries.get_mut(&id) {
            slot.call_fingerprint = None;
        }
    }

    /// Returns the number of pending approvals.
    pub(crate) fn pending_count(&self) -> usize {
        self.lock_state()
            .entries
            .values()
            .filter(|slot| slot.phase == ApprovalPhase::Pending)
            .count()
    }
}

impl IndexState {
    fn key_counts(&mut self, caller: &Caller) -> &mut KeyCounts {
        if self.keys.len() >= MAX_TRACKED_KEYS {
            self.keys.retain(|_, counts| counts.entry_count > 0);
        }
        self.keys.entry(root_key(caller).into()).or_default()
    }

    fn insert_entry(&mut self, new: &NewIndexEntry<'_>) {
        let (whose, root): (Arc<str>, Arc<str>) =
            (caller_key(new.caller).into(), root_key(new.caller).into());
        let counts = self.keys.entry(Arc::clone(&root)).or_default();
        counts.pending_count += usize::from(new.phase == ApprovalPhase::Pending);
        counts.entry_count += 1;
        counts.bytes += new.bytes;
        self.bytes += new.bytes;
        self.due_times.insert((new.due, new.id));
        let slot = IndexEntry {
            caller_key: whose,
            root_key: root,
            org: new.caller.org.clone(),
            tool_and_caller_type: (new.tool_and_caller_type.0.clone(), new.tool_and_caller_type.1),
            bytes: new.bytes,
            due: new.due,
            phase: new.phase,
            // For a call that ended before a restart, nobody knows whether its result was fetched.
            call_fingerprint: (new.phase != ApprovalPhase::Completed)
                .then_some(new.call_fingerprint),
            watch_sender: None,
        };
        self.entries.insert(new.id, slot);
    }

    fn count_decided(&mut self, root: &str) {
        if let Some(counts) = self.keys.get_mut(root) {
            counts.pending_count = counts.pending_count.saturating_sub(1);
        }
    }
}

/// Returns a caller as one string. Key ids contain no `/`.
fn caller_key(caller: &Caller) -> String {
    format!("{}/{}/{}", caller.org.as_str(), caller.key_id, caller.subject)
}

/// Returns a caller's root key as one string.
fn root_key(caller: &Caller) -> String {
    format!("{}/{}", caller.org.as_str(), caller.limit_key_id())
}
