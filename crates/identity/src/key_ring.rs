//! The key ring: all keys at one moment, and verification of a presented key.

use std::sync::Arc;

use subtle::ConstantTimeEq as _;
use tool::{Caller, Digest, PermissionLevel, Problem, WallTime};

use crate::api_key::{KeyRecord, key_digest, parse_key_id};
use crate::credential_errors::{CredentialError, CredentialErrorKind};
use crate::effective_rights::{self, RecordsById};
use crate::sharded_map::ShardedMap;
use crate::subject_index::SubjectIndex;
use crate::{Directory, PersonaSet, Principal};

mod key_queries;

/// Checks the secret in constant time, and only then the state of the key: without the secret,
/// nothing about the state is revealed.
fn check_secret_and_state(
    presented: &str,
    held: Option<&KeyEntry>,
    now: WallTime,
) -> Result<(), CredentialError> {
    // An unknown id costs the same hash and comparison as a known one.
    let kept = held.map_or(Digest([0; 32]), |held| held.key_digest);
    let same = bool::from(key_digest(presented).0.ct_eq(&kept.0));
    let reason = match held {
        None => CredentialErrorKind::UnknownId,
        Some(_) if !same => CredentialErrorKind::WrongSecret,
        Some(held) => match held.invalid_reason_at(now) {
            Some(reason) => reason,
            None => return Ok(()),
        },
    };
    Err(CredentialError::new(reason))
}

/// A key's record with its store version.
#[derive(Debug, Clone)]
struct KeyRow {
    record: KeyRecord,
    version: u64,
}

/// A key with its principal, and the reason if it is invalid.
#[derive(Debug, Clone)]
struct KeyEntry {
    key_digest: Digest,
    principal: Principal,
    invalid_reason: Option<CredentialErrorKind>,
}

impl KeyEntry {
    /// Returns the reason if the key is invalid.
    fn invalid_reason_at(&self, now: WallTime) -> Option<CredentialErrorKind> {
        let expired = self.principal.expires_at().is_some_and(|until| until <= now);
        self.invalid_reason.or(expired.then_some(CredentialErrorKind::Expired))
    }
}

/// Credential of a caller whose work continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerCredential<'a> {
    /// The key is valid, with these rights.
    Valid(&'a Principal),
    /// The key is invalid, or it is a token of a disabled user or organisation.
    Invalid,
    /// The ring has no such key, as for a token.
    NotStoredHere,
}

/// All keys at one moment. Immutable: a server swaps it atomically. Principals are computed once,
/// so that verification costs one hash and no copy. A ring with one changed record shares
/// everything else with its predecessor.
#[derive(Debug, Clone, Default)]
pub struct KeyRing {
    rows: ShardedMap<KeyRow>,
    entries: ShardedMap<KeyEntry>,
    /// Ids of all delegated keys, by the id of the first key of their chain.
    delegated_ids: ShardedMap<Vec<String>>,
    subjects: SubjectIndex,
    directory: Arc<Directory>,
    anonymous: Option<Principal>,
    anonymous_level: Option<PermissionLevel>,
}

impl RecordsById for ShardedMap<KeyRow> {
    fn find_record(&self, id: &str) -> Option<&KeyRecord> {
        Self::get(self, id).map(|row| &row.record)
    }
}

impl KeyRing {
    /// Builds a ring of these keys. Of two records with one id the later counts.
    pub fn new(records: impl IntoIterator<Item = KeyRecord>) -> Self {
        Self::with_directory(records, PersonaSet::default())
    }

    /// Builds a ring with a directory.
    pub fn with_directory(
        records: impl IntoIterator<Item = KeyRecord>,
        directory: impl Into<Directory>,
    ) -> Self {
        Self::from_rows(records.into_iter().map(|record| (record, 0)), directory)
    }

    /// Builds a ring of records with their store versions.
    pub fn from_rows(
        rows: impl IntoIterator<Item = (KeyRecord, u64)>,
        directory: impl Into<Directory>,
    ) -> Self {
        let mut ring = Self::default();
        for (record, version) in rows {
            ring.put_row(KeyRow { record, version });
        }
        ring.with_other_directory(directory)
    }

    /// Returns the same keys with another directory. Recomputes all keys.
    #[must_use]
    pub fn with_other_directory(&self, directory: impl Into<Directory>) -> Self {
        let mut ring = Self { directory: Arc::new(directory.into()), ..self.clone() };
        ring.entries = ShardedMap::default();
        for row in self.rows.values() {
            ring.resolve_entry(&row.record);
        }
        ring.anonymous =
            ring.anonymous_level.map(|level| Principal::anonymous(level, &ring.directory));
        ring
    }

    /// Returns the ring after one record was written with this version. Recomputes only the keys
    /// derived from it.
    #[must_use]
    pub fn with_record(&self, record: KeyRecord, version: u64) -> Self {
        let (mut ring, id) = (self.clone(), record.id.to_string());
        ring.put_row(KeyRow { record, version });
        let first = ring.first_of(&id);
        ring.resolve_from(&id, &first);
        ring
    }

    /// Returns the ring after one record was removed.
    #[must_use]
    pub fn without_record(&self, id: &str) -> Self {
        let (mut ring, first) = (self.clone(), self.first_of(id));
        ring.remove_row(id);
        ring.resolve_from(id, &first);
        ring
    }

    /// Returns the first key of a delegation chain.
    fn first_of(&self, id: &str) -> String {
        let first = self.find_record(id).and_then(|record| record.delegations.first());
        first.map_or(id, |hand| hand.delegated_by.as_str()).to_owned()
    }

    fn put_row(&mut self, row: KeyRow) {
        let id = row.record.id.to_string();
        self.remove_row(&id);
        if let Some(first) = row.record.delegations.first() {
            let mut ids = self.delegated_ids.get(&first.delegated_by).cloned().unwrap_or_default();
            ids.push(id.clone());
            self.delegated_ids.insert(&first.delegated_by, ids);
        }
        self.subjects.insert(&row.record);
        self.rows.insert(&id, row);
    }

    fn remove_row(&mut self, id: &str) {
        let Some(row) = self.rows.get(id) else { return };
        self.subjects.remove(&row.record);
        if let Some(first) = row.record.delegations.first().map(|hand| hand.delegated_by.clone()) {
            let mut ids = self.delegated_ids.get(&first).cloned().unwrap_or_default();
            ids.retain(|one| one != id);
            if ids.is_empty() {
                self.delegated_ids.remove(&first);
            } else {
                self.delegated_ids.insert(&first, ids);
            }
        }
        self.rows.remove(id);
        self.entries.remove(id);
    }

    /// Recomputes a key and all keys derived from it.
    fn resolve_from(&mut self, id: &str, first: &str) {
        let came_of = |key: &&KeyRecord| key.delegations.iter().any(|hand| hand.delegated_by == id);
        let came = self.delegated_from(first).filter(came_of).chain(self.find_record(id));
        let all: Vec<KeyRecord> = came.cloned().collect();
        for record in &all {
            self.resolve_entry(record);
        }
    }

    fn resolve_entry(&mut self, record: &KeyRecord) {
        let standing = effective_rights::resolve_rights(record, &self.rows, &self.directory);
        let ended = standing.invalid_reason;
        let principal = Principal::from_key(record, standing);
        let held = KeyEntry { key_digest: record.key_digest, principal, invalid_reason: ended };
        self.entries.insert(record.id.as_str(), held);
    }

    /// Builds a ring from the store, as pairs of key and JSON text. An unreadable record becomes a
    /// problem, and its key is invalid.
    pub fn parse_rows<'a>(
        stored: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        directory: impl Into<Directory>,
    ) -> (Self, Vec<Problem>) {
        let (mut records, mut problems) = (Vec::new(), Vec::new());
        for (name, text) in stored {
            match KeyRecord::parse_record(name, text) {
                Ok(record) => {
                    problems.extend(record.name_problem());
                    records.push(record);
                }
                Err(problem) => problems.push(problem),
            }
        }
        (Self::with_directory(records, directory), problems)
    }

    /// Returns the store version of a key's record.
    pub fn version(&self, id: &str) -> Option<u64> {
        self.rows.get(id).map(|row| row.version)
    }

    /// Returns the number of keys, valid or not.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if there is no key.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 0
    }

    /// Iterates over the records of all keys delegated from this first one.
    pub fn delegated_from(&self, root_id: &str) -> impl Iterator<Item = &KeyRecord> {
        let ids = self.delegated_ids.get(root_id).into_iter().flatten();
        ids.filter_map(|id| self.find_record(id))
    }

    /// Allows anonymous access: callers without a credential get `level`, as agents without rights.
    /// Only for loopback, and only if the operator sets it. A presented credential must still be
    /// valid.
    #[must_use]
    pub fn with_anonymous_access(mut self, level: PermissionLevel) -> Self {
        self.anonymous_level = Some(level);
        self.anonymous = Some(Principal::anonymous(level, &self.directory));
        self
    }

    /// Returns true if anonymous access is allowed.
    pub fn allows_anonymous(&self) -> bool {
        self.anonymous.is_some()
    }

    /// Verifies a presented key; `None` means that nothing was presented.
    ///
    /// # Errors
    /// [`CredentialError`], which looks the same for all reasons.
    pub fn verify_key(
        &self,
        presented: Option<&str>,
        now: WallTime,
    ) -> Result<Principal, CredentialError> {
        let Some(presented) = presented else {
            return self
                .anonymous
                .clone()
                .ok_or(CredentialError::new(CredentialErrorKind::Missing));
        };
        let id =
            parse_key_id(presented).ok_or(CredentialError::new(CredentialErrorKind::Malformed))?;
        let held = self.entries.get(id);
        check_secret_and_state(presented, held, now)?;
        let held = held.ok_or(CredentialError::new(CredentialErrorKind::UnknownId))?;
        Ok(held.principal.clone())
    }

    /// Returns true if a verified credential is still valid. For a token, checks only its expiry
    /// and whether its user or organisation was disabled.
    pub fn is_still_valid(&self, principal: &Principal, now: WallTime) -> bool {
        if let Some(held) = self.entries.get(principal.key_id()) {
            return held.invalid_reason_at(now).is_none();
        }
        if principal.is_from_token() {
            let disabled = self.directory.is_disabled(principal.org(), principal.subject());
            return !disabled && principal.expires_at().is_some_and(|until| now < until);
        }
        self.anonymous.as_ref().is_some_and(|open| open.key_id() == principal.key_id())
    }

    /// Returns the directory beside the keys.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Returns the subjects of all keys.
    pub(crate) fn subjects(&self) -> &SubjectIndex {
        &self.subjects
    }

    /// Returns the persona set.
    pub fn personas(&self) -> &PersonaSet {
        &self.directory.personas
    }

    /// Returns the principal of a caller's key at `now` without its secret, to continue work that
    /// began while it was valid.
    pub fn principal_of_caller(&self, caller: &Caller, now: WallTime) -> CallerCredential<'_> {
        if let Some(held) = self.entries.get(&caller.key_id) {
            let own = held.principal.caller();
            let same = own.subject == caller.subject && own.org == caller.org;
            let holds =
                same && own.actors == caller.actors && held.invalid_reason_at(now).is_none();
            return if holds {
                CallerCredential::Valid(&held.principal)
            } else {
                CallerCredential::Invalid
            };
        }
        let is_token = caller.key_id.contains(':');
        if is_token && self.directory.is_disabled(&caller.org, &caller.subject) {
            return CallerCredential::Invalid;
        }
        match &self.anonymous {
            Some(open) if open.key_id() == caller.key_id => CallerCredential::Valid(open),
            _ => CallerCredential::NotStoredHere,
        }
    }

    /// Returns the record of one key.
    pub fn find_record(&self, id: &str) -> Option<&KeyRecord> {
        self.rows.get(id).map(|row| &row.record)
    }

    /// Returns the principal of a key, from its roles, its parent keys and the directory.
    pub fn principal_of_key(&self, id: &str) -> Option<&Principal> {
        self.entries.get(id).map(|held| &held.principal)
    }

    /// Returns the reason if a key is invalid.
    pub fn invalid_reason(&self, id: &str, now: WallTime) -> Option<CredentialErrorKind> {
        self.entries.get(id).and_then(|held| held.invalid_reason_at(now))
    }
}

#[cfg(test)]
mod tests;
