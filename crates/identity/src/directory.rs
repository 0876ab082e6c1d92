//! What stands beside the keys: personas, roles, users and organisations, all at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tool::{Digest, Level, Org, Problem, Wall};

use crate::subjects::NameIndex;
use crate::{Personas, Right};

/// The longest name of a role, in bytes.
const NAME_LEN: usize = 64;

/// A named set of rights with a cap. Keys name roles; policy may refer to them by the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    /// Its name.
    pub name: String,
    /// A line for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The highest level of a key that has it; `None` is no cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// Rights that its keys have beside their own.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub rights: BTreeSet<Right>,
    /// When it was taken back: keys that name it may use nothing from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Wall>,
}

impl Role {
    /// What all names of roles in the store begin with.
    pub const STORE_PREFIX: &str = "role/";

    /// A role's name in the store.
    pub fn store_key(name: &str) -> String {
        format!("{}{name}", Self::STORE_PREFIX)
    }

    /// Whether a role may have this name: 1 to 64 letters, digits, `_`, `.` and `-`.
    pub fn fits(name: &str) -> bool {
        let letter = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        (1..=NAME_LEN).contains(&name.len()) && name.bytes().all(letter)
    }
}

/// A user: whom keys stand for, and for whom others may act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Organisation.
    pub org: Org,
    /// The name, as records have it.
    pub subject: String,
    /// Its level: what those who act for it have at most.
    pub level: Level,
    /// Its roles, for those who act for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// The name of its persona.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persona: Option<String>,
    /// Since when none of its keys holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<Wall>,
}

impl User {
    /// What all names of users in the store begin with.
    pub const STORE_PREFIX: &str = "user/";

    /// A user's name in the store.
    pub fn store_key(org: &Org, subject: &str) -> String {
        format!("{}{org}/{subject}", Self::STORE_PREFIX)
    }
}

/// An organisation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrgRecord {
    /// Its name.
    pub name: Org,
    /// A line for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Since when none of its keys holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<Wall>,
}

impl OrgRecord {
    /// What all names of organisations in the store begin with.
    pub const STORE_PREFIX: &str = "org/";

    /// An organisation's name in the store.
    pub fn store_key(org: &Org) -> String {
        format!("{}{org}", Self::STORE_PREFIX)
    }

    /// Where the store has the patterns of the tools it may use (spec 4), as a JSON list of texts.
    pub fn tools_key(org: &Org) -> String {
        format!("{}{org}/tools", Self::STORE_PREFIX)
    }
}

/// Patterns and groups of the tools that an organisation may use. Cheap to clone, hash and compare: what
/// decides is a digest.
#[derive(Debug, Clone)]
pub struct ToolList(Arc<(Digest, Vec<String>)>);

impl ToolList {
    pub(crate) fn new(patterns: Vec<String>) -> Self {
        let mut hasher = Sha256::new();
        for pattern in &patterns {
            hasher.update(pattern.len().to_le_bytes());
            hasher.update(pattern.as_bytes());
        }
        Self(Arc::new((Digest(hasher.finalize().into()), patterns)))
    }

    /// The patterns, as the list has them.
    pub fn patterns(&self) -> &[String] {
        &self.0.1
    }
}

impl PartialEq for ToolList {
    fn eq(&self, other: &Self) -> bool {
        self.0.0 == other.0.0
    }
}
impl Eq for ToolList {}

impl Hash for ToolList {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.0.hash(state);
    }
}

/// All that stands beside the keys. What cannot be read is there, and good for nothing: a record that
/// took something away must not give it back by breaking.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directory {
    pub(crate) personas: Personas,
    roles: BTreeMap<String, Option<Role>>,
    users: BTreeMap<String, Option<User>>,
    /// Of all users, of those too whose record cannot be read.
    user_names: NameIndex,
    orgs: BTreeMap<String, Option<OrgRecord>>,
    tools: BTreeMap<String, ToolList>,
}

impl From<Personas> for Directory {
    fn from(personas: Personas) -> Self {
        Self { personas, ..Self::default() }
    }
}

impl Directory {
    /// What the store holds beside personas, as pairs of name and JSON text. One that cannot be read is a
    /// problem beside the others.
    pub fn read<'a>(
        personas: Personas,
        stored: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> (Self, Vec<Problem>) {
        let (mut all, mut problems) = (Self::from(personas), Vec::new());
        for (key, text) in stored {
            all.take(key, text).unwrap_or_else(|problem| problems.push(problem));
        }
        (all, problems)
    }

    fn take(&mut self, key: &str, text: &[u8]) -> Result<(), Problem> {
        if let Some(name) = key.strip_prefix(Role::STORE_PREFIX) {
            let role = parsed(key, text, |role: &Role| Role::store_key(&role.name));
            return kept(&mut self.roles, name, role);
        }
        if let Some(user) = key.strip_prefix(User::STORE_PREFIX) {
            if let Some((org, subject)) = user.split_once('/') {
                self.user_names.insert(org, subject);
            }
            let named = |user: &User| User::store_key(&user.org, &user.subject);
            return kept(&mut self.users, key, parsed(key, text, named));
        }
        let Some(name) = key.strip_prefix(OrgRecord::STORE_PREFIX) else { return Ok(()) };
        let Some(org) = name.strip_suffix("/tools") else {
            let org = parsed(key, text, |org: &OrgRecord| OrgRecord::store_key(&org.name));
            return kept(&mut self.orgs, name, org);
        };
        let read = serde_json::from_slice::<Vec<String>>(text);
        let told = read.as_ref().err().map(|error| unreadable(key, error));
        // A list that cannot be read allows nothing.
        self.tools.insert(org.to_owned(), ToolList::new(read.unwrap_or_default()));
        told.map_or(Ok(()), Err)
    }

    /// The personas.
    pub fn personas(&self) -> &Personas {
        &self.personas
    }

    /// One role; `None` also where it cannot be read.
    pub fn role(&self, name: &str) -> Option<&Role> {
        self.roles.get(name)?.as_ref()
    }

    /// All roles that can be read, by name.
    pub fn roles(&self) -> impl Iterator<Item = &Role> {
        self.roles.values().flatten()
    }

    /// One user; `None` also where it cannot be read.
    pub fn user(&self, org: &Org, subject: &str) -> Option<&User> {
        self.users.get(&User::store_key(org, subject))?.as_ref()
    }

    /// Whether there is a user of this name, also where its record cannot be read.
    pub(crate) fn has_user(&self, org: &Org, subject: &str) -> bool {
        self.users.contains_key(&User::store_key(org, subject))
    }

    /// The names of all users by what they look like, of those too whose record cannot be read.
    pub(crate) fn user_names(&self) -> &NameIndex {
        &self.user_names
    }

    /// All users that can be read, by organisation and name.
    pub fn users(&self) -> impl Iterator<Item = &User> {
        self.users.values().flatten()
    }

    /// One organisation; `None` also where it cannot be read.
    pub fn org(&self, org: &Org) -> Option<&OrgRecord> {
        self.orgs.get(org.as_str())?.as_ref()
    }

    /// All organisations that can be read, by name.
    pub fn orgs(&self) -> impl Iterator<Item = &OrgRecord> {
        self.orgs.values().flatten()
    }

    /// The tools that an organisation may use, where it has a list of its own. An empty list allows none.
    pub fn org_tools(&self, org: &Org) -> Option<&ToolList> {
        self.tools.get(org.as_str())
    }

    /// The rights that come with these roles.
    pub fn rights_of(&self, roles: &[String]) -> BTreeSet<Right> {
        roles
            .iter()
            .filter_map(|name| self.role(name))
            .flat_map(|role| &role.rights)
            .copied()
            .collect()
    }

    /// Whether a key that names these roles may use nothing: one of them was revoked, or cannot be read.
    pub(crate) fn bars(&self, roles: &[String]) -> bool {
        let gone = |role: &Option<Role>| role.as_ref().is_none_or(|role| role.revoked.is_some());
        roles.iter().any(|name| self.roles.get(name).is_some_and(gone))
    }

    /// The highest level with these roles.
    pub(crate) fn capped(&self, roles: &[String], level: Level) -> Level {
        let caps = roles.iter().filter_map(|name| self.role(name)?.level);
        caps.fold(level, Level::min)
    }

    /// Whether keys of this user are out of force: it or its organisation was disabled, or cannot be read.
    pub(crate) fn disables(&self, org: &Org, subject: &str) -> bool {
        let org_gone =
            |org: &Option<OrgRecord>| org.as_ref().is_none_or(|it| it.disabled.is_some());
        let user_gone = |user: &Option<User>| user.as_ref().is_none_or(|it| it.disabled.is_some());
        self.orgs.get(org.as_str()).is_some_and(org_gone)
            || self.users.get(&User::store_key(org, subject)).is_some_and(user_gone)
    }
}

fn parsed<T: DeserializeOwned>(
    key: &str,
    text: &[u8],
    named: impl Fn(&T) -> String,
) -> Result<T, Problem> {
    let one = serde_json::from_slice::<T>(text).map_err(|error| unreadable(key, &error))?;
    if named(&one) == key { Ok(one) } else { Err(Problem::new(key, "the record has another name")) }
}

fn unreadable(key: &str, error: &serde_json::Error) -> Problem {
    Problem::new(key, format!("the record cannot be read: {error}"))
}

fn kept<T>(
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
