//! The key ring: all keys at one moment, and verification of a presented key.

use std::sync::Arc;

use subtle::ConstantTimeEq as _;
use tool::{Caller, Digest, Level, Problem, Wall};

use crate::error::{CredentialError, Reason};
use crate::key::{KeyRecord, digest, id_of};
use crate::shards::Shards;
use crate::standing::{self, HANDS, Records};
use crate::subjects::SubjectIndex;
use crate::{Directory, Personas, Principal};

mod queries;

/// Verifies one key against a table, which is also asked for its parent keys.
///
/// # Errors
/// [`CredentialError`], which looks the same for all reasons.
pub fn verify(
    presented: &str,
    lookup: impl Fn(&str) -> Option<KeyRecord>,
    now: Wall,
) -> Result<Principal, CredentialError> {
    let id = id_of(presented).ok_or(CredentialError::new(Reason::Malformed))?;
    let record = lookup(id).filter(|record| record.delegations.len() <= HANDS);
    let hands = record.iter().flat_map(|record| &record.delegations);
    let hands: Vec<_> = hands.filter_map(|hand| lookup(&hand.by)).collect();
    KeyRing::new(record.into_iter().chain(hands)).verify(Some(presented), now)
}

/// Checks the secret in constant time, and only then the state of the key: without the secret,
/// nothing about the state is revealed.
fn judge(presented: &str, held: Option<&Held>, now: Wall) -> Result<(), CredentialError> {
    // An unknown id costs the same hash and comparison as a known one.
    let kept = held.map_or(Digest([0; 32]), |held| held.hash);
    let same = bool::from(digest(presented).0.ct_eq(&kept.0));
    let reason = match held {
        None => Reason::UnknownId,
        Some(_) if !same => Reason::WrongSecret,
        Some(held) => match held.over(now) {
            Some(reason) => reason,
            None => return Ok(()),
        },
    };
    Err(CredentialError::new(reason))
}

/// A key's record with its store version.
#[derive(Debug, Clone)]
struct Row {
    record: KeyRecord,
    version: u64,
}

/// A key with its principal, and the reason if it is invalid.
#[derive(Debug, Clone)]
struct Held {
    hash: Digest,
    principal: Principal,
    ended: Option<Reason>,
}

impl Held {
    /// Returns the reason if the key is invalid.
    fn over(&self, now: Wall) -> Option<Reason> {
        let expired = self.principal.until().is_some_and(|until| until <= now);
        self.ended.or(expired.then_some(Reason::Expired))
    }
}

/// All keys at one moment. Immutable: a server swaps it atomically. Principals are computed once,
/// so that verification costs one hash and no copy. A ring with one changed record shares
/// everything else with its predecessor.
#[derive(Debug, Clone, Default)]
pub struct KeyRing {
    rows: Shards<Row>,
    held: Shards<Held>,
    /// Ids of all delegated keys, by the id of the first key of their chain.
    handed_on: Shards<Vec<String>>,
    subjects: SubjectIndex,
    directory: Arc<Directory>,
    anonymous: Option<Principal>,
    open: Option<Level>,
}

impl Records for Shards<Row> {
    fn get(&self, id: &str) -> Option<&KeyRecord> {
        Self::get(self, id).map(|row| &row.record)
    }
}

impl KeyRing {
    /// Builds a ring of these keys. Of two records with one id the later counts.
    pub fn new(records: impl IntoIterator<Item = KeyRecord>) -> Self {
        Self::with(records, Personas::default())
    }

    /// Builds a ring with a directory.
    pub fn with(
        records: impl IntoIterator<Item = KeyRecord>,
        directory: impl Into<Directory>,
    ) -> Self {
        Self::of_rows(records.into_iter().map(|record| (record, 0)), directory)
    }

    /// Builds a ring of records with their store versions.
    pub fn of_rows(
        rows: impl IntoIterator<Item = (KeyRecord, u64)>,
        directory: impl Into<Directory>,
    ) -> Self {
        let mut ring = Self::default();
        for (record, version) in rows {
            ring.put_row(Row { record, version });
        }
        ring.under(directory)
    }

    /// Returns the same keys with another directory. Recomputes all keys.
    #[must_use]
    pub fn under(&self, directory: impl Into<Directory>) -> Self {
        let mut ring = Self { directory: Arc::new(directory.into()), ..self.clone() };
        ring.held = Shards::default();
        for row in self.rows.values() {
            ring.settle(&row.record);
        }
        ring.anonymous = ring.open.map(|level| Principal::anonymous(level, &ring.directory));
        ring
    }

    /// Returns the ring after one record was written with this version. Recomputes only the keys
    /// derived from it.
    #[must_use]
    pub fn with_record(&self, record: KeyRecord, version: u64) -> Self {
        let (mut ring, id) = (self.clone(), record.id.to_string());
        ring.put_row(Row { record, version });
        let first = ring.first_of(&id);
        ring.settle_from(&id, &first);
        ring
    }

    /// Returns the ring after one record was removed.
    #[must_use]
    pub fn without(&self, id: &str) -> Self {
        let (mut ring, first) = (self.clone(), self.first_of(id));
        ring.take_row(id);
        ring.settle_from(id, &first);
        ring
    }

    /// Returns the first key of a delegation chain.
    fn first_of(&self, id: &str) -> String {
        let first = self.get(id).and_then(|record| record.delegations.first());
        first.map_or(id, |hand| hand.by.as_str()).to_owned()
    }

    fn put_row(&mut self, row: Row) {
        let id = row.record.id.to_string();
        self.take_row(&id);
        if let Some(first) = row.record.delegations.first() {
            let mut ids = self.handed_on.get(&first.by).cloned().unwrap_or_default();
            ids.push(id.clone());
            self.handed_on.insert(&first.by, ids);
        }
        self.subjects.insert(&row.record);
        self.rows.insert(&id, row);
    }

    fn take_row(&mut self, id: &str) {
        let Some(row) = self.rows.get(id) else { return };
        self.subjects.remove(&row.record);
        if let Some(first) = row.record.delegations.first().map(|hand| hand.by.clone()) {
            let mut ids = self.handed_on.get(&first).cloned().unwrap_or_default();
            ids.retain(|one| one != id);
            if ids.is_empty() {
                self.handed_on.remove(&first);
            } else {
                self.handed_on.insert(&first, ids);
            }
        }
        self.rows.remove(id);
        self.held.remove(id);
    }

    /// Recomputes a key and all keys derived from it.
    fn settle_from(&mut self, id: &str, first: &str) {
        let came_of = |key: &&KeyRecord| key.delegations.iter().any(|hand| hand.by == id);
        let came = self.handed_on(first).filter(came_of).chain(self.get(id));
        let all: Vec<KeyRecord> = came.cloned().collect();
        for record in &all {
            self.settle(record);
        }
    }

    fn settle(&mut self, record: &KeyRecord) {
        let standing = standing::of(record, &self.rows, &self.directory);
        let ended = standing.ended;
        let principal = Principal::of(record, standing);
        let held = Held { hash: record.hash, principal, ended };
        self.held.insert(record.id.as_str(), held);
    }

    /// Builds a ring from the store, as pairs of key and JSON text. An unreadable record becomes a
    /// problem, and its key is invalid.
    pub fn read<'a>(
        stored: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        directory: impl Into<Directory>,
    ) -> (Self, Vec<Problem>) {
        let (mut records, mut problems) = (Vec::new(), Vec::new());
        for (name, text) in stored {
            match KeyRecord::read(name, text) {
                Ok(record) => {
                    problems.extend(record.name_problem());
                    records.push(record);
                }
                Err(problem) => problems.push(problem),
            }
        }
        (Self::with(records, directory), problems)
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
    pub fn handed_on(&self, first: &str) -> impl Iterator<Item = &KeyRecord> {
        let ids = self.handed_on.get(first).into_iter().flatten();
        ids.filter_map(|id| self.get(id))
    }

    /// Allows anonymous access: callers without a credential get `level`, as agents without rights.
    /// Only for loopback, and only if the operator sets it. A presented credential must still be
    /// valid.
    #[must_use]
    pub fn open(mut self, level: Level) -> Self {
        self.open = Some(level);
        self.anonymous = Some(Principal::anonymous(level, &self.directory));
        self
    }

    /// Returns true if anonymous access is allowed.
    pub fn is_open(&self) -> bool {
        self.anonymous.is_some()
    }

    /// Verifies a presented key; `None` means that nothing was presented.
    ///
    /// # Errors
    /// [`CredentialError`], which looks the same for all reasons.
    pub fn verify(&self, presented: Option<&str>, now: Wall) -> Result<Principal, CredentialError> {
        let Some(presented) = presented else {
            return self.anonymous.clone().ok_or(CredentialError::new(Reason::Missing));
        };
        let id = id_of(presented).ok_or(CredentialError::new(Reason::Malformed))?;
        let held = self.held.get(id);
        judge(presented, held, now)?;
        let held = held.ok_or(CredentialError::new(Reason::UnknownId))?;
        Ok(held.principal.clone())
    }

    /// Returns true if a verified credential is still valid. For a token, checks only its expiry
    /// and whether its user or organisation was disabled.
    pub fn holds(&self, principal: &Principal, now: Wall) -> bool {
        if let Some(held) = self.held.get(principal.key()) {
            return held.over(now).is_none();
        }
        if principal.is_token() {
            let disabled = self.directory.disables(principal.org(), principal.subject());
            return !disabled && principal.until().is_some_and(|until| now < until);
        }
        self.anonymous.as_ref().is_some_and(|open| open.key() == principal.key())
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
    pub fn personas(&self) -> &Personas {
        &self.directory.personas
    }

    /// Returns the principal of a caller's key at `now` without its secret, to continue work that
    /// began while it was valid. `None`: the key is unknown; `Some(None)`: it is invalid, or a
    /// token of a disabled user or organisation.
    pub fn standing(&self, caller: &Caller, now: Wall) -> Option<Option<&Principal>> {
        if let Some(held) = self.held.get(&caller.key) {
            let own = held.principal.caller();
            let same = own.subject == caller.subject && own.org == caller.org;
            let holds = same && own.actors == caller.actors && held.over(now).is_none();
            return Some(holds.then_some(&held.principal));
        }
        let is_token = caller.key.contains(':');
        if is_token && self.directory.disables(&caller.org, &caller.subject) {
            return Some(None);
        }
        let open = self.anonymous.as_ref()?;
        (open.key() == caller.key).then_some(Some(open))
    }

    /// Returns the record of one key.
    pub fn get(&self, id: &str) -> Option<&KeyRecord> {
        self.rows.get(id).map(|row| &row.record)
    }

    /// Returns the principal of a key, from its roles, its parent keys and the directory.
    pub fn principal(&self, id: &str) -> Option<&Principal> {
        self.held.get(id).map(|held| &held.principal)
    }

    /// Returns the reason if a key is invalid.
    pub fn over(&self, id: &str, now: Wall) -> Option<Reason> {
        self.held.get(id).and_then(|held| held.over(now))
    }
}

#[cfg(test)]
mod tests;
