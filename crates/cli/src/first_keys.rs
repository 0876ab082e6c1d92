//! The first keys of an installation: created on the first start, and recovered when lost.

use std::fs;
use std::path::PathBuf;

use bytes::Bytes;
use cli_core::data::{DataDir, FirstKey, Held, KeyChanges, KeyState};
use cli_core::failure::{Exit, Failure};
use identity::{KeyId, KeyRecord, NewKey};
use rooted_fs::private_file;
use server_core::{ApiError, Keys};
use tool::ledger::Event;
use tool::store::Expect;
use tool::{Org, Wall};

/// The store row that marks the first start as complete.
const FIRST_START: &str = "installation/first_start";

/// The record event for an owner key that was revoked because another one replaced it.
pub fn revocation(at: Wall, key: &str) -> Event {
    Event {
        at,
        org: Org::default(),
        event: "key_revoked".to_owned(),
        by: None,
        source: None,
        tool: None,
        before: None,
        after: None,
        note: Some(format!("the owner key {key}: another took its place")),
    }
}

fn failed(error: &ApiError) -> Failure {
    Failure::new(Exit::NoServer, error.message())
}

fn new_key(key: FirstKey, id: KeyId) -> NewKey {
    match key {
        FirstKey::Owner => NewKey::owner(id),
        FirstKey::Agent => NewKey::agent(id),
    }
}

/// Creates `owner.key` and `agent.key` on the first start, or missing ones if `anew` is set. An
/// existing file is never changed. A new owner key replaces the one whose file is missing,
/// which is revoked.
///
/// # Errors
/// Returns an error if the store or the directory cannot be written, or without randomness.
pub async fn first_keys(
    held: &Held,
    keys: &Keys,
    now: Wall,
    anew: bool,
) -> Result<KeyChanges, Failure> {
    let store = keys.store();
    let told = |error: tool::StoreError| Failure::new(Exit::NoServer, error.to_string());
    // The marker is written last: an interrupted first start is repeated.
    let done = store.get(FIRST_START).await.map_err(told)?.is_some();
    complete_owner(held, keys, now).await?;
    let mut changes = KeyChanges::default();
    if done && !anew {
        return Ok(changes);
    }
    for key in FirstKey::ALL {
        if !held.data().key_file(key).exists() {
            make(held, key, keys, now).await?;
            changes.made.push(key);
        }
    }
    if changes.made.contains(&FirstKey::Owner) {
        changes.revoked = revoke_replaced(held, keys, now).await?;
    }
    if !done {
        let mark = Bytes::from(now.to_string());
        store.put(FIRST_START, Expect::Absent, Some(mark)).await.map_err(told)?;
    }
    Ok(changes)
}

/// Ensures one valid owner key and one valid agent key with their files. A file with an invalid
/// key is renamed, and every other owner key of a first start is revoked. The caller holds the
/// data directory and could change the store itself.
///
/// # Errors
/// As [`first_keys`].
pub async fn recover_keys(held: &Held, keys: &Keys, now: Wall) -> Result<KeyChanges, Failure> {
    let mut set_aside = Vec::new();
    for key in FirstKey::ALL {
        if held.data().key_state(&keys.ring(), key, now) == KeyState::Invalid {
            let (path, aside) = (held.data().key_file(key), invalid_file(held.data(), key));
            fs::rename(&path, &aside).map_err(|error| {
                let message = format!("the key `{}` cannot be put aside: {error}", path.display());
                Failure::new(Exit::NoServer, message)
            })?;
            set_aside.push(aside);
        }
    }
    let mut changes = first_keys(held, keys, now, true).await?;
    changes.set_aside = set_aside;
    changes.revoked.extend(revoke_replaced(held, keys, now).await?);
    Ok(changes)
}

fn invalid_file(data: &DataDir, key: FirstKey) -> PathBuf {
    data.key_file(key).with_extension("key.invalid")
}

/// Revokes the initial owner keys except the one in the file: they have the same rights without
/// expiry, and their holders are unknown.
async fn revoke_replaced(held: &Held, keys: &Keys, now: Wall) -> Result<Vec<String>, Failure> {
    let ring = keys.ring();
    let presented = held.data().key(FirstKey::Owner)?;
    let Ok(owner) = ring.verify(Some(presented.open()), now) else { return Ok(Vec::new()) };
    let replaced = |record: &&KeyRecord| {
        let made = NewKey::owner(record.id.clone());
        record.id.as_str() != owner.key()
            && record.label == made.label
            && (record.org == made.org && record.subject == made.subject)
            && (record.level == made.level && record.agent == made.agent)
            && record.delegations.is_empty()
            && ring.over(record.id.as_str(), now).is_none()
    };
    let records = ring.records();
    let ids: Vec<_> =
        records.into_iter().filter(replaced).map(|record| record.id.to_string()).collect();
    for id in &ids {
        keys.revoke(id, now).await.map_err(|error| failed(&error))?;
        tracing::warn!(key = id, "the owner key whose file is missing is revoked");
    }
    Ok(ids)
}

/// Adds the rights that newer versions introduced to an older owner key.
async fn complete_owner(held: &Held, keys: &Keys, now: Wall) -> Result<(), Failure> {
    // A file that cannot be read is reported where it is needed.
    let Ok(presented) = held.data().key(FirstKey::Owner) else { return Ok(()) };
    if keys.complete(presented.open(), now).await.map_err(|error| failed(&error))? {
        tracing::info!("the owner's key has the rights that came since it was made");
    }
    Ok(())
}

async fn make(held: &Held, key: FirstKey, keys: &Keys, now: Wall) -> Result<(), Failure> {
    let new = new_key(key, Keys::fresh_id().map_err(|error| failed(&error))?);
    let (secret, _) = keys.create(new, now).await.map_err(|error| failed(&error))?;
    let text = format!("{}\n", secret.open());
    let path = held.data().key_file(key);
    private_file::create_with(&path, text.as_bytes()).map_err(|error| {
        let message = format!("the key `{}` cannot be written: {error}", path.display());
        Failure::new(Exit::NoServer, message)
    })
}

#[cfg(test)]
mod tests;
