//! Where programs are kept: two rows of the store for each. The state is the whole program, and only who goes on
//! with it or shows it reads that. The head is what lists, starts and limits need, and is small.
//!
//! No two rows are written at once. The state is written before the head, but where there is no head yet, or it
//! says that the program rests: whatever a process that dies leaves, each state has a head, and no head says that
//! a program rests which does not. Who goes on with a program finds what a head lacks.

use std::sync::Arc;

use bytes::Bytes;
use tool::outcome::Failure;
use tool::store::Expect;
use tool::{CallId, Caller, Code, Json, Store, StoreError, Version, Versioned, Wall};

use crate::head::Head;
use crate::program::Program;

const STATES: &str = "program-state/";
pub(crate) const HEADS: &str = "program-head/";
/// Where programs were kept in one row each.
const WHOLE: &str = "program/";
/// Milliseconds for which one that ended is kept.
const KEPT: u64 = 24 * 60 * 60 * 1_000;
/// How often the head of one that rests is written over what another wrote meanwhile.
const TRIES: usize = 3;

/// Names the rows of a program: all of one caller are beside each other, in order of time.
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

    fn state_key(&self) -> String {
        format!("{STATES}{}/{}", self.owner, self.id)
    }

    pub(crate) fn head_key(&self) -> String {
        format!("{HEADS}{}/{}", self.owner, self.id)
    }
}

/// A caller as one word of a row's name.
pub(crate) fn owner(caller: &Caller) -> Arc<str> {
    let Caller { org, subject, key, .. } = caller;
    let hash = catalog::arguments::digest(&Json::of(&(org, key, subject)));
    let digits: String = hash.text(|text| text.chars().skip("sha256:".len()).take(32).collect());
    digits.into()
}

/// A program and its rows, where it has any.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) program: Program,
    version: Option<Version>,
    /// The head as it was read or written; none where it cannot be read.
    head: Option<(Version, Option<Head>)>,
}

impl Kept {
    /// One that has no row yet: most never need one.
    pub(crate) fn new(program: Program) -> Self {
        Self { program, version: None, head: None }
    }

    pub(crate) fn row(&self) -> Row {
        Row::of(&self.program.caller, self.program.id)
    }

    pub(crate) async fn read(store: &dyn Store, row: &Row) -> Result<Option<Self>, Failure> {
        let Some(found) = get(store, &row.state_key()).await? else { return Ok(None) };
        let program = serde_json::from_slice(&found.bytes).map_err(|error| {
            tracing::error!(%error, program = %row.id, "a program cannot be read");
            Failure::new(Code::StoreUnavailable, "the program cannot be read")
        })?;
        let head = get(store, &row.head_key()).await?;
        let head = head.map(|it| (it.version, serde_json::from_slice(&it.bytes).ok()));
        Ok(Some(Self { program, version: Some(found.version), head }))
    }

    /// Whether it has a row.
    pub(crate) fn is_kept(&self) -> bool {
        self.version.is_some()
    }

    /// The whole of it, as it is kept.
    pub(crate) fn bytes(&self) -> Bytes {
        Json::of(&self.program).bytes().clone()
    }

    /// Writes it over what was read; a conflict where another came first. `bytes` are those of
    /// [`Kept::bytes`], and `head` goes with them.
    pub(crate) async fn write(
        &mut self,
        store: &dyn Store,
        (head, bytes): (Head, Bytes),
    ) -> Result<(), Failure> {
        let head = Head { first: self.version.is_none(), ..head };
        let known = self.head.as_ref().map(|(_, known)| known.as_ref().is_none_or(Head::rests));
        if known.is_none_or(|rests| rests && !head.rests()) {
            self.write_head(store, &head).await?;
        }
        let expect = self.version.map_or(Expect::Absent, Expect::Version);
        let written = store.put(&self.row().state_key(), expect, Some(bytes)).await;
        self.version = Some(written.map_err(|error| unavailable(&error))?);
        self.settle_head(store, &head).await
    }

    /// Where it says something new.
    async fn write_head(&mut self, store: &dyn Store, head: &Head) -> Result<(), Failure> {
        let known = self.head.as_ref().and_then(|(_, known)| known.as_ref());
        if known.is_some_and(|known| known.covers(head)) {
            return Ok(());
        }
        let expect = self.head.as_ref().map_or(Expect::Absent, |(at, _)| Expect::Version(*at));
        let bytes = Json::of(head).bytes().clone();
        let written = store.put(&self.row().head_key(), expect, Some(bytes)).await;
        self.head = Some((written.map_err(|error| unavailable(&error))?, Some(head.clone())));
        Ok(())
    }

    /// The state is written, and with it this head is right, whoever wrote another meanwhile.
    pub(crate) async fn settle_head(
        &mut self,
        store: &dyn Store,
        head: &Head,
    ) -> Result<(), Failure> {
        let mut tries = 0;
        loop {
            match self.write_head(store, head).await {
                Err(failure) if failure.code == Code::Conflict && tries < TRIES => tries += 1,
                other => return other,
            }
            let found = get(store, &self.row().head_key()).await?;
            self.head = found.map(|it| (it.version, None));
        }
    }
}

/// Whether the state of a program was written.
pub(crate) async fn has_state(store: &dyn Store, row: &Row) -> Result<bool, Failure> {
    Ok(get(store, &row.state_key()).await?.is_some())
}

async fn get(store: &dyn Store, key: &str) -> Result<Option<Versioned>, Failure> {
    store.get(key).await.map_err(|error| unavailable(&error))
}

/// Takes the rows of a program away; the next time where somebody else writes them just now.
pub(crate) async fn forget(store: &dyn Store, row: &Row) -> Result<(), Failure> {
    for key in [row.state_key(), row.head_key()] {
        let Some(found) = get(store, &key).await? else { continue };
        match store.put(&key, Expect::Version(found.version), None).await {
            Ok(_) => {}
            Err(StoreError::Conflict { .. }) => return Ok(()),
            Err(error) => return Err(unavailable(&error)),
        }
    }
    Ok(())
}

/// Whether nobody will ask for one that ended then.
pub(crate) fn ended_long_ago(ended: Option<Wall>, now: Wall) -> bool {
    ended.is_some_and(|ended| now.0.saturating_sub(ended.0) > KEPT)
}

pub(crate) fn unavailable(error: &StoreError) -> Failure {
    let code = match error {
        StoreError::Conflict { .. } => Code::Conflict,
        StoreError::Unavailable(_) => Code::StoreUnavailable,
    };
    Failure::new(code, format!("the program is not kept: {error}"))
}

/// Gives programs that an older version kept in one row each their two. One that cannot be read is told and
/// stays as it is.
pub(crate) async fn split_rows(store: &dyn Store) -> Result<(), Failure> {
    let mut after = None::<String>;
    loop {
        // One by one: each may have megabytes.
        let page = store.scan(WHOLE, after.as_deref(), 1).await;
        let page = page.map_err(|error| unavailable(&error))?;
        let Some(found) = page.into_iter().next() else { return Ok(()) };
        after = Some(found.key.clone());
        let program: Program = match serde_json::from_slice(&found.bytes) {
            Ok(program) => program,
            Err(error) => {
                tracing::error!(%error, found.key, "a program cannot be read");
                continue;
            }
        };
        let mut kept = Kept::new(program);
        let bytes = kept.bytes();
        let head = Head::of(&kept.program, bytes.len());
        match store.put(&kept.row().state_key(), Expect::Absent, Some(bytes)).await {
            // A process that died in the middle of this wrote it.
            Ok(_) | Err(StoreError::Conflict { .. }) => kept.settle_head(store, &head).await?,
            Err(error) => return Err(unavailable(&error)),
        }
        let removed = store.put(&found.key, Expect::Version(found.version), None).await;
        removed.map_err(|error| unavailable(&error))?;
    }
}
