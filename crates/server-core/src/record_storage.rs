//! The files of the record as an operator sees them: sizes, free space, and the last checkpoint.

use identity::{Principal, Right};
use schemars::JsonSchema;
use serde::Serialize;
use tool::ledger::{RecordStorage, WriterStorage};
use tool::{ErrorCode, Org, WallTime};

use crate::authorization_checks::require_right;
use crate::error::ApiError;
use crate::server_state::ServerState;

/// Milliseconds of an hour.
const HOUR_MS: u64 = 3_600_000;

/// The stored record of all organizations.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RecordStorageReply {
    /// Whether calls can be recorded now.
    pub available: bool,
    /// Why not, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The files of each writer.
    pub writers: Vec<WriterStorageReply>,
    /// Bytes that a day has added on average since the oldest file; absent in the first hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_day: Option<u64>,
    /// Free bytes of the disk, if the system tells.
    pub free_bytes: Option<u64>,
    /// Free bytes below which calls with effects are refused soon.
    pub min_free_bytes: u64,
    /// The last checkpoint: all records before it are sealed.
    pub checkpoint: Option<CheckpointReply>,
    /// Number of damaged places that the server found when it opened the record, or afterwards.
    pub damaged: u64,
    /// Number of calls that ran when a process ended; their outcome is unknown.
    pub unknown_calls: usize,
}

/// The files of one writer of the record.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WriterStorageReply {
    /// Name of the writer.
    pub writer: String,
    /// Number of files.
    pub files: usize,
    /// Bytes in them.
    pub bytes: u64,
    /// Start time of the oldest file, RFC 3339.
    pub since: Option<String>,
    /// Number of files that retention removed.
    pub removed: usize,
}

/// A checkpoint of the record.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CheckpointReply {
    /// Number of the last sealed record.
    pub through: u64,
    /// Root of the tree over all sealed records.
    pub root: String,
    /// Time of the checkpoint, RFC 3339.
    pub at: String,
}

/// Returns whether a principal may see the storage: with the right to read records, in the
/// organization of the installation.
pub(crate) fn may_see_storage(principal: &Principal) -> bool {
    principal.has_right(Right::RecordsRead) && *principal.org() == Org::default()
}

/// Checks that a principal may see the storage, as [`may_see_storage`].
///
/// # Errors
/// [`ErrorCode::Forbidden`].
pub(crate) fn require_storage_access(principal: &Principal) -> Result<(), ApiError> {
    require_right(principal, Right::RecordsRead)?;
    if may_see_storage(principal) {
        return Ok(());
    }
    let message = "the storage of the record belongs to the installation";
    Err(ApiError::new(ErrorCode::Forbidden, message)
        .with_help("use a key of the organisation `default`"))
}

/// Returns what the record stores.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right to read records, and in other organizations; an error
/// if the directory cannot be read.
pub async fn show_storage(
    state: &ServerState,
    principal: &Principal,
) -> Result<RecordStorageReply, ApiError> {
    require_storage_access(principal)?;
    let storage = match &state.components.record_inspector {
        Some(inspector) => inspector.read_storage().await?,
        None => RecordStorage::default(),
    };
    let health = state.components.gateway.check_health();
    Ok(RecordStorageReply {
        available: health.is_ok(),
        problem: health.err().map(|error| error.to_string()),
        bytes_per_day: bytes_per_day(&storage.writers, state.components.clock.wall_now()),
        writers: storage.writers.into_iter().map(writer_reply).collect(),
        free_bytes: storage.free_bytes,
        min_free_bytes: storage.min_free_bytes,
        checkpoint: storage.last_checkpoint.map(|last| CheckpointReply {
            through: last.through,
            root: last.root.to_string(),
            at: last.created_at.to_string(),
        }),
        damaged: storage.damage_count,
        unknown_calls: storage.unknown_calls,
    })
}

/// Averages the size of all files over the time since the oldest one.
fn bytes_per_day(writers: &[WriterStorage], now: WallTime) -> Option<u64> {
    let oldest = writers.iter().filter_map(|files| files.oldest_at).map(|time| time.0).min()?;
    let age = now.0.checked_sub(oldest).filter(|age| *age >= HOUR_MS)?;
    let bytes: u64 = writers.iter().map(|files| files.bytes).sum();
    u64::try_from(u128::from(bytes) * u128::from(24 * HOUR_MS) / u128::from(age)).ok()
}

fn writer_reply(files: WriterStorage) -> WriterStorageReply {
    WriterStorageReply {
        writer: files.writer,
        files: files.segments,
        bytes: files.bytes,
        since: files.oldest_at.map(|since| since.to_string()),
        removed: files.removed_segments,
    }
}

#[cfg(test)]
mod tests {
    use tool::WallTime;
    use tool::ledger::WriterStorage;

    use super::{HOUR_MS, bytes_per_day};

    #[test]
    fn growth_is_what_a_day_adds_since_the_oldest_file() {
        let files = |bytes, oldest| WriterStorage {
            writer: "main".to_owned(),
            segments: 1,
            bytes,
            oldest_at: oldest,
            removed_segments: 0,
        };
        let at = |hours: u64| Some(WallTime(hours * HOUR_MS));
        let writers = [files(600, at(12)), files(400, at(36)), files(0, None)];
        assert_eq!(bytes_per_day(&writers, WallTime(60 * HOUR_MS)), Some(500));
        assert_eq!(bytes_per_day(&writers, WallTime(12 * HOUR_MS + 1)), None, "too early to say");
        assert_eq!(bytes_per_day(&writers, WallTime(0)), None);
        assert_eq!(bytes_per_day(&[], WallTime(HOUR_MS)), None);
    }
}
