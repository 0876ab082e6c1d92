//! Where programs are kept: rows of the store, by their callers.

use std::sync::Arc;

use bytes::Bytes;
use tool::outcome::Failure;
use tool::store::Expect;
use tool::{CallId, Caller, Code, Json, Store, StoreError, Version, Versioned, Wall};

use crate::program::Program;

const PREFIX: &str = "program/";
/// Programs of one page of the store.
const PAGE: usize = 256;
/// Milliseconds for which one that ended is kept.
const KEPT: u64 = 24 * 60 * 60 * 1_000;

/// Names the row of a program: all of one caller are beside each other, in order of time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Row {
    /// A hash of the caller, as subjects may have any sign in them.
    owner: Arc<str>,
    pub(crate) id: CallId,
}

impl Row {
    pub(crate) fn of(caller: &Caller, id: CallId) -> Self {
        Self { owner: owner(caller), id }
    }

    fn key(&self) -> String {
        format!("{PREFIX}{}/{}", self.owner, self.id)
    }
}

fn owner(caller: &Caller) -> Arc<str> {
    let Caller { org, subject, key, .. } = caller;
    let hash = catalog::arguments::digest(&Json::of(&(org, key, subject)));
    let digits: String = hash.text(|text| text.chars().skip("sha256:".len()).take(32).collect());
    digits.into()
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

    pub(crate) fn row(&self) -> Row {
        Row::of(&self.program.caller, self.program.id)
    }

    pub(crate) async fn read(store: &dyn Store, row: &Row) -> Result<Option<Self>, Failure> {
        let found = store.get(&row.key()).await.map_err(|error| unavailable(&error))?;
        found.as_ref().map(Self::of).transpose().map_err(|error| {
            tracing::error!(%error, program = %row.id, "a program cannot be read");
            Failure::new(Code::StoreUnavailable, "the program cannot be read")
        })
    }

    fn of(found: &Versioned) -> Result<Self, serde_json::Error> {
        let program = serde_json::from_slice(&found.bytes)?;
        Ok(Self { program, version: Some(found.version) })
    }

    /// Whether it has a row.
    pub(crate) fn is_kept(&self) -> bool {
        self.version.is_some()
    }

    /// Whether nobody will ask for it any more.
    pub(crate) fn ended_long_ago(&self, now: Wall) -> bool {
        self.program.ended.is_some_and(|ended| now.0.saturating_sub(ended.0) > KEPT)
    }

    /// Takes its row away; the next time where somebody else writes it just now.
    pub(crate) async fn forget(&self, store: &dyn Store) {
        if let Some(version) = self.version {
            drop(store.put(&self.row().key(), Expect::Version(version), None).await);
        }
    }

    /// Writes it over what was read; a conflict where another came first.
    pub(crate) async fn write(&mut self, store: &dyn Store) -> Result<(), Failure> {
        let expect = self.version.map_or(Expect::Absent, Expect::Version);
        let bytes: Bytes = Json::of(&self.program).bytes().clone();
        let written = store.put(&self.row().key(), expect, Some(bytes)).await;
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

/// The rows of one caller, or of all; one that cannot be read is told and passed over.
pub(crate) async fn all(store: &dyn Store, of: Option<&Caller>) -> Result<Vec<Kept>, Failure> {
    let prefix =
        of.map_or_else(|| PREFIX.to_owned(), |caller| format!("{PREFIX}{}/", owner(caller)));
    let (mut all, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = store.scan(&prefix, after.as_deref(), PAGE).await;
        let page = page.map_err(|error| unavailable(&error))?;
        let full = page.len() == PAGE;
        after = page.last().map(|row| row.key.clone());
        for row in &page {
            match Kept::of(row) {
                Ok(kept) => all.push(kept),
                Err(error) => tracing::error!(%error, row.key, "a program cannot be read"),
            }
        }
        if !full {
            return Ok(all);
        }
    }
}
