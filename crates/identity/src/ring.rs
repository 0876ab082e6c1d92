//! From a presented key to a principal.

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

/// Verifies one key against a table, which is asked for the keys it was delegated from too.
///
/// # Errors
/// [`CredentialError`]: one face for all reasons.
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

/// The secret first, in constant time, and only then what became of the key: who does not hold the
/// secret learns nothing of the key's state.
fn judge(presented: &str, held: Option<&Held>, now: Wall) -> Result<(), CredentialError> {
    // An unknown id costs the same hash and compare as a known one.
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

/// A key's record, and the write of the store that it is of.
#[derive(Debug, Clone)]
struct Row {
    record: KeyRecord,
    version: u64,
}

/// What a key comes to.
#[derive(Debug, Clone)]
struct Held {
    hash: Digest,
    principal: Principal,
    ended: Option<Reason>,
}

impl Held {
    /// Why it does not hold, where it does not.
    fn over(&self, now: Wall) -> Option<Reason> {
        let expired = self.principal.until().is_some_and(|until| until <= now);
        self.ended.or(expired.then_some(Reason::Expired))
    }
}

/// All keys at one moment. Immutable: a server swaps it whole. Principals are made once, with the
/// ring, so that verifying costs one hash and no copy. A ring of which one record changed shares all else with the
/// one before.
#[derive(Debug, Clone, Default)]
pub struct KeyRing {
    rows: Shards<Row>,
    held: Shards<Held>,
    /// The ids of all keys that came of a first one by being handed on, by its id.
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
    /// A ring of these keys. Of two records with one id the later counts.
    pub fn new(records: impl IntoIterator<Item = KeyRecord>) -> Self {
        Self::with(records, Personas::default())
    }

    /// The same, in an installation that has all this beside them.
    pub fn with(
        records: impl IntoIterator<Item = KeyRecord>,
        directory: impl Into<Directory>,
    ) -> Self {
        Self::of_rows(records.into_iter().map(|record| (record, 0)), directory)
    }

    /// The same, of records with the versions that the store has of them.
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

    /// The same keys beside another directory. Works through all of them.
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

    /// The ring once one record was written, which is of this version. Works through the keys that came of this one
    /// and no others.
    #[must_use]
    pub fn with_record(&self, record: KeyRecord, version: u64) -> Self {
        let (mut ring, id) = (self.clone(), record.id.to_string());
        ring.put_row(Row { record, version });
        let first = ring.first_of(&id);
        ring.settle_from(&id, &first);
        ring
    }

    /// The ring once one record was removed.
    #[must_use]
    pub fn without(&self, id: &str) -> Self {
        let (mut ring, first) = (self.clone(), self.first_of(id));
        ring.take_row(id);
        ring.settle_from(id, &first);
        ring
    }

    /// The first key of the chain of one.
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

    /// What a key comes to, and all that came of it.
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

    /// A ring of what the store holds, as pairs of name and JSON text. A record that cannot be read is
    /// a problem beside the others, and its key does not hold.
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

    /// The store's version of a key's record.
    pub fn version(&self, id: &str) -> Option<u64> {
        self.rows.get(id).map(|row| row.version)
    }

    /// How many keys there are, whether they hold or not.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 0
    }

    /// The records of all keys that came of this first one by being handed on.
    pub fn handed_on(&self, first: &str) -> impl Iterator<Item = &KeyRecord> {
        let ids = self.handed_on.get(first).into_iter().flatten();
        ids.filter_map(|id| self.get(id))
    }

    /// Opens the door: whoever brings no credential gets `level`, as an agent, with no rights. Only
    /// for loopback, and only where the operator said so. A credential that is brought must still hold.
    #[must_use]
    pub fn open(mut self, level: Level) -> Self {
        self.open = Some(level);
        self.anonymous = Some(Principal::anonymous(level, &self.directory));
        self
    }

    /// Whether no credential is needed.
    pub fn is_open(&self) -> bool {
        self.anonymous.is_some()
    }

    /// Who presents this; `None` where nothing was presented.
    ///
    /// # Errors
    /// [`CredentialError`]: one face for all reasons.
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

    /// Whether a credential that was verified before still holds. Of a token it only says whether its
    /// time ran out and its user or organisation was disabled.
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

    /// What stands beside the keys.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The subjects of all keys.
    pub(crate) fn subjects(&self) -> &SubjectIndex {
        &self.subjects
    }

    /// The personas.
    pub fn personas(&self) -> &Personas {
        &self.directory.personas
    }

    /// The principal that the key of a caller makes at `now`, without its secret: for what its holder
    /// began while it held. `None`: the key is not one of these; `Some(None)`: it holds no more, or is a
    /// token of a user or an organisation that was disabled.
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

    /// One key's record.
    pub fn get(&self, id: &str) -> Option<&KeyRecord> {
        self.rows.get(id).map(|row| &row.record)
    }

    /// What a key comes to, with its roles, the keys it was delegated from and all that stands beside them.
    pub fn principal(&self, id: &str) -> Option<&Principal> {
        self.held.get(id).map(|held| &held.principal)
    }

    /// Why a key does not hold, where it does not.
    pub fn over(&self, id: &str, now: Wall) -> Option<Reason> {
        self.held.get(id).and_then(|held| held.over(now))
    }
}

#[cfg(test)]
mod tests;
