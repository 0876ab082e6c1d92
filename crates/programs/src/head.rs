//! What of a program is known without its state: a small row of its own.

use identity::Narrowing;
use serde::{Deserialize, Serialize};
use tool::outcome::Failure;
use tool::{CallId, Caller, Store, Wall};

use crate::keep::{self, HEADS, Row, owner};
use crate::program::{Narrowed, Program, State};

/// Heads of one page of the store.
const PAGE: usize = 256;
/// Milliseconds from its beginning in which a program must have ended.
const LIFE: u64 = 7 * 24 * 60 * 60 * 1_000;
/// Sizes are told in steps of so many bytes, so that a head is not written again with each call.
const STEP: usize = 64 << 10;

/// A call that a program waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pending {
    pub(crate) call: CallId,
    /// Its tool, where that is known.
    pub(crate) tool: Option<String>,
}

/// How a program stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) id: CallId,
    pub(crate) caller: Caller,
    pub(crate) narrowed: Narrowed,
    pub(crate) created: Wall,
    pub(crate) state: State,
    pub(crate) ended: Option<Wall>,
    pub(crate) pending: Vec<Pending>,
    /// There was none before it, so that its process may have ended before it wrote the state.
    #[serde(default)]
    pub(crate) first: bool,
    /// The state has no more bytes than these.
    pub(crate) bytes: usize,
}

impl Head {
    /// Of a program whose state has so many bytes.
    pub(crate) fn of(program: &Program, bytes: usize) -> Self {
        let tool = |call: CallId| program.calls.iter().find(|it| it.call == call);
        let pending = |call| Pending { call, tool: tool(call).map(|it| it.tool.clone()) };
        Self {
            id: program.id,
            caller: program.caller.clone(),
            narrowed: program.narrowed.clone(),
            created: program.created,
            state: program.state,
            ended: program.ended,
            pending: program.waits_for().into_iter().map(pending).collect(),
            first: false,
            bytes: bytes.next_multiple_of(STEP),
        }
    }

    pub(crate) async fn read(store: &dyn Store, row: &Row) -> Result<Option<Self>, Failure> {
        let found = store.get(&row.head_key()).await;
        let found = found.map_err(|error| keep::unavailable(&error))?;
        Ok(found.and_then(|found| parsed(&found.key, &found.bytes)))
    }

    pub(crate) fn row(&self) -> Row {
        Row::of(&self.caller, self.id)
    }

    pub(crate) fn narrowing(&self) -> Narrowing {
        self.narrowed.clone().into()
    }

    /// The held calls that it waits for.
    pub(crate) fn waits_for(&self) -> Vec<CallId> {
        self.pending.iter().map(|it| it.call).collect()
    }

    /// Whether nothing comes of it by itself: it has ended, or waits for its caller.
    pub(crate) fn rests(&self) -> bool {
        self.state.has_ended() || self.state == State::Paused
    }

    /// Whether it should have ended by now.
    pub(crate) fn is_over(&self, now: Wall) -> bool {
        !self.state.has_ended() && now.0.saturating_sub(self.created.0) > LIFE
    }

    /// Whether `other` says no more than this one.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let alike = Self { bytes: self.bytes, first: self.first, ..other.clone() };
        self.bytes >= other.bytes && alike == *self
    }
}

fn parsed(key: &str, bytes: &[u8]) -> Option<Head> {
    let head = serde_json::from_slice(bytes);
    head.inspect_err(|error| tracing::error!(%error, key, "the head of a program cannot be read"))
        .ok()
}

/// The heads of one caller's programs, or of all, page by page: the oldest of each caller first.
pub(crate) struct Heads<'a> {
    store: &'a dyn Store,
    prefix: String,
    after: Option<String>,
    ended: bool,
}

impl<'a> Heads<'a> {
    pub(crate) fn of(store: &'a dyn Store, caller: Option<&Caller>) -> Self {
        let prefix = caller.map_or_else(|| HEADS.to_owned(), |it| format!("{HEADS}{}/", owner(it)));
        Self { store, prefix, after: None, ended: false }
    }

    /// The next page; nothing behind the last. One that cannot be read is told and passed over.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Head>>, Failure> {
        if self.ended {
            return Ok(None);
        }
        let page = self.store.scan(&self.prefix, self.after.as_deref(), PAGE).await;
        let page = page.map_err(|error| keep::unavailable(&error))?;
        self.ended = page.len() < PAGE;
        self.after = page.last().map(|row| row.key.clone());
        Ok(Some(page.iter().filter_map(|row| parsed(&row.key, &row.bytes)).collect()))
    }
}
