//! Delegation of keys: a narrower key of one's own, or one to act for another user.

use std::collections::BTreeSet;
use std::time::Duration;

use identity::{DelegationRequest, Principal, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{ErrorCode, PermissionLevel, WallTime};

use crate::error::ApiError;
use crate::server_state::ServerState;
use crate::toolset_management::require_known_toolset;

/// Lifetime of a key with which a person acts for another user for a moment.
const ACTING_LIFETIME: Duration = Duration::from_mins(10);

/// A narrower key. Absent fields are inherited from the requesting key, except rights, which must
/// be listed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DelegateKeyBody {
    /// Level, at most that of the requesting key.
    #[schemars(with = "Option<String>")]
    pub level: Option<PermissionLevel>,
    /// Rights to keep; none if empty.
    #[schemars(with = "Vec<String>")]
    pub rights: BTreeSet<Right>,
    /// Sources whose tools stay allowed.
    #[serde(alias = "persona_modules")]
    pub modules: Option<BTreeSet<String>>,
    /// Patterns and groups of tools to allow; all if absent, none if empty.
    pub allow: Option<Vec<String>>,
    /// Patterns and groups of tools to exclude.
    pub deny: Vec<String>,
    /// Whether to exclude tools with side effects.
    pub read_only: bool,
    /// Whether to exclude tools that reach the network.
    pub no_web: bool,
    /// User to act for, with the lesser rights of both; requires the right `act_as`.
    pub act_as: Option<String>,
    /// Whether the key is for a person instead of an agent.
    pub person: bool,
    /// Description of the key.
    pub label: String,
    /// Toolset to which the key is bound, if the requesting key is bound to none.
    pub toolset: Option<String>,
    /// Lifetime in seconds; one day if absent, and at most that of the requesting key.
    pub expires_in: Option<u64>,
}

/// A delegated key with its secret.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DelegateKeyReply {
    /// The key. It is returned once and cannot be shown again.
    pub key: String,
    /// ID of the key.
    pub id: String,
    /// User that the key stands for.
    pub subject: String,
    /// Expiry time of the key.
    pub expires: Option<String>,
}

/// Creates a narrower key of the caller's, whose secret is returned once.
///
/// # Errors
/// [`ErrorCode::Forbidden`] for more rights than the caller's, or for another user without the right
/// `act_as`; an error for an invalid key.
pub async fn delegate_key(
    state: &ServerState,
    principal: &Principal,
    body: DelegateKeyBody,
) -> Result<DelegateKeyReply, ApiError> {
    require_known_toolset(state, principal, body.toolset.as_ref())?;
    let now = state.components.clock.wall_now();
    let end = |s: u64| WallTime(now.0.saturating_add(s.saturating_mul(1_000)));
    let request = DelegationRequest {
        level: body.level,
        rights: body.rights,
        allowed_modules: body.modules,
        allowed_tools: body.allow,
        denied_tools: body.deny,
        is_read_only: body.read_only,
        denies_network: body.no_web,
        subject: body.act_as,
        is_person: body.person,
        label: body.label,
        toolset: body.toolset,
        expires_at: body.expires_in.map(end),
    };
    let (secret, record) = state.components.keys.delegate_key(principal, request, now).await?;
    let id = record.id.to_string();
    tracing::info!(key = %id, subject = record.subject, by = principal.key_id(), "key delegated");
    let expires = record.expires_at.map(|wall| wall.to_string());
    Ok(DelegateKeyReply { key: secret.expose().to_owned(), id, subject: record.subject, expires })
}

/// Returns the principal of a person who acts for another user: that of a key which is delegated for
/// ten minutes, and whose secret nobody gets.
///
/// # Errors
/// As [`delegate_key`].
pub async fn act_for_user(
    state: &ServerState,
    principal: &Principal,
    subject: &str,
) -> Result<Principal, ApiError> {
    let body = DelegateKeyBody {
        act_as: Some(subject.to_owned()),
        label: format!("{} acts for {subject}", principal.subject()),
        expires_in: Some(ACTING_LIFETIME.as_secs()),
        ..DelegateKeyBody::default()
    };
    let key = delegate_key(state, principal, body).await?;
    let ring = state.components.keys.key_ring();
    ring.principal_of_key(&key.id).cloned().ok_or_else(|| {
        ApiError::new(ErrorCode::Conflict, "the key to act with was revoked in the meantime")
    })
}
