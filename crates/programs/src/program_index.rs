//! In-memory index of programs: pending calls, claims of this process, and watchers.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tool::{CallId, Caller};

use crate::program_state::{ProgramState, ProgramStatus};
use crate::program_store::{ProgramKey, StoredProgram};
use crate::program_view;
use crate::recent_programs::RecentPrograms;

/// Maximum number of pending programs.
const MAX_PENDING_PROGRAMS: usize = 10_000;

/// Snapshot of a program for its watchers.
#[derive(Debug, Clone)]
pub(crate) struct ProgramSnapshot {
    pub(crate) has_ended: bool,
    /// Whether the program makes no progress by itself: it has ended or waits for its caller.
    pub(crate) is_idle: bool,
    pub(crate) view: Value,
}

impl ProgramSnapshot {
    pub(crate) fn from_program(program: &ProgramState) -> Self {
        let ended = program.has_ended();
        let rests = ended || program.state == ProgramStatus::Paused;
        Self { has_ended: ended, is_idle: rests, view: program_view::full_view(program) }
    }
}

/// Purpose of a claim on a program. Only a running program is shown as running.
#[derive(Debug)]
enum ClaimPurpose {
    /// A check whether the program can continue. Readers see the stored state, and a stronger claim
    /// replaces it.
    Check,
    /// The program is being ended. Readers see the stored state until then.
    End,
    /// The program runs; the snapshot is its state at the start.
    Run(Arc<ProgramSnapshot>),
}

#[derive(Debug)]
struct ClaimEntry {
    /// Number that identifies the claim.
    claim_id: u64,
    purpose: ClaimPurpose,
    cancellation: CancellationToken,
    released: CancellationToken,
}

/// Token of one claim. It is valid until it is released or taken over.
#[derive(Debug)]
pub(crate) struct ClaimToken {
    row: ProgramKey,
    claim_id: u64,
    cancellation: CancellationToken,
}

impl ClaimToken {
    /// Returns the token that is cancelled when the program is cancelled.
    pub(crate) fn cancellation_token(&self) -> CancellationToken {
        self.cancellation.clone()
    }
}

/// Conflict: another task runs the program or ends it.
#[derive(Debug)]
pub(crate) struct ClaimConflict {
    /// Whether the program runs.
    pub(crate) is_running: bool,
    /// Cancels the running program.
    pub(crate) cancellation: CancellationToken,
    /// Cancelled when the claim is released.
    pub(crate) released: CancellationToken,
}

impl ClaimEntry {
    fn running_snapshot(&self) -> Option<&Arc<ProgramSnapshot>> {
        match &self.purpose {
            ClaimPurpose::Run(begun) => Some(begun),
            ClaimPurpose::Check | ClaimPurpose::End => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct ProgramIndex {
    /// By held call.
    by_pending_call: HashMap<CallId, ProgramKey>,
    /// Those that stopped in the middle, when their process ended.
    interrupted: BTreeSet<ProgramKey>,
    claims: HashMap<ProgramKey, ClaimEntry>,
    next_claim_id: u64,
    watchers: HashMap<CallId, watch::Sender<Option<Arc<ProgramSnapshot>>>>,
    /// The last few that ended and have no row.
    recent_programs: RecentPrograms,
}

impl ProgramIndex {
    pub(crate) fn new() -> Self {
        Self {
            by_pending_call: HashMap::new(),
            interrupted: BTreeSet::new(),
            claims: HashMap::new(),
            next_claim_id: 0,
            watchers: HashMap::new(),
            recent_programs: RecentPrograms::default(),
        }
    }

    /// Returns whether one more program may become pending.
    pub(crate) fn has_room(&self) -> bool {
        self.by_pending_call.len() + self.interrupted.len() < MAX_PENDING_PROGRAMS
    }

    /// Adds an unfinished program with its pending calls.
    pub(crate) fn add_unfinished(
        &mut self,
        program_key: ProgramKey,
        state: ProgramStatus,
        pending_calls: &[CallId],
    ) {
        if state == ProgramStatus::Running {
            self.interrupted.insert(program_key);
            return;
        }
        for call in pending_calls {
            self.by_pending_call.insert(*call, program_key.clone());
        }
    }

    /// Removes a program and the calls it was pending on.
    pub(crate) fn remove_unfinished(&mut self, program_key: &ProgramKey, pending_calls: &[CallId]) {
        for call in pending_calls {
            self.by_pending_call.remove(call);
        }
        self.interrupted.remove(program_key);
    }

    /// Returns the program that is pending on this call.
    pub(crate) fn program_waiting_for(&self, call: CallId) -> Option<ProgramKey> {
        self.by_pending_call.get(&call).cloned()
    }

    /// Returns all unfinished programs.
    pub(crate) fn unfinished_programs(&self) -> BTreeSet<ProgramKey> {
        self.by_pending_call.values().chain(&self.interrupted).cloned().collect()
    }

    /// Claims a program for a check. An explicit resume replaces the claim of a background check.
    /// `None` if another task holds it.
    pub(crate) fn claim_for_check(
        &mut self,
        program_key: &ProgramKey,
        is_explicit_resume: bool,
    ) -> Option<ClaimToken> {
        match self.claims.get(program_key).map(|it| &it.purpose) {
            None => {}
            Some(ClaimPurpose::Check) if is_explicit_resume => {}
            Some(_) => return None,
        }
        Some(self.insert_claim(program_key, ClaimPurpose::Check))
    }

    /// Claims a program to end it, and replaces the claim of a check.
    pub(crate) fn claim_for_end(
        &mut self,
        program_key: &ProgramKey,
    ) -> Result<ClaimToken, ClaimConflict> {
        match self.claims.get(program_key) {
            None | Some(ClaimEntry { purpose: ClaimPurpose::Check, .. }) => {
                Ok(self.insert_claim(program_key, ClaimPurpose::End))
            }
            Some(ClaimEntry { purpose: does, cancellation: own, released: over, .. }) => {
                let (own, over) = (own.clone(), over.clone());
                Err(ClaimConflict {
                    is_running: matches!(does, ClaimPurpose::Run(_)),
                    cancellation: own,
                    released: over,
                })
            }
        }
    }

    fn insert_claim(&mut self, row: &ProgramKey, does: ClaimPurpose) -> ClaimToken {
        self.next_claim_id += 1;
        let (time, cancellation) = (self.next_claim_id, CancellationToken::new());
        let claimed = ClaimEntry {
            claim_id: time,
            purpose: does,
            cancellation: cancellation.clone(),
            released: CancellationToken::new(),
        };
        self.claims.insert(row.clone(), claimed);
        ClaimToken { row: row.clone(), claim_id: time, cancellation }
    }

    /// Marks the program as running. Returns whether the claim is still valid.
    pub(crate) fn mark_running(&mut self, claim: &ClaimToken, program: &ProgramState) -> bool {
        self.set_purpose(claim, || {
            ClaimPurpose::Run(Arc::new(ProgramSnapshot::from_program(program)))
        })
    }

    /// Prevents further claims. Returns whether the claim is still valid.
    pub(crate) fn mark_ending(&mut self, claim: &ClaimToken) -> bool {
        self.set_purpose(claim, || ClaimPurpose::End)
    }

    fn set_purpose(&mut self, claim: &ClaimToken, does: impl FnOnce() -> ClaimPurpose) -> bool {
        let claimed = self.claims.get_mut(&claim.row).filter(|it| it.claim_id == claim.claim_id);
        claimed.map(|it| it.purpose = does()).is_some()
    }

    /// Releases a claim, unless another task has taken over.
    pub(crate) fn release_claim(&mut self, claim: &ClaimToken) {
        let is_current =
            self.claims.get(&claim.row).is_some_and(|it| it.claim_id == claim.claim_id);
        if is_current && let Some(left) = self.claims.remove(&claim.row) {
            left.released.cancel();
        }
    }

    /// Returns the snapshot of a program that runs in this process, taken at its start.
    pub(crate) fn running_snapshot(
        &self,
        program_key: &ProgramKey,
    ) -> Option<Arc<ProgramSnapshot>> {
        self.claims.get(program_key)?.running_snapshot().cloned()
    }

    /// Returns the programs of this caller that run in this process, as snapshots taken at their
    /// start.
    pub(crate) fn running_programs(&self, caller: &Caller) -> Vec<(CallId, Arc<ProgramSnapshot>)> {
        let owned =
            self.claims.iter().filter(|(row, _)| **row == ProgramKey::for_caller(caller, row.id));
        owned.filter_map(|(row, it)| Some((row.id, Arc::clone(it.running_snapshot()?)))).collect()
    }

    /// Subscribes to changes of a program.
    pub(crate) fn add_watcher(
        &mut self,
        id: CallId,
    ) -> watch::Receiver<Option<Arc<ProgramSnapshot>>> {
        self.watchers.entry(id).or_insert_with(|| watch::Sender::new(None)).subscribe()
    }

    /// Removes the watcher if no receiver is left.
    pub(crate) fn remove_watcher(&mut self, id: CallId) {
        if self.watchers.get(&id).is_some_and(|it| it.receiver_count() == 0) {
            self.watchers.remove(&id);
        }
    }

    /// Notifies the watchers; the view is built only if there are any.
    pub(crate) fn notify_watchers(&mut self, program: &ProgramState) {
        self.remove_watcher(program.id);
        if let Some(watched) = self.watchers.get(&program.id) {
            watched.send_replace(Some(Arc::new(ProgramSnapshot::from_program(program))));
        }
        if program.has_ended() {
            self.watchers.remove(&program.id);
        }
    }

    /// Records a program that has ended or waits. `pending_calls` are its previous pending calls.
    pub(crate) fn record_progress(&mut self, stored: &StoredProgram, pending_calls: &[CallId]) {
        self.notify_watchers(&stored.program);
        if !stored.is_stored() {
            return self.recent_programs.push_program(stored);
        }
        self.remove_unfinished(&stored.program_key(), pending_calls);
        if !stored.program.has_ended() {
            self.add_unfinished(
                stored.program_key(),
                stored.program.state,
                &stored.program.pending_calls(),
            );
        }
    }

    pub(crate) fn find_recently_ended(&self, id: CallId) -> Option<StoredProgram> {
        self.recent_programs.find_program(id).cloned()
    }

    pub(crate) fn recently_ended(&self) -> impl Iterator<Item = &StoredProgram> {
        self.recent_programs.iter_programs()
    }
}
