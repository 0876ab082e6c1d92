//! API keys `tk_<id>_<secret>` and their records.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tool::identifier::{validate_line, validate_name};
use tool::{Digest, Org, PermissionLevel, Problem, Secret, SourceName, WallTime};

use crate::{Directory, KeyDelegation, KeyIssueError, Persona, Principal, Right};

mod delegation;
mod key_creation;
mod key_id;
mod key_text;

pub use delegation::DelegationRequest;
pub use key_id::KeyId;
pub(crate) use key_text::{key_digest, parse_key_id};

/// Maximum length of a subject, role, persona name or label in bytes.
const MAX_TEXT_BYTES: usize = 256;
/// Maximum number of roles of one key.
const MAX_ROLES: usize = 64;
/// Maximum number of modules of one persona.
const MAX_MODULES: usize = 1_000;

/// Stored record of a key, without its secret. Stored as JSON under [`KeyRecord::store_key`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRecord {
    /// Id of the key.
    pub id: KeyId,
    /// SHA-256 of the complete key text. The key has 256 random bits, so no slow hash is needed.
    #[serde(rename = "hash")]
    pub key_digest: Digest,
    /// Organisation of the key.
    pub org: Org,
    /// User that the key represents.
    pub subject: String,
    /// Permission level of the key.
    pub level: PermissionLevel,
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
    pub delegations: Vec<KeyDelegation>,
    /// True if an agent holds the key rather than a person. The default is an agent.
    #[serde(default = "default_true")]
    #[serde(rename = "agent")]
    pub is_agent: bool,
    /// Subject whose key created this one, if any: a call by this key also counts as its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creator: Option<String>,
    /// Label of the key for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Time at which it was created.
    #[serde(rename = "created")]
    pub created_at: WallTime,
    /// Time at which the key expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "expires")]
    pub expires_at: Option<WallTime>,
    /// Time of revocation; the key is invalid from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "revoked")]
    pub revoked_at: Option<WallTime>,
    /// Toolset to which the key is bound: nothing else exists for it, and it has no rights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolset: Option<String>,
}

fn default_true() -> bool {
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
    pub fn level_after(
        &self,
        former: PermissionLevel,
        new: PermissionLevel,
    ) -> (PermissionLevel, bool) {
        let fixed = self.level_fixed || self.level < former;
        let level = if fixed { self.level.min(new) } else { new };
        (level, fixed)
    }

    /// Reports a subject that is invalid by current rules, from an earlier version. The key stays
    /// valid.
    pub fn name_problem(&self) -> Option<Problem> {
        let fault = validate_name(&self.subject, MAX_TEXT_BYTES).err()?;
        let message = format!("the subject `{}` {fault}", self.subject.escape_debug());
        let fix = "the key is still valid; create another one with a valid subject and revoke this \
            one";
        Some(Problem::new(self.store_key(), message).with_help(fix))
    }

    /// Returns true if it is an invitation: valid only for one join of the node that its subject
    /// names. A delegated key never is.
    pub fn is_invitation(&self) -> bool {
        self.delegations.is_empty() && is_invitation_rights(&self.rights)
    }

    /// Parses the stored record of a key.
    ///
    /// # Errors
    /// If it is unreadable, or belongs to another key.
    pub fn parse_record(name: &str, text: &[u8]) -> Result<Self, Problem> {
        let record: Self = serde_json::from_slice(text).map_err(|error| {
            Problem::new(name, format!("cannot parse the key's record: {error}"))
                .with_help("revoke the key and create a new one")
        })?;
        if record.store_key() == name {
            return Ok(record);
        }
        Err(Problem::new(name, format!("the record belongs to the key `{}`", record.id)))
    }
}

/// Returns true if these are the rights of an invitation.
fn is_invitation_rights(rights: &BTreeSet<Right>) -> bool {
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
    pub level: PermissionLevel,
    /// True if changes of its user's level do not affect it.
    pub level_fixed: bool,
    /// Roles of the key.
    pub roles: Vec<String>,
    /// Persona of the key.
    pub persona: Option<Persona>,
    /// Rights of the key, besides calling tools.
    pub rights: BTreeSet<Right>,
    /// Restrictions by each delegation, from the first key to this one.
    pub delegations: Vec<KeyDelegation>,
    /// True if an agent will hold the key.
    pub is_agent: bool,
    /// Subject whose key creates it, if any.
    pub creator: Option<String>,
    /// Label for people; may be empty.
    pub label: String,
    /// Time at which the key expires.
    pub expires_at: Option<WallTime>,
    /// Toolset to which the key is bound.
    pub toolset: Option<String>,
}

impl NewKey {
    /// Requests a user's key for an agent, without further rights and without expiry.
    pub fn for_user(id: KeyId, subject: impl Into<String>) -> Self {
        Self {
            id,
            org: Org::default(),
            subject: subject.into(),
            level: PermissionLevel::User,
            level_fixed: false,
            roles: Vec::new(),
            persona: None,
            rights: BTreeSet::new(),
            delegations: Vec::new(),
            is_agent: true,
            creator: None,
            label: String::new(),
            expires_at: None,
            toolset: None,
        }
    }

    /// Requests the first key of an installation: a person's, with every right.
    pub fn for_owner(id: KeyId) -> Self {
        Self {
            level: PermissionLevel::Owner,
            rights: Right::ALL.iter().copied().collect(),
            is_agent: false,
            label: "created on first start".to_owned(),
            ..Self::for_user(id, "owner")
        }
    }

    /// Requests the second key of an installation: for the owner's agent, which approves nothing.
    pub fn for_agent(id: KeyId) -> Self {
        Self { label: "created on first start".to_owned(), ..Self::for_user(id, "agent") }
    }

    /// Checks that `creator` may create this key: it can grant only what it has.
    ///
    /// # Errors
    /// [`KeyIssueError`] with the first missing grant.
    pub(crate) fn check_grantable_by(
        &self,
        creator: &Principal,
        directory: &Directory,
    ) -> Result<(), KeyIssueError> {
        if self.org != *creator.org() {
            return Err(KeyIssueError::OtherOrg {
                own_org: creator.org().clone(),
                requested_org: self.org.clone(),
            });
        }
        if is_invitation_rights(&self.rights) {
            return Err(KeyIssueError::Invitation);
        }
        if self.level > creator.level() {
            return Err(KeyIssueError::LevelExceeded {
                own_level: creator.level(),
                requested_level: self.level,
            });
        }
        if creator.is_agent() && !self.is_agent {
            return Err(KeyIssueError::PersonKeyByAgent);
        }
        let role_rights = directory.role_rights(&self.roles);
        // Rights that no agent may have are not granted by a role.
        let granted_rights =
            role_rights.iter().filter(|right| !self.is_agent || right.is_allowed_for_agents());
        if let Some(right) =
            self.rights.iter().chain(granted_rights).find(|right| !creator.has_right(**right))
        {
            return Err(KeyIssueError::MissingRight(*right));
        }
        let lacks = |role: &&String| {
            !creator.roles().contains(role) && creator.level() < PermissionLevel::Owner
        };
        if let Some(role) = self.roles.iter().find(lacks) {
            return Err(KeyIssueError::MissingRole(role.clone()));
        }
        let Some(own_modules) =
            creator.persona().and_then(|persona| persona.allowed_modules.as_ref())
        else {
            return Ok(());
        };
        let requested_modules =
            self.persona_modules(directory).ok_or(KeyIssueError::ModulesRequired)?;
        requested_modules
            .difference(own_modules)
            .next()
            .map_or(Ok(()), |module| Err(KeyIssueError::ModuleNotAllowed(module.clone())))
    }

    /// Issues the key: returns the secret, to be shown once, and its record.
    ///
    /// `random` must come fresh from the operating system; it is the entire entropy of the key.
    ///
    /// # Errors
    /// [`KeyIssueError`] if a text, a list or a right is invalid.
    pub fn issue_key(
        self,
        random: [u8; 32],
        now: WallTime,
    ) -> Result<(Secret, KeyRecord), KeyIssueError> {
        self.validate(now)?;
        let text = key_text::encode_key(&self.id, &random);
        let record = KeyRecord {
            key_digest: key_digest(&text),
            id: self.id,
            org: self.org,
            subject: self.subject,
            level: self.level,
            level_fixed: self.level_fixed,
            roles: self.roles,
            persona: self.persona,
            rights: self.rights,
            delegations: self.delegations,
            is_agent: self.is_agent,
            creator: self.creator,
            label: self.label,
            created_at: now,
            expires_at: self.expires_at,
            revoked_at: None,
            toolset: self.toolset,
        };
        Ok((Secret::new(text), record))
    }

    fn validate(&self, now: WallTime) -> Result<(), KeyIssueError> {
        check_name_text("subject", &self.subject)?;
        if !self.label.is_empty() {
            check_line_text("label", &self.label)?;
        }
        check_count("roles", self.roles.len(), MAX_ROLES)?;
        self.roles.iter().try_for_each(|role| check_name_text("role", role))?;
        if let Some(persona) = &self.persona {
            check_name_text("persona's name", &persona.name)?;
            let modules = persona.allowed_modules.iter().flatten();
            check_count("modules", modules.clone().count(), MAX_MODULES)?;
            modules.into_iter().try_for_each(|module| check_name_text("module", module))?;
        }
        if let Some(right) =
            self.rights.iter().find(|right| self.is_agent && !right.is_allowed_for_agents())
        {
            return Err(KeyIssueError::AgentRight(*right));
        }
        if let Some(toolset) = &self.toolset {
            if SourceName::new(toolset).is_err() {
                return Err(KeyIssueError::InvalidToolset(toolset.chars().take(64).collect()));
            }
            if !self.rights.is_empty() {
                return Err(KeyIssueError::ToolsetRights);
            }
        }
        if self.expires_at.is_some_and(|expires| expires <= now) {
            return Err(KeyIssueError::AlreadyExpired);
        }
        Ok(())
    }
}

/// Validates a text as a name.
fn check_name_text(what: &'static str, text: &str) -> Result<(), KeyIssueError> {
    validate_name(text, MAX_TEXT_BYTES).map_err(|fault| KeyIssueError::InvalidText { what, fault })
}

/// Validates a display line.
fn check_line_text(what: &'static str, text: &str) -> Result<(), KeyIssueError> {
    validate_line(text, MAX_TEXT_BYTES).map_err(|fault| KeyIssueError::InvalidText { what, fault })
}

fn check_count(what: &'static str, found: usize, limit: usize) -> Result<(), KeyIssueError> {
    if found > limit { Err(KeyIssueError::TooMany { what, found, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
