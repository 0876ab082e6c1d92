//! Verification of the whole record on demand: one at a time, in the background, with the result of the
//! last one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use identity::Principal;
use schemars::JsonSchema;
use serde::Serialize;
use tokio_util::task::TaskTracker;
use tool::ledger::RecordVerification;
use tool::{ErrorCode, WallTime};

use crate::error::ApiError;
use crate::record_storage::require_storage_access;
use crate::server_state::ServerState;

/// Maximum number of findings of a reply; `toolkeep record verify` lists more.
const MAX_FINDINGS: usize = 50;

/// The last verification of this process.
#[derive(Debug, Default)]
pub struct RecordVerifier {
    state: Mutex<VerifierState>,
    tasks: TaskTracker,
}

#[derive(Debug, Default)]
struct VerifierState {
    /// Start of the verification that runs.
    running_since: Option<WallTime>,
    last: Option<CompletedVerification>,
}

#[derive(Debug, Clone)]
struct CompletedVerification {
    finished_at: WallTime,
    /// The error text if the record could not be read.
    result: Result<RecordVerification, String>,
}

/// The state of the verification.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VerificationReply {
    /// State: `never`, `running`, `intact`, `damaged`, or `failed` if the record could not be read.
    pub state: &'static str,
    /// Start of the verification that runs, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_since: Option<String>,
    /// End of the last verification, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished: Option<String>,
    /// Number of verified records.
    pub records: u64,
    /// Number of records after the last checkpoint: a removal of these is not detected.
    pub unsealed: u64,
    /// What is damaged, with file and place.
    pub findings: Vec<String>,
    /// Number of further findings.
    pub more_findings: u64,
    /// Why the record could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl RecordVerifier {
    fn lock(&self) -> MutexGuard<'_, VerifierState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reply(&self) -> VerificationReply {
        let state = self.lock();
        let mut reply = VerificationReply {
            state: "never",
            running_since: state.running_since.map(|since| since.to_string()),
            finished: state.last.as_ref().map(|last| last.finished_at.to_string()),
            records: 0,
            unsealed: 0,
            findings: Vec::new(),
            more_findings: 0,
            problem: None,
        };
        match state.last.as_ref().map(|last| &last.result) {
            None => {}
            Some(Err(problem)) => {
                reply.state = "failed";
                reply.problem = Some(problem.clone());
            }
            Some(Ok(found)) => {
                let shown = found.findings.len().min(MAX_FINDINGS);
                let hidden = u64::try_from(found.findings.len() - shown).unwrap_or(u64::MAX);
                reply.state = if found.findings.is_empty() { "intact" } else { "damaged" };
                (reply.records, reply.unsealed) = (found.records, found.unsealed_records);
                reply.findings = found.findings.iter().take(shown).cloned().collect();
                reply.more_findings = found.more_findings.saturating_add(hidden);
            }
        }
        if reply.running_since.is_some() {
            reply.state = "running";
        }
        reply
    }
}

/// Returns the state of the verification.
///
/// # Errors
/// As [`show_storage`](crate::record_storage::show_storage).
pub fn show_verification(
    state: &ServerState,
    principal: &Principal,
) -> Result<VerificationReply, ApiError> {
    require_storage_access(principal)?;
    Ok(state.record_verifier.reply())
}

/// Starts a verification, unless one is running, and returns the state.
///
/// # Errors
/// As [`show_verification`]; [`ErrorCode::NotFound`] if the record has no files.
pub fn start_verification(
    state: &ServerState,
    principal: &Principal,
) -> Result<VerificationReply, ApiError> {
    require_storage_access(principal)?;
    let inspector = state.components.record_inspector.clone();
    let inspector = inspector.ok_or_else(|| {
        ApiError::new(ErrorCode::NotFound, "the record of this server has no files")
    })?;
    {
        let mut verifier = state.record_verifier.lock();
        if verifier.running_since.is_some() {
            drop(verifier);
            return Ok(state.record_verifier.reply());
        }
        verifier.running_since = Some(state.components.clock.wall_now());
    }
    tracing::info!(by = principal.key_id(), "verification of the record started");
    let server = state.clone();
    drop(state.record_verifier.tasks.spawn(async move {
        let result = inspector.verify_record().await.map_err(|error| error.to_string());
        if let Ok(found) = &result
            && !found.findings.is_empty()
        {
            tracing::error!(findings = found.findings.len(), "the record is damaged");
        }
        let finished_at = server.components.clock.wall_now();
        let mut verifier = server.record_verifier.lock();
        verifier.running_since = None;
        verifier.last = Some(CompletedVerification { finished_at, result });
    }));
    Ok(state.record_verifier.reply())
}
