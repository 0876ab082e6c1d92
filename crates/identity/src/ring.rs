//! From a presented key to a principal.

use subtle::ConstantTimeEq as _;
use tool::{Caller, Digest, Level, Map, Problem, Wall};

use crate::error::{CredentialError, Reason};
use crate::key::{KeyRecord, digest, id_of};
use crate::standing::{self, HANDS, Records};
use crate::{Directory, Personas, Principal, RightsClass};

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
    let kept = held.map_or(Digest([0; 32]), |held| held.record.hash);
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

/// One key, and what it comes to.
#[derive(Debug, Clone)]
struct Held {
    record: KeyRecord,
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
/// ring, so that verifying costs one hash and no copy.
#[derive(Debug, Clone, Default)]
pub struct KeyRing {
    keys: Map<String, Held>,
    directory: Directory,
    anonymous: Option<Principal>,
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
        let directory = directory.into();
        let named = |record: KeyRecord| (record.id.to_string(), record);
        let records: Records = records.into_iter().map(named).collect();
        let held = |record: &KeyRecord| {
            let standing = standing::of(record, &records, &directory);
            let ended = standing.ended;
            let principal = Principal::of(record, standing);
            (record.id.to_string(), Held { record: record.clone(), principal, ended })
        };
        let keys = records.values().map(held).collect();
        Self { keys, directory, anonymous: None }
    }

    /// A ring of what the store holds, as pairs of name and JSON text. A record that cannot be read is
    /// a problem beside the others, and its key does not hold.
    pub fn read<'a>(
        stored: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        directory: impl Into<Directory>,
    ) -> (Self, Vec<Problem>) {
        let (mut records, mut problems) = (Vec::new(), Vec::new());
        for (name, text) in stored {
            match serde_json::from_slice::<KeyRecord>(text) {
                Ok(record) if record.store_key() == name => {
                    problems.extend(record.name_problem());
                    records.push(record);
                }
                Ok(record) => {
                    let message = format!("the record is that of the key `{}`", record.id);
                    problems.push(Problem::new(name, message));
                }
                Err(error) => problems.push(
                    Problem::new(name, format!("the key's record cannot be read: {error}"))
                        .fix("revoke the key and make a new one"),
                ),
            }
        }
        (Self::with(records, directory), problems)
    }

    /// Opens the door: whoever brings no credential gets `level`, as an agent, with no rights. Only
    /// for loopback, and only where the operator said so. A credential that is brought must still hold.
    #[must_use]
    pub fn open(mut self, level: Level) -> Self {
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
        let held = self.keys.get(id);
        judge(presented, held, now)?;
        let held = held.ok_or(CredentialError::new(Reason::UnknownId))?;
        Ok(held.principal.clone())
    }

    /// Whether a credential that was verified before still holds. Of a token it only says whether its
    /// time ran out and its user or organisation was disabled.
    pub fn holds(&self, principal: &Principal, now: Wall) -> bool {
        if let Some(held) = self.keys.get(principal.key()) {
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

    /// The personas.
    pub fn personas(&self) -> &Personas {
        &self.directory.personas
    }

    /// The principal that the key of a caller makes at `now`, without its secret: for what its holder
    /// began while it held. `None`: the key is not one of these; `Some(None)`: it holds no more, or is a
    /// token of a user or an organisation that was disabled.
    pub fn standing(&self, caller: &Caller, now: Wall) -> Option<Option<&Principal>> {
        if let Some(held) = self.keys.get(&caller.key) {
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
        self.keys.get(id).map(|held| &held.record)
    }

    /// What a key comes to, with its roles, the keys it was delegated from and all that stands beside them.
    pub fn principal(&self, id: &str) -> Option<&Principal> {
        self.keys.get(id).map(|held| &held.principal)
    }

    /// Why a key does not hold, where it does not.
    pub fn over(&self, id: &str, now: Wall) -> Option<Reason> {
        self.keys.get(id).and_then(|held| held.over(now))
    }

    /// All records, by id.
    pub fn records(&self) -> Vec<&KeyRecord> {
        let mut records: Vec<_> = self.keys.values().map(|held| &held.record).collect();
        records.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        records
    }

    /// The rights classes there are, each once: what a server may prepare ahead.
    pub fn classes(&self) -> Vec<RightsClass> {
        let principals = self.keys.values().map(|held| &held.principal).chain(&self.anonymous);
        let unique: std::collections::HashSet<_> = principals.map(|p| p.rights().clone()).collect();
        unique.into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
