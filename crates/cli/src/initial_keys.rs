//! The first keys of an installation: created on the first start, and recovered when lost.

use std::fs;
use std::path::PathBuf;

use bytes::Bytes;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::data_dir::{DataDir, DataDirLock, FirstKey, KeyChanges, KeyState};
use identity::{KeyId, KeyRecord, NewKey};
use rooted_fs::private_file;
use server_core::{ApiError, KeyStore};
use tool::ledger::AuditEventRecord;
use tool::store::WritePrecondition;
use tool::{Org, WallTime};

/// The store row that marks the first start as complete.
const FIRST_START_KEY: &str = "installation/first_start";

/// The record event for an owner key that was revoked because another one replaced it.
pub fn revocation_event(time: WallTime, key: &str) -> AuditEventRecord {
    AuditEventRecord {
        recorded_at: time,
        org: Org::default(),
        kind: "key_revoked".to_owned(),
        changed_by: None,
        source: None,
        tool: None,
        digest_before: None,
        digest_after: None,
        comment: Some(format!("the owner key {key}: another took its place")),
    }
}

fn api_failure(error: &ApiError) -> CommandError {
    CommandError::new(ExitStatus::ServerUnavailable, error.message())
}

fn new_key(key: FirstKey, id: KeyId) -> NewKey {
    match key {
        FirstKey::Owner => NewKey::for_owner(id),
        FirstKey::Agent => NewKey::for_agent(id),
    }
}

/// Creates `owner.key` and `agent.key` on the first start, and missing ones if
/// `recreates_missing` is set. An existing file is never changed. A new owner key replaces the one
/// whose file is missing, which is revoked.
///
/// # Errors
/// Returns an error if the store or the directory cannot be written, or without randomness.
pub async fn create_initial_keys(
    lock: &DataDirLock,
    keys: &KeyStore,
    now: WallTime,
    recreates_missing: bool,
) -> Result<KeyChanges, CommandError> {
    let store = keys.store();
    let told = |error: tool::StoreError| {
        CommandError::new(ExitStatus::ServerUnavailable, error.to_string())
    };
    // The marker is written last: an interrupted first start is repeated.
    let done = store.get_value(FIRST_START_KEY).await.map_err(told)?.is_some();
    upgrade_owner_key(lock, keys, now).await?;
    let mut changes = KeyChanges::default();
    if done && !recreates_missing {
        return Ok(changes);
    }
    for key in FirstKey::ALL {
        if !lock.dir().key_file(key).exists() {
            create_key(lock, key, keys, now).await?;
            changes.made.push(key);
        }
    }
    if changes.made.contains(&FirstKey::Owner) {
        changes.revoked = revoke_replaced_owners(lock, keys, now).await?;
    }
    if !done {
        let mark = Bytes::from(now.to_string());
        store
            .put_value(FIRST_START_KEY, WritePrecondition::Absent, Some(mark))
            .await
            .map_err(told)?;
    }
    Ok(changes)
}

/// Ensures one valid owner key and one valid agent key with their files. A file with an invalid
/// key is renamed, and every other owner key of a first start is revoked. The caller holds the
/// data directory and could change the store itself.
///
/// # Errors
/// As [`create_initial_keys`].
pub async fn recover_keys(
    lock: &DataDirLock,
    keys: &KeyStore,
    now: WallTime,
) -> Result<KeyChanges, CommandError> {
    let mut set_aside = Vec::new();
    for key in FirstKey::ALL {
        if lock.dir().key_state(&keys.key_ring(), key, now) == KeyState::Invalid {
            let (path, aside) = (lock.dir().key_file(key), invalid_key_file(lock.dir(), key));
            fs::rename(&path, &aside).map_err(|error| {
                let message =
                    format!("cannot rename the invalid key `{}`: {error}", path.display());
                CommandError::new(ExitStatus::ServerUnavailable, message)
            })?;
            set_aside.push(aside);
        }
    }
    let mut changes = create_initial_keys(lock, keys, now, true).await?;
    changes.set_aside = set_aside;
    changes.revoked.extend(revoke_replaced_owners(lock, keys, now).await?);
    Ok(changes)
}

fn invalid_key_file(data: &DataDir, key: FirstKey) -> PathBuf {
    data.key_file(key).with_extension("key.invalid")
}

/// Revokes the initial owner keys except the one in the file: they have the same rights without
/// expiry, and their holders are unknown.
async fn revoke_replaced_owners(
    held: &DataDirLock,
    keys: &KeyStore,
    now: WallTime,
) -> Result<Vec<String>, CommandError> {
    let ring = keys.key_ring();
    let presented = held.dir().read_key(FirstKey::Owner)?;
    let Ok(owner) = ring.verify_key(Some(presented.expose()), now) else { return Ok(Vec::new()) };
    let replaced = |record: &&KeyRecord| {
        let made = NewKey::for_owner(record.id.clone());
        record.id.as_str() != owner.key_id()
            && record.label == made.label
            && (record.org == made.org && record.subject == made.subject)
            && (record.level == made.level && record.is_agent == made.is_agent)
            && record.delegations.is_empty()
            && ring.invalid_reason(record.id.as_str(), now).is_none()
    };
    let records = ring.sorted_records();
    let ids: Vec<_> =
        records.into_iter().filter(replaced).map(|record| record.id.to_string()).collect();
    for id in &ids {
        keys.revoke_key(id, now).await.map_err(|error| api_failure(&error))?;
        tracing::warn!(key = id, "the owner key whose file is missing was revoked");
    }
    Ok(ids)
}

/// Adds the rights that newer versions introduced to an older owner key.
async fn upgrade_owner_key(
    held: &DataDirLock,
    keys: &KeyStore,
    now: WallTime,
) -> Result<(), CommandError> {
    // A file that cannot be read is reported where it is needed.
    let Ok(presented) = held.dir().read_key(FirstKey::Owner) else { return Ok(()) };
    if keys
        .grant_new_owner_rights(presented.expose(), now)
        .await
        .map_err(|error| api_failure(&error))?
    {
        tracing::info!("added new rights to the owner's key");
    }
    Ok(())
}

async fn create_key(
    held: &DataDirLock,
    key: FirstKey,
    keys: &KeyStore,
    now: WallTime,
) -> Result<(), CommandError> {
    let new = new_key(key, KeyStore::generate_key_id().map_err(|error| api_failure(&error))?);
    let (secret, _) = keys.create_key(new, now).await.map_err(|error| api_failure(&error))?;
    let text = format!("{}\n", secret.expose());
    let path = held.dir().key_file(key);
    private_file::create_atomically(&path, text.as_bytes()).map_err(|error| {
        let message = format!("cannot write the key `{}`: {error}", path.display());
        CommandError::new(ExitStatus::ServerUnavailable, message)
    })
}

#[cfg(test)]
mod tests;
