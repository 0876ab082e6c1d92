//! Head row of a program: the small summary that lists, starts and limits need.

use identity::RequestRestrictions;
use serde::{Deserialize, Serialize};
use tool::call_outcome::CallFailure;
use tool::{CallId, Caller, Store, WallTime};

use crate::program_state::{ProgramState, ProgramStatus};
use crate::program_store::{self, HEAD_PREFIX, ProgramKey, hash_owner};

/// Heads of one page of the store.
const STORE_PAGE_SIZE: usize = 256;
/// Maximum age of an unfinished program, in milliseconds.
const MAX_PROGRAM_AGE_MS: u64 = 7 * 24 * 60 * 60 * 1_000;
/// Granularity of the stored size, so that not every call rewrites the head.
const SIZE_STEP_BYTES: usize = 64 << 10;

/// A call that a program waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PendingCall {
    pub(crate) call: CallId,
    /// Tool of the call, if known.
    pub(crate) tool: Option<String>,
}

/// Summary of a stored program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProgramHead {
    pub(crate) id: CallId,
    pub(crate) caller: Caller,
    #[serde(rename = "narrowed")]
    pub(crate) restrictions: RequestRestrictions,
    #[serde(rename = "created")]
    pub(crate) created_at: WallTime,
    pub(crate) state: ProgramStatus,
    #[serde(rename = "ended")]
    pub(crate) ended_at: Option<WallTime>,
    #[serde(rename = "pending")]
    pub(crate) pending_calls: Vec<PendingCall>,
    /// Whether no head existed before, so that its process may have ended before it wrote the
    /// state.
    #[serde(default)]
    #[serde(rename = "first")]
    pub(crate) is_first_write: bool,
    /// Upper bound of the state's size in bytes.
    #[serde(rename = "bytes")]
    pub(crate) state_bytes: usize,
}

impl ProgramHead {
    /// Creates the head of a program whose state has `bytes` bytes.
    pub(crate) fn from_program(program: &ProgramState, bytes: usize) -> Self {
        let tool = |call: CallId| program.calls.iter().find(|it| it.call == call);
        let pending = |call| PendingCall { call, tool: tool(call).map(|it| it.tool.clone()) };
        Self {
            id: program.id,
            caller: program.caller.clone(),
            restrictions: program.restrictions.clone(),
            created_at: program.created_at,
            state: program.state,
            ended_at: program.ended_at,
            pending_calls: program.pending_calls().into_iter().map(pending).collect(),
            is_first_write: false,
            state_bytes: bytes.next_multiple_of(SIZE_STEP_BYTES),
        }
    }

    pub(crate) async fn load(
        store: &dyn Store,
        program_key: &ProgramKey,
    ) -> Result<Option<Self>, CallFailure> {
        let found = store.get_value(&program_key.head_key()).await;
        let found = found.map_err(|error| program_store::store_unavailable(&error))?;
        Ok(found.and_then(|found| parse_head(&found.key, &found.bytes)))
    }

    pub(crate) fn program_key(&self) -> ProgramKey {
        ProgramKey::for_caller(&self.caller, self.id)
    }

    /// Returns the pending calls of the program.
    pub(crate) fn pending_call_ids(&self) -> Vec<CallId> {
        self.pending_calls.iter().map(|it| it.call).collect()
    }

    /// Returns whether the program makes no progress by itself: it has ended or waits for its
    /// caller.
    pub(crate) fn is_idle(&self) -> bool {
        self.state.has_ended() || self.state == ProgramStatus::Paused
    }

    /// Returns whether the program has exceeded its maximum age.
    pub(crate) fn is_expired(&self, now: WallTime) -> bool {
        !self.state.has_ended() && now.0.saturating_sub(self.created_at.0) > MAX_PROGRAM_AGE_MS
    }

    /// Returns whether this head already contains the facts of `other`.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let alike = Self {
            state_bytes: self.state_bytes,
            is_first_write: self.is_first_write,
            ..other.clone()
        };
        self.state_bytes >= other.state_bytes && alike == *self
    }
}

fn parse_head(key: &str, bytes: &[u8]) -> Option<ProgramHead> {
    let head = serde_json::from_slice(bytes);
    head.inspect_err(|error| tracing::error!(%error, key, "cannot parse the head of a program"))
        .ok()
}

/// The heads of one caller's programs, or of all, page by page; oldest first for each caller.
pub(crate) struct ProgramHeadPages<'a> {
    store: &'a dyn Store,
    prefix: String,
    after: Option<String>,
    is_exhausted: bool,
}

impl<'a> ProgramHeadPages<'a> {
    pub(crate) fn for_caller(store: &'a dyn Store, caller: Option<&Caller>) -> Self {
        let prefix = caller.map_or_else(
            || HEAD_PREFIX.to_owned(),
            |it| format!("{HEAD_PREFIX}{}/", hash_owner(it)),
        );
        Self { store, prefix, after: None, is_exhausted: false }
    }

    /// Returns the next page; `None` after the last. Unreadable heads are logged and skipped.
    pub(crate) async fn next_page(&mut self) -> Result<Option<Vec<ProgramHead>>, CallFailure> {
        if self.is_exhausted {
            return Ok(None);
        }
        let page =
            self.store.scan_prefix(&self.prefix, self.after.as_deref(), STORE_PAGE_SIZE).await;
        let page = page.map_err(|error| program_store::store_unavailable(&error))?;
        self.is_exhausted = page.len() < STORE_PAGE_SIZE;
        self.after = page.last().map(|row| row.key.clone());
        Ok(Some(page.iter().filter_map(|row| parse_head(&row.key, &row.bytes)).collect()))
    }
}
