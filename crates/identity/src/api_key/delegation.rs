//! Delegated keys: a narrower key for one's own work or on behalf of another user.

use std::collections::BTreeSet;

use tool::{PermissionLevel, WallTime};

use super::{KeyId, KeyRecord, NewKey, check_count, check_line_text};
use crate::effective_rights::MAX_DELEGATION_DEPTH;
use crate::{KeyDelegation, KeyIssueError, Persona, Principal, Right};

/// Maximum number of patterns of one list.
const MAX_PATTERNS: usize = 1_000;
/// Default lifetime of a delegated key: a day, in milliseconds.
const DEFAULT_LIFETIME_MS: u64 = 24 * 60 * 60 * 1_000;

/// Request for a delegated key. An omitted field keeps the value of the parent key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DelegationRequest {
    /// Permission level, if a lower one.
    pub level: Option<PermissionLevel>,
    /// Rights that remain; none if omitted.
    pub rights: BTreeSet<Right>,
    /// Sources that remain allowed.
    pub allowed_modules: Option<BTreeSet<String>>,
    /// Patterns and groups of the tools that remain allowed; an empty list allows none.
    pub allowed_tools: Option<Vec<String>>,
    /// Patterns and groups of the tools that are denied.
    pub denied_tools: Vec<String>,
    /// True if tools with effects are denied.
    pub is_read_only: bool,
    /// True if tools that use the network are denied.
    pub denies_network: bool,
    /// User to act for, if it is another. Needs the right [`Right::ActAs`].
    pub subject: Option<String>,
    /// True if a person will hold the key rather than an agent.
    pub is_person: bool,
    /// Label of the key for people.
    pub label: String,
    /// Toolset to which the key is bound, if its parent is bound to none.
    pub toolset: Option<String>,
    /// Time of expiry; the default is a day from now, and never after the parent key.
    pub expires_at: Option<WallTime>,
}

impl NewKey {
    /// Requests a key delegated by `delegator`, whose record is `record`: never broader than
    /// itself.
    ///
    /// # Errors
    /// [`KeyIssueError`] with the first missing grant or invalid value.
    pub fn delegate_key(
        id: KeyId,
        (record, delegator): (&KeyRecord, &Principal),
        request: DelegationRequest,
        now: WallTime,
    ) -> Result<Self, KeyIssueError> {
        if record.is_invitation() || request.rights.contains(&Right::NodesJoin) {
            return Err(KeyIssueError::Invitation);
        }
        if record.delegations.len() >= MAX_DELEGATION_DEPTH {
            return Err(KeyIssueError::DelegationTooDeep(record.delegations.len()));
        }
        let subject = request.subject.unwrap_or_else(|| record.subject.clone());
        if subject != record.subject && !delegator.has_right(Right::ActAs) {
            return Err(KeyIssueError::MissingActAs(subject));
        }
        let level = request.level.unwrap_or(delegator.level());
        if level > delegator.level() {
            return Err(KeyIssueError::LevelExceeded {
                own_level: delegator.level(),
                requested_level: level,
            });
        }
        if delegator.is_agent() && request.is_person {
            return Err(KeyIssueError::PersonKeyByAgent);
        }
        if let Some(right) = request.rights.iter().find(|right| !delegator.has_right(**right)) {
            return Err(KeyIssueError::MissingRight(*right));
        }
        let limited = delegator.persona().and_then(|persona| persona.allowed_modules.as_ref());
        if let (Some(record), Some(asked)) = (limited, &request.allowed_modules)
            && let Some(module) = asked.difference(record).next()
        {
            return Err(KeyIssueError::ModuleNotAllowed(module.clone()));
        }
        let toolset = delegated_toolset(record.toolset.as_ref(), request.toolset)?;
        let expires = delegated_expiry(delegator.expires_at(), request.expires_at, now)?;
        let hand_of = KeyDelegation {
            delegated_by: record.id.to_string(),
            allowed_tools: request.allowed_tools.map(check_patterns).transpose()?,
            denied_tools: check_patterns(request.denied_tools)?,
            is_read_only: request.is_read_only,
            denies_network: request.denies_network,
            is_created_key: false,
        };
        let delegations = record.delegations.iter().cloned().chain([hand_of]).collect();
        let named = |all| Persona { name: "key".to_owned(), allowed_modules: Some(all) };
        let persona = request.allowed_modules.map(named);
        Ok(Self {
            org: record.org.clone(),
            level,
            level_fixed: level < record.level,
            roles: record.roles.clone(),
            persona,
            rights: request.rights,
            delegations,
            is_agent: !request.is_person,
            creator: Some(delegator.subject().to_owned()),
            label: request.label,
            expires_at: Some(expires),
            toolset,
            ..Self::for_user(id, subject)
        })
    }
}

/// The toolset of a delegated key: its parent's, or another one if its parent has none.
fn delegated_toolset(
    own: Option<&String>,
    asked: Option<String>,
) -> Result<Option<String>, KeyIssueError> {
    match (own, asked) {
        (Some(own), Some(asked)) if *own != asked => Err(KeyIssueError::OtherToolset(own.clone())),
        (own, asked) => Ok(asked.or_else(|| own.cloned())),
    }
}

fn delegated_expiry(
    own: Option<WallTime>,
    asked: Option<WallTime>,
    now: WallTime,
) -> Result<WallTime, KeyIssueError> {
    let day = WallTime(now.0.saturating_add(DEFAULT_LIFETIME_MS));
    match (asked, own) {
        (Some(asked), Some(own)) if asked > own => Err(KeyIssueError::OutlivesParent),
        (Some(asked), _) => Ok(asked),
        (None, own) => Ok(own.map_or(day, |own| own.min(day))),
    }
}

fn check_patterns(all: Vec<String>) -> Result<Vec<String>, KeyIssueError> {
    check_count("patterns", all.len(), MAX_PATTERNS)?;
    let unfit = |pattern: &&String| check_line_text("pattern", pattern).is_err();
    match all.iter().find(unfit) {
        Some(pattern) => {
            Err(KeyIssueError::InvalidPattern(pattern.escape_debug().take(64).collect()))
        }
        None => Ok(all),
    }
}
