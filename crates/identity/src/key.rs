//! API keys `tk_<id>_<secret>` and their records.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tool::identifier::{check_line, check_name};
use tool::{Digest, Level, Org, Problem, Secret, Wall};

use crate::{Delegation, Directory, KeyFault, Persona, Principal, Right};

mod creation;
mod hand;

pub use hand::Hand;

/// Prefix of every key, so that scanners for leaked secrets find it.
const PREFIX: &str = "tk_";
/// Number of base64url digits of 256 bits.
const SECRET_LEN: usize = 43;
/// Maximum length of an id.
const ID_LEN: usize = 32;
/// Maximum length of a subject, role, persona name or label in bytes.
const TEXT_LEN: usize = 256;
/// Maximum number of roles of one key.
const ROLES: usize = 64;
/// Maximum number of modules of one persona.
const MODULES: usize = 1_000;

/// Public id of a key, used in records and lists.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyId(String);

impl KeyId {
    /// Creates an id from text and validates it.
    ///
    /// # Errors
    /// [`KeyFault::Id`] for anything but 1 to 32 lower-case letters and digits.
    pub fn new(id: impl Into<String>) -> Result<Self, KeyFault> {
        let id = id.into();
        if fits(&id) { Ok(Self(id)) } else { Err(KeyFault::Id(id.chars().take(64).collect())) }
    }

    /// Creates an id of 12 hexadecimal digits from random bytes. The store's compare-and-set
    /// detects a collision.
    pub fn random(random: [u8; 6]) -> Self {
        let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
        Self(random.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect())
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn fits(id: &str) -> bool {
    (1..=ID_LEN).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.0)
    }
}
impl TryFrom<String> for KeyId {
    type Error = KeyFault;
    fn try_from(id: String) -> Result<Self, KeyFault> {
        Self::new(id)
    }
}
impl From<KeyId> for String {
    fn from(id: KeyId) -> Self {
        id.0
    }
}
impl FromStr for KeyId {
    type Err = KeyFault;
    fn from_str(id: &str) -> Result<Self, KeyFault> {
        Self::new(id)
    }
}

/// Stored record of a key, without its secret. Stored as JSON under [`KeyRecord::store_key`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRecord {
    /// Id of the key.
    pub id: KeyId,
    /// SHA-256 of the complete key text. The key has 256 random bits, so no slow hash is needed.
    pub hash: Digest,
    /// Organisation of the key.
    pub org: Org,
    /// User that the key represents.
    pub subject: String,
    /// Permission level of the key.
    pub level: Level,
    /// True if the level was set below its user's: a change of the user's level does not raise it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub level_fixed: bool,
    /// Roles of the key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// Persona of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persona: Option<Persona>,
    /// Rights of the key, besides calling tools.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub rights: BTreeSet<Right>,
    /// Restrictions by each delegation, from the first key to this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delegations: Vec<Delegation>,
    /// True if an agent holds the key rather than a person. The default is an agent.
    #[serde(default = "yes")]
    pub agent: bool,
    /// Subject whose key created this one, if any: a call by this key also counts as its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creator: Option<String>,
    /// Label of the key for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Time at which it was created.
    pub created: Wall,
    /// Time at which the key expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Wall>,
    /// Time of revocation; the key is invalid from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Wall>,
}

fn yes() -> bool {
    true
}

impl KeyRecord {
    /// Store prefix of all keys.
    pub const STORE_PREFIX: &str = "key/";

    /// Returns the store key of the record.
    pub fn store_key(&self) -> String {
        format!("{}{}", Self::STORE_PREFIX, self.id)
    }

    /// Returns the key's level, and whether it is fixed, after its user's level changes from
    /// `former` to `new`. A key below its user keeps its level, unless the new level is lower.
    pub fn level_after(&self, former: Level, new: Level) -> (Level, bool) {
        let fixed = self.level_fixed || self.level < former;
        let level = if fixed { self.level.min(new) } else { new };
        (level, fixed)
    }

    /// Reports a subject that is invalid by current rules, from an earlier version. The key stays
    /// valid.
    pub fn name_problem(&self) -> Option<Problem> {
        let fault = check_name(&self.subject, TEXT_LEN).err()?;
        let told = format!("the subject `{}` {fault}", self.subject.escape_debug());
        let fix = "the key still holds; create another one with a plain subject and revoke it";
        Some(Problem::new(self.store_key(), told).fix(fix))
    }

    /// Returns true if it is an invitation: valid only for one join of the node that its subject
    /// names. A delegated key never is.
    pub fn is_invitation(&self) -> bool {
        self.delegations.is_empty() && invites(&self.rights)
    }

    /// Parses the stored record of a key.
    ///
    /// # Errors
    /// If it is unreadable, or belongs to another key.
    pub fn read(name: &str, text: &[u8]) -> Result<Self, Problem> {
        let record: Self = serde_json::from_slice(text).map_err(|error| {
            Problem::new(name, format!("the key's record cannot be read: {error}"))
                .fix("revoke the key and make a new one")
        })?;
        if record.store_key() == name {
            return Ok(record);
        }
        Err(Problem::new(name, format!("the record is that of the key `{}`", record.id)))
    }
}

/// Returns true if these are the rights of an invitation.
fn invites(rights: &BTreeSet<Right>) -> bool {
    rights.iter().eq([&Right::NodesJoin])
}

/// Request for a new key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// Id of the key.
    pub id: KeyId,
    /// Organisation of the key.
    pub org: Org,
    /// User that the key represents.
    pub subject: String,
    /// Permission level of the key.
    pub level: Level,
    /// True if changes of its user's level do not affect it.
    pub level_fixed: bool,
    /// Roles of the key.
    pub roles: Vec<String>,
    /// Persona of the key.
    pub persona: Option<Persona>,
    /// Rights of the key, besides calling tools.
    pub rights: BTreeSet<Right>,
    /// Restrictions by each delegation, from the first key to this one.
    pub delegations: Vec<Delegation>,
    /// True if an agent will hold the key.
    pub agent: bool,
    /// Subject whose key creates it, if any.
    pub creator: Option<String>,
    /// Label for people; may be empty.
    pub label: String,
    /// Time at which the key expires.
    pub expires: Option<Wall>,
}

impl NewKey {
    /// Requests a user's key for an agent, without further rights and without expiry.
    pub fn user(id: KeyId, subject: impl Into<String>) -> Self {
        Self {
            id,
            org: Org::default(),
            subject: subject.into(),
            level: Level::User,
            level_fixed: false,
            roles: Vec::new(),
            persona: None,
            rights: BTreeSet::new(),
            delegations: Vec::new(),
            agent: true,
            creator: None,
            label: String::new(),
            expires: None,
        }
    }

    /// Requests the first key of an installation: a person's, with every right.
    pub fn owner(id: KeyId) -> Self {
        Self {
            level: Level::Owner,
            rights: Right::ALL.iter().copied().collect(),
            agent: false,
            label: "made on first start".to_owned(),
            ..Self::user(id, "owner")
        }
    }

    /// Requests the second key of an installation: for the owner's agent, which approves nothing.
    pub fn agent(id: KeyId) -> Self {
        Self { label: "made on first start".to_owned(), ..Self::user(id, "agent") }
    }

    /// Checks that `maker` may create this key: it can grant only what it has.
    ///
    /// # Errors
    /// [`KeyFault`] with the first missing grant.
    pub(crate) fn within(&self, maker: &Principal, directory: &Directory) -> Result<(), KeyFault> {
        if self.org != *maker.org() {
            return Err(KeyFault::Org { own: maker.org().clone(), asked: self.org.clone() });
        }
        if invites(&self.rights) {
            return Err(KeyFault::Invitation);
        }
        if self.level > maker.level() {
            return Err(KeyFault::Level { own: maker.level(), asked: self.level });
        }
        if maker.agent() && !self.agent {
            return Err(KeyFault::Person);
        }
        let given = directory.rights_of(&self.roles);
        // Rights that no agent may have are not granted by a role.
        let given = given.iter().filter(|right| !self.agent || right.fits_agent());
        if let Some(right) = self.rights.iter().chain(given).find(|right| !maker.may(**right)) {
            return Err(KeyFault::Right(*right));
        }
        let lacks = |role: &&String| !maker.roles().contains(role) && maker.level() < Level::Owner;
        if let Some(role) = self.roles.iter().find(lacks) {
            return Err(KeyFault::Role(role.clone()));
        }
        let Some(own) = maker.persona().and_then(|persona| persona.allowed_modules.as_ref()) else {
            return Ok(());
        };
        let asked = self.modules(directory).ok_or(KeyFault::Unlimited)?;
        asked.difference(own).next().map_or(Ok(()), |module| Err(KeyFault::Module(module.clone())))
    }

    /// Issues the key: returns the secret, to be shown once, and its record.
    ///
    /// `random` must come fresh from the operating system; it is the entire entropy of the key.
    ///
    /// # Errors
    /// [`KeyFault`] if a text, a list or a right is invalid.
    pub fn issue(self, random: [u8; 32], now: Wall) -> Result<(Secret, KeyRecord), KeyFault> {
        self.check(now)?;
        let text = format!("{PREFIX}{}_{}", self.id, base64url(&random));
        let record = KeyRecord {
            hash: digest(&text),
            id: self.id,
            org: self.org,
            subject: self.subject,
            level: self.level,
            level_fixed: self.level_fixed,
            roles: self.roles,
            persona: self.persona,
            rights: self.rights,
            delegations: self.delegations,
            agent: self.agent,
            creator: self.creator,
            label: self.label,
            created: now,
            expires: self.expires,
            revoked: None,
        };
        Ok((Secret::new(text), record))
    }

    fn check(&self, now: Wall) -> Result<(), KeyFault> {
        name("subject", &self.subject)?;
        if !self.label.is_empty() {
            line("label", &self.label)?;
        }
        count("roles", self.roles.len(), ROLES)?;
        self.roles.iter().try_for_each(|role| name("role", role))?;
        if let Some(persona) = &self.persona {
            name("persona's name", &persona.name)?;
            let modules = persona.allowed_modules.iter().flatten();
            count("modules", modules.clone().count(), MODULES)?;
            modules.into_iter().try_for_each(|module| name("module", module))?;
        }
        if let Some(right) = self.rights.iter().find(|right| self.agent && !right.fits_agent()) {
            return Err(KeyFault::AgentRight(*right));
        }
        if self.expires.is_some_and(|expires| expires <= now) {
            return Err(KeyFault::Expired);
        }
        Ok(())
    }
}

/// Validates a text as a name.
fn name(what: &'static str, text: &str) -> Result<(), KeyFault> {
    check_name(text, TEXT_LEN).map_err(|fault| KeyFault::Text { what, fault })
}

/// Validates a display line.
fn line(what: &'static str, text: &str) -> Result<(), KeyFault> {
    check_line(text, TEXT_LEN).map_err(|fault| KeyFault::Text { what, fault })
}

fn count(what: &'static str, found: usize, limit: usize) -> Result<(), KeyFault> {
    if found > limit { Err(KeyFault::TooMany { what, found, limit }) } else { Ok(()) }
}

/// Returns the id of a key, if the text has the format of a key.
pub(crate) fn id_of(presented: &str) -> Option<&str> {
    // Base64url contains `_` too, so the first one after the prefix ends the id, which has none.
    let (id, secret) = presented.strip_prefix(PREFIX)?.split_once('_')?;
    let digits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (fits(id) && secret.len() == SECRET_LEN && secret.bytes().all(digits)).then_some(id)
}

/// Returns the SHA-256 of the complete key text with its id: a hash moved to another record matches
/// nothing.
pub(crate) fn digest(key: &str) -> Digest {
    Digest(Sha256::digest(key.as_bytes()).into())
}

/// Encodes base64 with `-` and `_`, without padding (RFC 4648, section 5).
fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let group = |chunk: &[u8]| {
        let bits =
            (0..3).fold(0, |bits, at| bits << 8 | u32::from(chunk.get(at).copied().unwrap_or(0)));
        let digit = move |at: usize| DIGITS.get((bits >> (18 - 6 * at) & 63) as usize).copied();
        (0..=chunk.len()).filter_map(digit).map(char::from).collect::<Vec<_>>()
    };
    bytes.chunks(3).flat_map(group).collect()
}

#[cfg(test)]
mod tests;
