//! Where programs are kept: rows of the store, and lines of an index in memory.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tool::outcome::Failure;
use tool::store::Expect;
use tool::{CallId, Code, Json, Store, StoreError, Version, Wall};

use crate::program::{Program, State};

const PREFIX: &str = "program/";
/// Programs of one page of the store.
const PAGE: usize = 256;
/// Programs that wait at once.
const WAITING: usize = 10_000;
/// Milliseconds for which one that ended is kept.
const KEPT: u64 = 24 * 60 * 60 * 1_000;

fn key(id: CallId) -> String {
    format!("{PREFIX}{id}")
}

/// A program and its row, where it has one.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) program: Program,
    version: Option<Version>,
}

impl Kept {
    /// One that has no row yet: most never need one.
    pub(crate) fn new(program: Program) -> Self {
        Self { program, version: None }
    }

    pub(crate) async fn read(store: &dyn Store, id: CallId) -> Result<Option<Self>, Failure> {
        let found = store.get(&key(id)).await.map_err(|error| unavailable(&error))?;
        let Some(found) = found else { return Ok(None) };
        let program = serde_json::from_slice(&found.bytes).map_err(|error| {
            tracing::error!(%error, program = %id, "a program cannot be read");
            Failure::new(Code::StoreUnavailable, "the program cannot be read")
        })?;
        Ok(Some(Self { program, version: Some(found.version) }))
    }

    /// Whether it has a row.
    pub(crate) fn is_kept(&self) -> bool {
        self.version.is_some()
    }

    /// Writes it over what was read; a conflict where another came first.
    pub(crate) async fn write(&mut self, store: &dyn Store) -> Result<(), Failure> {
        let expect = self.version.map_or(Expect::Absent, Expect::Version);
        let bytes: Bytes = Json::of(&self.program).bytes().clone();
        let written = store.put(&key(self.program.id), expect, Some(bytes)).await;
        self.version = Some(written.map_err(|error| unavailable(&error))?);
        Ok(())
    }
}

fn unavailable(error: &StoreError) -> Failure {
    let code = match error {
        StoreError::Conflict { .. } => Code::Conflict,
        StoreError::Unavailable(_) => Code::StoreUnavailable,
    };
    Failure::new(code, format!("the program is not kept: {error}"))
}

/// All rows; one that cannot be read is told and passed over.
pub(crate) async fn all(store: &dyn Store) -> Result<Vec<Kept>, Failure> {
    let (mut all, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = store.scan(PREFIX, after.as_deref(), PAGE).await;
        let page = page.map_err(|error| unavailable(&error))?;
        let full = page.len() == PAGE;
        after = page.last().map(|row| row.key.clone());
        for row in page {
            match serde_json::from_slice(&row.bytes) {
                Ok(program) => all.push(Kept { program, version: Some(row.version) }),
                Err(error) => tracing::error!(%error, key = row.key, "a program cannot be read"),
            }
        }
        if !full {
            return Ok(all);
        }
    }
}

/// Takes the row of one away that ended long ago.
pub(crate) async fn forget_old(store: &dyn Store, kept: &Kept, now: Wall) {
    let old = kept.program.ended.unwrap_or(kept.program.created);
    if let Some(version) = kept.version.filter(|_| now.0.saturating_sub(old.0) > KEPT) {
        drop(store.put(&key(kept.program.id), Expect::Version(version), None).await);
    }
}

/// What is known of programs without the store.
#[derive(Debug)]
pub(crate) struct Index {
    /// By held call.
    held: HashMap<CallId, CallId>,
    /// Those that run here, with what gives them up and who watches.
    running: HashMap<CallId, (CancellationToken, watch::Sender<()>)>,
    /// The last few that ended and have no row.
    lately: VecDeque<Kept>,
    most: usize,
}

impl Index {
    pub(crate) fn new(most: usize) -> Self {
        let (held, running) = (HashMap::new(), HashMap::new());
        Self { held, running, lately: VecDeque::new(), most }
    }

    /// Whether one more may wait.
    pub(crate) fn has_room(&self) -> bool {
        self.held.len() < WAITING
    }

    /// It waits from here on.
    pub(crate) fn waits(&mut self, kept: &Kept) {
        for call in kept.program.waits_for() {
            self.held.insert(call, kept.program.id);
        }
    }

    /// The program that waits for this call.
    pub(crate) fn waits_for(&self, call: CallId) -> Option<CallId> {
        self.held.get(&call).copied()
    }

    /// All that wait.
    pub(crate) fn waiting(&self) -> Vec<CallId> {
        let mut all: Vec<CallId> = self.held.values().copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// It goes on here; nothing where it does already.
    pub(crate) fn claims(&mut self, id: CallId) -> Option<CancellationToken> {
        if self.running.contains_key(&id) {
            return None;
        }
        let token = CancellationToken::new();
        self.running.insert(id, (token.clone(), watch::channel(()).0));
        Some(token)
    }

    /// It does not run here any more.
    pub(crate) fn leaves(&mut self, id: CallId) {
        // Those who watch see their sender go.
        self.running.remove(&id);
    }

    pub(crate) fn token(&self, id: CallId) -> Option<CancellationToken> {
        self.running.get(&id).map(|(token, _)| token.clone())
    }

    pub(crate) fn watch(&self, id: CallId) -> Option<watch::Receiver<()>> {
        self.running.get(&id).map(|(_, watched)| watched.subscribe())
    }

    /// It has come as far as it comes now: to its end, or to a wait.
    pub(crate) fn ended(&mut self, kept: &Kept) {
        if !kept.is_kept() {
            // What waited has a row: the index need not be gone through for the others.
            if self.lately.len() == self.most {
                self.lately.pop_front();
            }
            return self.lately.push_back(kept.clone());
        }
        let id = kept.program.id;
        self.held.retain(|_, program| *program != id);
        if kept.program.state == State::Waiting {
            self.waits(kept);
        }
    }

    pub(crate) fn ended_lately(&self, id: CallId) -> Option<Kept> {
        self.lately.iter().rev().find(|kept| kept.program.id == id).cloned()
    }

    pub(crate) fn lately(&self) -> Vec<Kept> {
        self.lately.iter().cloned().collect()
    }
}
