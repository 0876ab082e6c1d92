//! Program repository: two rows of the store for each program. The state row holds the whole
//! program. The small head row holds what lists, starts and limits need.
//!
//! The two rows are not written atomically. The state is written before the head, except if there
//! is no head or the head says that the program is idle. Whenever a process dies, each state
//! therefore has a head, and no head marks an active program as idle. The next resume repairs an
//! outdated head.

use std::sync::Arc;

use bytes::Bytes;
use tool::call_outcome::CallFailure;
use tool::store::WritePrecondition;
use tool::{CallId, Caller, ErrorCode, Json, Store, StoreError, Version, VersionedValue, WallTime};

use crate::program_head::ProgramHead;
use crate::program_state::ProgramState;

const STATE_PREFIX: &str = "program-state/";
pub(crate) const HEAD_PREFIX: &str = "program-head/";
/// Key prefix of older versions, which stored a program in one row.
const LEGACY_PREFIX: &str = "program/";
/// Retention of ended programs, in milliseconds.
const RETENTION_MS: u64 = 24 * 60 * 60 * 1_000;
/// Maximum number of attempts to write the head of an idle program against concurrent writes.
const MAX_WRITE_ATTEMPTS: usize = 3;

/// Key of a program's rows. All programs of one caller are adjacent, in order of time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ProgramKey {
    /// A hash of the caller, as subjects may have any sign in them.
    owner_hash: Arc<str>,
    pub(crate) id: CallId,
}

impl ProgramKey {
    pub(crate) fn for_caller(caller: &Caller, id: CallId) -> Self {
        Self { owner_hash: hash_owner(caller), id }
    }

    fn state_key(&self) -> String {
        format!("{STATE_PREFIX}{}/{}", self.owner_hash, self.id)
    }

    pub(crate) fn head_key(&self) -> String {
        format!("{HEAD_PREFIX}{}/{}", self.owner_hash, self.id)
    }
}

/// Hashes a caller to one path segment of a row key.
pub(crate) fn hash_owner(caller: &Caller) -> Arc<str> {
    let Caller { org, subject, key_id: key, .. } = caller;
    let hash = catalog::canonical_json::arguments_digest(&Json::encode(&(org, key, subject)));
    let digits: String =
        hash.with_str(|text| text.chars().skip("sha256:".len()).take(32).collect());
    digits.into()
}

/// A program with the versions of its rows, if it is stored.
#[derive(Debug, Clone)]
pub(crate) struct StoredProgram {
    pub(crate) program: ProgramState,
    version: Option<Version>,
    /// The head as last read or written; its content is `None` if unreadable.
    head: Option<(Version, Option<ProgramHead>)>,
}

impl StoredProgram {
    /// Creates a program without a row, since most programs never need one.
    pub(crate) fn new(program: ProgramState) -> Self {
        Self { program, version: None, head: None }
    }

    pub(crate) fn program_key(&self) -> ProgramKey {
        ProgramKey::for_caller(&self.program.caller, self.program.id)
    }

    pub(crate) async fn load(
        store: &dyn Store,
        program_key: &ProgramKey,
    ) -> Result<Option<Self>, CallFailure> {
        let Some(found) = get_row(store, &program_key.state_key()).await? else { return Ok(None) };
        let program = serde_json::from_slice(&found.bytes).map_err(|error| {
            tracing::error!(%error, program = %program_key.id, "cannot parse a program");
            CallFailure::new(ErrorCode::StoreUnavailable, "cannot parse the program")
        })?;
        let head = get_row(store, &program_key.head_key()).await?;
        let head = head.map(|it| (it.version, serde_json::from_slice(&it.bytes).ok()));
        Ok(Some(Self { program, version: Some(found.version), head }))
    }

    /// Returns whether the program has a row.
    pub(crate) fn is_stored(&self) -> bool {
        self.version.is_some()
    }

    /// Encodes the complete state, as stored.
    pub(crate) fn encode_state(&self) -> Bytes {
        Json::encode(&self.program).bytes().clone()
    }

    /// Saves the state if the stored version is unchanged, else returns a conflict. `bytes` are
    /// those of [`StoredProgram::encode_state`], and `head` describes them.
    pub(crate) async fn save(
        &mut self,
        store: &dyn Store,
        (head, bytes): (ProgramHead, Bytes),
    ) -> Result<(), CallFailure> {
        let head = ProgramHead { is_first_write: self.version.is_none(), ..head };
        let known =
            self.head.as_ref().map(|(_, known)| known.as_ref().is_none_or(ProgramHead::is_idle));
        if known.is_none_or(|rests| rests && !head.is_idle()) {
            self.write_head(store, &head).await?;
        }
        let expect = self.version.map_or(WritePrecondition::Absent, WritePrecondition::Version);
        let written = store.put_value(&self.program_key().state_key(), expect, Some(bytes)).await;
        self.version = Some(written.map_err(|error| store_unavailable(&error))?);
        self.settle_head(store, &head).await
    }

    /// Writes the head, unless the stored one covers it.
    async fn write_head(
        &mut self,
        store: &dyn Store,
        head: &ProgramHead,
    ) -> Result<(), CallFailure> {
        let known = self.head.as_ref().and_then(|(_, known)| known.as_ref());
        if known.is_some_and(|known| known.covers(head)) {
            return Ok(());
        }
        let expect = self
            .head
            .as_ref()
            .map_or(WritePrecondition::Absent, |(at, _)| WritePrecondition::Version(*at));
        let bytes = Json::encode(head).bytes().clone();
        let written = store.put_value(&self.program_key().head_key(), expect, Some(bytes)).await;
        self.head = Some((written.map_err(|error| store_unavailable(&error))?, Some(head.clone())));
        Ok(())
    }

    /// Writes the head after its state, replacing any concurrent write.
    pub(crate) async fn settle_head(
        &mut self,
        store: &dyn Store,
        head: &ProgramHead,
    ) -> Result<(), CallFailure> {
        let mut tries = 0;
        loop {
            match self.write_head(store, head).await {
                Err(failure)
                    if failure.code == ErrorCode::Conflict && tries < MAX_WRITE_ATTEMPTS =>
                {
                    tries += 1;
                }
                other => return other,
            }
            let found = get_row(store, &self.program_key().head_key()).await?;
            self.head = found.map(|it| (it.version, None));
        }
    }
}

/// Returns whether the state of a program was written.
pub(crate) async fn has_state(
    store: &dyn Store,
    program_key: &ProgramKey,
) -> Result<bool, CallFailure> {
    Ok(get_row(store, &program_key.state_key()).await?.is_some())
}

async fn get_row(store: &dyn Store, key: &str) -> Result<Option<VersionedValue>, CallFailure> {
    store.get_value(key).await.map_err(|error| store_unavailable(&error))
}

/// Deletes the rows of a program. After a concurrent write, the next purge deletes them.
pub(crate) async fn delete_program(
    store: &dyn Store,
    program_key: &ProgramKey,
) -> Result<(), CallFailure> {
    for key in [program_key.state_key(), program_key.head_key()] {
        let Some(found) = get_row(store, &key).await? else { continue };
        match store.put_value(&key, WritePrecondition::Version(found.version), None).await {
            Ok(_) => {}
            Err(StoreError::Conflict { .. }) => return Ok(()),
            Err(error) => return Err(store_unavailable(&error)),
        }
    }
    Ok(())
}

/// Returns whether the retention time of a program that ended at `ended` is over.
pub(crate) fn is_past_retention(ended: Option<WallTime>, now: WallTime) -> bool {
    ended.is_some_and(|ended| now.0.saturating_sub(ended.0) > RETENTION_MS)
}

pub(crate) fn store_unavailable(error: &StoreError) -> CallFailure {
    let code = match error {
        StoreError::Conflict { .. } => ErrorCode::Conflict,
        StoreError::Unavailable(_) => ErrorCode::StoreUnavailable,
    };
    CallFailure::new(code, format!("cannot store the program: {error}"))
}

/// Migrates programs of older versions from one row to two. A program that cannot be read is logged
/// and left as it is.
pub(crate) async fn migrate_rows(store: &dyn Store) -> Result<(), CallFailure> {
    let mut after = None::<String>;
    loop {
        // One by one: each may have megabytes.
        let page = store.scan_prefix(LEGACY_PREFIX, after.as_deref(), 1).await;
        let page = page.map_err(|error| store_unavailable(&error))?;
        let Some(found) = page.into_iter().next() else { return Ok(()) };
        after = Some(found.key.clone());
        let program: ProgramState = match serde_json::from_slice(&found.bytes) {
            Ok(program) => program,
            Err(error) => {
                tracing::error!(%error, found.key, "cannot parse a program");
                continue;
            }
        };
        let mut stored = StoredProgram::new(program);
        let bytes = stored.encode_state();
        let head = ProgramHead::from_program(&stored.program, bytes.len());
        match store
            .put_value(&stored.program_key().state_key(), WritePrecondition::Absent, Some(bytes))
            .await
        {
            // A process that died in the middle of this wrote it.
            Ok(_) | Err(StoreError::Conflict { .. }) => stored.settle_head(store, &head).await?,
            Err(error) => return Err(store_unavailable(&error)),
        }
        let removed =
            store.put_value(&found.key, WritePrecondition::Version(found.version), None).await;
        removed.map_err(|error| store_unavailable(&error))?;
    }
}
