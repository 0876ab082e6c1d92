//! The personas, roles, users and organisations of an installation at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tool::{Digest, Org, PermissionLevel, Problem, WallTime};

use crate::subject_index::NameIndex;
use crate::{PersonaSet, Right};

/// Maximum length of a role name in bytes.
const MAX_ROLE_NAME_BYTES: usize = 64;

/// A named set of rights with a level cap. Keys name roles; policy may refer to them by the same
/// name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleRecord {
    /// Name of the role.
    pub name: String,
    /// Description of it for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Maximum level of a key with this role; `None` is no cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "level")]
    pub max_level: Option<PermissionLevel>,
    /// Rights that its keys have in addition to their own.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub rights: BTreeSet<Right>,
    /// Time of revocation; keys that name a revoked role can use nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "revoked")]
    pub revoked_at: Option<WallTime>,
}

impl RoleRecord {
    /// Store prefix of all roles.
    pub const STORE_PREFIX: &str = "role/";

    /// Returns the store key of a role.
    pub fn store_key(name: &str) -> String {
        format!("{}{name}", Self::STORE_PREFIX)
    }

    /// Returns true for a valid role name: 1 to 64 letters, digits, `_`, `.` and `-`.
    pub fn is_valid_name(name: &str) -> bool {
        let letter = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        (1..=MAX_ROLE_NAME_BYTES).contains(&name.len()) && name.bytes().all(letter)
    }
}

/// A user that keys represent, and for whom others may act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserRecord {
    /// Organisation of the user.
    pub org: Org,
    /// Subject name, as in records.
    pub subject: String,
    /// Level of the user: the maximum for those who act for it.
    pub level: PermissionLevel,
    /// Roles of the user, for those who act for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// Name of the user's persona.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persona: Option<String>,
    /// Time since when all its keys are invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "disabled")]
    pub disabled_at: Option<WallTime>,
}

impl UserRecord {
    /// Store prefix of all users.
    pub const STORE_PREFIX: &str = "user/";

    /// Returns the store key of a user.
    pub fn store_key(org: &Org, subject: &str) -> String {
        format!("{}{org}/{subject}", Self::STORE_PREFIX)
    }
}

/// Record of an organisation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrgRecord {
    /// Name of the organisation.
    pub name: Org,
    /// Description of it for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Time since when all its keys are invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "disabled")]
    pub disabled_at: Option<WallTime>,
}

impl OrgRecord {
    /// Store prefix of all organisations.
    pub const STORE_PREFIX: &str = "org/";

    /// Returns the store key of an organisation.
    pub fn store_key(org: &Org) -> String {
        format!("{}{org}", Self::STORE_PREFIX)
    }

    /// Returns the store key of the patterns of its allowed tools (cluster tools), a JSON list of
    /// strings.
    pub fn tool_patterns_key(org: &Org) -> String {
        format!("{}{org}/tools", Self::STORE_PREFIX)
    }
}

/// Tool patterns of an organisation. Cheap to clone, hash and compare by digest.
#[derive(Debug, Clone)]
pub struct OrgToolPatterns(Arc<DigestedPatterns>);

#[derive(Debug)]
struct DigestedPatterns {
    digest: Digest,
    patterns: Vec<String>,
}

impl OrgToolPatterns {
    pub(crate) fn new(patterns: Vec<String>) -> Self {
        let mut hasher = Sha256::new();
        for pattern in &patterns {
            hasher.update(pattern.len().to_le_bytes());
            hasher.update(pattern.as_bytes());
        }
        Self(Arc::new(DigestedPatterns { digest: Digest(hasher.finalize().into()), patterns }))
    }

    /// Returns the patterns in the order of the list.
    pub fn patterns(&self) -> &[String] {
        &self.0.patterns
    }
}

impl PartialEq for OrgToolPatterns {
    fn eq(&self, other: &Self) -> bool {
        self.0.digest == other.0.digest
    }
}
impl Eq for OrgToolPatterns {}

impl Hash for OrgToolPatterns {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.digest.hash(state);
    }
}

/// Roles, users, organisations and personas. An unreadable record stays present and grants nothing:
/// a restriction must not disappear because its record is damaged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directory {
    pub(crate) personas: PersonaSet,
    roles: BTreeMap<String, Option<RoleRecord>>,
    users: BTreeMap<String, Option<UserRecord>>,
    /// Names of all users, including those with unreadable records.
    user_names: NameIndex,
    orgs: BTreeMap<String, Option<OrgRecord>>,
    org_tool_patterns: BTreeMap<String, OrgToolPatterns>,
}

impl From<PersonaSet> for Directory {
    fn from(personas: PersonaSet) -> Self {
        Self { personas, ..Self::default() }
    }
}

impl Directory {
    /// Builds the directory from the store, as pairs of key and JSON text. An unreadable record
    /// becomes a problem.
    pub fn from_rows<'a>(
        personas: PersonaSet,
        stored: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> (Self, Vec<Problem>) {
        let (mut all, mut problems) = (Self::from(personas), Vec::new());
        for (key, text) in stored {
            all.insert_row(key, text).unwrap_or_else(|problem| problems.push(problem));
        }
        (all, problems)
    }

    fn insert_row(&mut self, key: &str, text: &[u8]) -> Result<(), Problem> {
        if let Some(name) = key.strip_prefix(RoleRecord::STORE_PREFIX) {
            let role =
                parse_record(key, text, |role: &RoleRecord| RoleRecord::store_key(&role.name));
            return insert_or_mark_unreadable(&mut self.roles, name, role);
        }
        if let Some(user) = key.strip_prefix(UserRecord::STORE_PREFIX) {
            if let Some((org, subject)) = user.split_once('/') {
                self.user_names.insert(org, subject);
            }
            let named = |user: &UserRecord| UserRecord::store_key(&user.org, &user.subject);
            return insert_or_mark_unreadable(&mut self.users, key, parse_record(key, text, named));
        }
        let Some(name) = key.strip_prefix(OrgRecord::STORE_PREFIX) else { return Ok(()) };
        let Some(org) = name.strip_suffix("/tools") else {
            let org = parse_record(key, text, |org: &OrgRecord| OrgRecord::store_key(&org.name));
            return insert_or_mark_unreadable(&mut self.orgs, name, org);
        };
        let read = serde_json::from_slice::<Vec<String>>(text);
        let told = read.as_ref().err().map(|error| unreadable_record(key, error));
        // An unreadable list allows nothing.
        self.org_tool_patterns
            .insert(org.to_owned(), OrgToolPatterns::new(read.unwrap_or_default()));
        told.map_or(Ok(()), Err)
    }

    /// Returns the persona set.
    pub fn personas(&self) -> &PersonaSet {
        &self.personas
    }

    /// Returns a role; `None` also if it is unreadable.
    pub fn find_role(&self, name: &str) -> Option<&RoleRecord> {
        self.roles.get(name)?.as_ref()
    }

    /// Iterates over all readable roles, by name.
    pub fn list_roles(&self) -> impl Iterator<Item = &RoleRecord> {
        self.roles.values().flatten()
    }

    /// Returns a user; `None` also if it is unreadable.
    pub fn find_user(&self, org: &Org, subject: &str) -> Option<&UserRecord> {
        self.users.get(&UserRecord::store_key(org, subject))?.as_ref()
    }

    /// Returns true if a user of this name exists, even if it is unreadable.
    pub(crate) fn has_user(&self, org: &Org, subject: &str) -> bool {
        self.users.contains_key(&UserRecord::store_key(org, subject))
    }

    /// Returns the index of all user names, including those with unreadable records.
    pub(crate) fn user_names(&self) -> &NameIndex {
        &self.user_names
    }

    /// Iterates over all readable users, by organisation and name.
    pub fn list_users(&self) -> impl Iterator<Item = &UserRecord> {
        self.users.values().flatten()
    }

    /// Returns an organisation; `None` also if it is unreadable.
    pub fn find_org(&self, org: &Org) -> Option<&OrgRecord> {
        self.orgs.get(org.as_str())?.as_ref()
    }

    /// Iterates over all readable organisations, by name.
    pub fn list_orgs(&self) -> impl Iterator<Item = &OrgRecord> {
        self.orgs.values().flatten()
    }

    /// Returns the tool patterns of an organisation, if it has its own list. An empty list allows
    /// none.
    pub fn org_tools(&self, org: &Org) -> Option<&OrgToolPatterns> {
        self.org_tool_patterns.get(org.as_str())
    }

    /// Returns the rights that these roles grant.
    pub fn role_rights(&self, roles: &[String]) -> BTreeSet<Right> {
        roles
            .iter()
            .filter_map(|name| self.find_role(name))
            .flat_map(|role| &role.rights)
            .copied()
            .collect()
    }

    /// Returns true if one of these roles was revoked or is unreadable, so that a key can use
    /// nothing.
    pub(crate) fn has_unusable_role(&self, roles: &[String]) -> bool {
        let gone =
            |role: &Option<RoleRecord>| role.as_ref().is_none_or(|role| role.revoked_at.is_some());
        roles.iter().any(|name| self.roles.get(name).is_some_and(gone))
    }

    /// Returns the level, capped by these roles.
    pub(crate) fn cap_level(&self, roles: &[String], level: PermissionLevel) -> PermissionLevel {
        let caps = roles.iter().filter_map(|name| self.find_role(name)?.max_level);
        caps.fold(level, PermissionLevel::min)
    }

    /// Returns true if the user or its organisation was disabled or is unreadable, so that its keys
    /// are invalid.
    pub(crate) fn is_disabled(&self, org: &Org, subject: &str) -> bool {
        let org_gone =
            |org: &Option<OrgRecord>| org.as_ref().is_none_or(|it| it.disabled_at.is_some());
        let user_gone =
            |user: &Option<UserRecord>| user.as_ref().is_none_or(|it| it.disabled_at.is_some());
        self.orgs.get(org.as_str()).is_some_and(org_gone)
            || self.users.get(&UserRecord::store_key(org, subject)).is_some_and(user_gone)
    }
}

fn parse_record<T: DeserializeOwned>(
    key: &str,
    text: &[u8],
    named: impl Fn(&T) -> String,
) -> Result<T, Problem> {
    let one = serde_json::from_slice::<T>(text).map_err(|error| unreadable_record(key, &error))?;
    if named(&one) == key { Ok(one) } else { Err(Problem::new(key, "the record has another name")) }
}

fn unreadable_record(key: &str, error: &serde_json::Error) -> Problem {
    Problem::new(key, format!("cannot parse the record: {error}"))
}

fn insert_or_mark_unreadable<T>(
    all: &mut BTreeMap<String, Option<T>>,
    name: &str,
    one: Result<T, Problem>,
) -> Result<(), Problem> {
    let (one, told) = match one {
        Ok(one) => (Some(one), Ok(())),
        Err(problem) => (None, Err(problem)),
    };
    all.insert(name.to_owned(), one);
    told
}

#[cfg(test)]
mod tests;
