//! From a presented key to a principal.

use subtle::ConstantTimeEq as _;
use tool::{Caller, Digest, Level, Map, Problem, Wall};

use crate::error::{CredentialError, Reason};
use crate::key::{KeyRecord, digest, id_of};
use crate::{Personas, Principal, RightsClass};

/// Verifies one key against a table.
///
/// # Errors
/// [`CredentialError`]: one face for all reasons.
pub fn verify(
    presented: &str,
    lookup: impl Fn(&str) -> Option<KeyRecord>,
    now: Wall,
) -> Result<Principal, CredentialError> {
    let id = id_of(presented).ok_or(CredentialError::new(Reason::Malformed))?;
    let record = lookup(id);
    judge(presented, record.as_ref(), now)?;
    let personas = Personas::default();
    let principal = record.as_ref().map(|record| Principal::of(record, personas.of(record)));
    principal.ok_or(CredentialError::new(Reason::UnknownId))
}

/// The secret first, in constant time, and only then what became of the key: who does not hold the
/// secret learns nothing of the key's state.
fn judge(presented: &str, record: Option<&KeyRecord>, now: Wall) -> Result<(), CredentialError> {
    // An unknown id costs the same hash and compare as a known one.
    let kept = record.map_or(Digest([0; 32]), |record| record.hash);
    let same = bool::from(digest(presented).0.ct_eq(&kept.0));
    let reason = match record {
        None => Reason::UnknownId,
        Some(_) if !same => Reason::WrongSecret,
        Some(record) if record.revoked.is_some() => Reason::Revoked,
        Some(record) if record.expires.is_some_and(|expires| expires <= now) => Reason::Expired,
        Some(_) => return Ok(()),
    };
    Err(CredentialError::new(reason))
}

/// All keys at one moment. Immutable: a server swaps it whole. Principals are made once, with the
/// ring, so that verifying costs one hash and no copy.
#[derive(Debug, Clone, Default)]
pub struct KeyRing {
    keys: Map<String, (KeyRecord, Principal)>,
    personas: Personas,
    anonymous: Option<Principal>,
}

impl KeyRing {
    /// A ring of these keys. Of two records with one id the later counts.
    pub fn new(records: impl IntoIterator<Item = KeyRecord>) -> Self {
        Self::with(records, Personas::default())
    }

    /// The same, in an installation that has these personas.
    pub fn with(records: impl IntoIterator<Item = KeyRecord>, personas: Personas) -> Self {
        let entry = |record: KeyRecord| {
            let principal = Principal::of(&record, personas.of(&record));
            (record.id.to_string(), (record, principal))
        };
        Self { keys: records.into_iter().map(entry).collect(), personas, anonymous: None }
    }

    /// A ring of what the store holds, as pairs of name and JSON text. A record that cannot be read is
    /// a problem beside the others, and its key does not hold.
    pub fn read<'a>(
        stored: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        personas: Personas,
    ) -> (Self, Vec<Problem>) {
        let (mut records, mut problems) = (Vec::new(), Vec::new());
        for (name, text) in stored {
            match serde_json::from_slice::<KeyRecord>(text) {
                Ok(record) if record.store_key() == name => records.push(record),
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
        (Self::with(records, personas), problems)
    }

    /// Opens the door: whoever brings no credential gets `level`, as an agent, with no rights. Only
    /// for loopback, and only where the operator said so. A credential that is brought must still hold.
    #[must_use]
    pub fn open(mut self, level: Level) -> Self {
        let persona = self.personas.of_none(level);
        self.anonymous = Some(Principal::anonymous(level, persona));
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
        let entry = self.keys.get(id);
        judge(presented, entry.map(|(record, _)| record), now)?;
        let (_, principal) = entry.ok_or(CredentialError::new(Reason::UnknownId))?;
        Ok(principal.clone())
    }

    /// The personas.
    pub fn personas(&self) -> &Personas {
        &self.personas
    }

    /// Who made a call that is running: the holder of the key that its caller was told by, when the
    /// credential was verified. For tools that look at what their caller may see.
    pub fn holder(&self, caller: &Caller) -> Option<&Principal> {
        let held = self.keys.get(&caller.key).map(|(_, principal)| principal);
        let open = || self.anonymous.as_ref().filter(|open| open.caller() == caller);
        held.filter(|principal| principal.caller() == caller).or_else(open)
    }

    /// The principal that the key of a caller makes at `now`, without its secret: for what its holder
    /// began while it held. `None`: the key is not one of these; `Some(None)`: it holds no more.
    pub fn standing(&self, caller: &Caller, now: Wall) -> Option<Option<&Principal>> {
        if let Some((record, principal)) = self.keys.get(&caller.key) {
            let ended = record.expires.is_some_and(|expires| expires <= now);
            let same = principal.subject() == caller.subject && *principal.org() == caller.org;
            let holds = record.revoked.is_none() && !ended && same;
            return Some(holds.then_some(principal));
        }
        let open = self.anonymous.as_ref()?;
        (open.key() == caller.key).then_some(Some(open))
    }

    /// One key's record.
    pub fn get(&self, id: &str) -> Option<&KeyRecord> {
        self.keys.get(id).map(|(record, _)| record)
    }

    /// All records, by id.
    pub fn records(&self) -> Vec<&KeyRecord> {
        let mut records: Vec<_> = self.keys.values().map(|(record, _)| record).collect();
        records.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        records
    }

    /// The rights classes there are, each once: what a server may prepare ahead.
    pub fn classes(&self) -> Vec<RightsClass> {
        let principals = self.keys.values().map(|(_, principal)| principal).chain(&self.anonymous);
        let unique: std::collections::HashSet<_> = principals.map(|p| p.rights().clone()).collect();
        unique.into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
