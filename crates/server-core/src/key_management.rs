//! Management of API keys: listing, creation and revocation, with the rights that each needs.

use std::collections::BTreeSet;
use std::sync::Arc;

use identity::{CredentialErrorKind, KeyRecord, KeyRing, NewKey, Persona, Principal, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{ErrorCode, PermissionLevel, WallTime};

use crate::authorization_checks::require_right;
use crate::error::ApiError;
use crate::key_store::KeyStore;
use crate::page_query::{self, PageQuery};
use crate::server_state::ServerState;
use crate::toolset_management::require_known_toolset;

/// The options of a key revocation.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRevocationQuery {
    /// Whether to revoke the key even if it is the last valid owner key.
    #[serde(default)]
    pub last_owner: bool,
}

/// A key to create. It cannot have more rights than the key that creates it. If that key is
/// delegated, the new key is bound to it. Another existing subject requires the right `act_as` or
/// an owner's key.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateKeyBody {
    /// User that the key stands for.
    pub subject: String,
    /// Level: `guest`, `user`, `admin` or `owner`; `user` if absent.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub level: Option<PermissionLevel>,
    /// Description of the key.
    #[serde(default)]
    pub label: String,
    /// Whether the key is for a person instead of an agent; false if absent.
    #[serde(default)]
    pub person: Option<bool>,
    /// Opposite of `person`, for older clients.
    #[serde(default)]
    pub agent: Option<bool>,
    /// Rights besides calling tools, such as `records:read`.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub rights: BTreeSet<Right>,
    /// Roles of the key.
    #[serde(default)]
    pub roles: Vec<String>,
    /// Sources whose tools the key may use; all if absent, none if empty.
    #[serde(default, alias = "persona_modules")]
    pub modules: Option<BTreeSet<String>>,
    /// Lifetime in seconds; unlimited if absent.
    #[serde(default)]
    pub expires_in: Option<u64>,
    /// Toolset to which the key is bound: nothing else exists for it, and it has no rights.
    #[serde(default)]
    pub toolset: Option<String>,
}

/// A created key with its secret.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CreateKeyReply {
    /// The key. It is returned once and cannot be shown again.
    pub key: String,
    /// ID of the key.
    pub id: String,
}

/// A page of the keys of an organization.
#[derive(Debug, Serialize, JsonSchema)]
pub struct KeyListReply {
    /// Keys, sorted by ID.
    pub keys: Vec<KeyReply>,
    /// Value of `after` for the next page; null on the last page.
    pub next: Option<String>,
}

/// A key, without its secret.
#[derive(Debug, Serialize, JsonSchema)]
pub struct KeyReply {
    /// ID of the key.
    pub id: String,
    /// User that the key stands for.
    pub subject: String,
    /// Level of the key.
    #[schemars(with = "String")]
    pub level: PermissionLevel,
    /// Description of the key.
    pub label: String,
    /// Whether it is for an agent.
    pub agent: bool,
    /// Rights besides calling tools.
    #[schemars(with = "Vec<String>")]
    pub rights: BTreeSet<Right>,
    /// Roles of the key.
    pub roles: Vec<String>,
    /// Toolset to which the key is bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toolset: Option<String>,
    /// Sources whose tools the key may use; null for all.
    pub modules: Option<BTreeSet<String>>,
    /// Same as `modules`, for older clients.
    pub persona_modules: Option<BTreeSet<String>>,
    /// Keys from which this key was delegated, oldest first.
    #[serde(rename = "came_of")]
    pub delegated_from: Vec<String>,
    /// Reason why the key is invalid: `revoked`, `expired`, `disabled` or `orphaned`.
    #[serde(rename = "over")]
    pub inactive_reason: Option<String>,
    /// Creation time, RFC 3339.
    pub created: String,
    /// Expiry time, RFC 3339.
    pub expires: Option<String>,
    /// Time of the revocation, RFC 3339.
    pub revoked: Option<String>,
}

/// Lists the keys of the caller's organization, by ID.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right; an error for an invalid page.
pub async fn list_keys(
    state: &ServerState,
    principal: &Principal,
    page: PageQuery,
) -> Result<KeyListReply, ApiError> {
    require_right(principal, Right::KeysWrite)?;
    let (limit, ring) = (page.check_limit()?, state.components.keys.key_ring());
    let (now, org) = (state.components.clock.wall_now(), principal.org().clone());
    let found = page_query::run_blocking(move || {
        let over = |record: &KeyRecord| ring.invalid_reason(record.id.as_str(), now);
        let records =
            ring.page_records(page.after.as_deref(), limit + 1, |record| record.org == org);
        records.into_iter().map(|record| key_reply(record, over(record))).collect::<Vec<_>>()
    });
    let mut keys = found.await?;
    let next = page_query::cut_page(&mut keys, limit, |key| &key.id);
    Ok(KeyListReply { keys, next })
}

/// Creates a key, whose secret is returned once.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right, or for a key with more rights than the caller's; an
/// error for an invalid key.
pub async fn create_key(
    state: &ServerState,
    principal: &Principal,
    body: CreateKeyBody,
) -> Result<CreateKeyReply, ApiError> {
    require_right(principal, Right::KeysWrite)?;
    require_known_toolset(state, principal, body.toolset.as_ref())?;
    let now = state.components.clock.wall_now();
    let mut new = NewKey::for_user(KeyStore::generate_key_id()?, body.subject);
    new.org = principal.org().clone();
    new.level = body.level.unwrap_or(PermissionLevel::User);
    new.is_agent = match (body.person, body.agent) {
        (Some(person), Some(agent)) if person == agent => {
            let message = "`person` and `agent` contradict each other";
            return Err(ApiError::new(ErrorCode::InvalidRequest, message).with_help("omit `agent`"));
        }
        (Some(person), _) => !person,
        (None, agent) => agent.unwrap_or(true),
    };
    (new.label, new.rights, new.roles) = (body.label, body.rights, body.roles);
    new.toolset = body.toolset;
    new.persona = body
        .modules
        .map(|modules| Persona { name: "key".to_owned(), allowed_modules: Some(modules) });
    new.expires_at =
        body.expires_in.map(|s| WallTime(now.0.saturating_add(s.saturating_mul(1_000))));
    let (secret, record) = state.components.keys.create_by(principal, new, now).await?;
    let id = record.id.to_string();
    tracing::info!(key = %id, subject = record.subject, by = principal.key_id(), "key created");
    Ok(CreateKeyReply { key: secret.expose().to_owned(), id })
}

/// Revokes a key and all keys delegated from it. Keys delegated from the caller's own need no right.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right, or for a key of a higher level;
/// [`ErrorCode::NotFound`]; [`ErrorCode::Conflict`] for the last owner key.
pub async fn revoke_key(
    state: &ServerState,
    principal: &Principal,
    id: String,
    revocation: KeyRevocationQuery,
) -> Result<KeyReply, ApiError> {
    let ring = state.components.keys.key_ring();
    let target = ring.find_record(&id).filter(|record| record.org == *principal.org());
    let came_of_own = |record: &KeyRecord| {
        record.delegations.iter().any(|hand| hand.delegated_by == principal.key_id())
            && !principal.is_from_token()
    };
    if !target.is_some_and(came_of_own) {
        require_right(principal, Right::KeysWrite)?;
    }
    let Some(target) = target else {
        return Err(ApiError::new(ErrorCode::NotFound, format!("no key `{}`", id.escape_debug())));
    };
    if target.level > principal.level() {
        return Err(ApiError::new(ErrorCode::Forbidden, "the key has a higher level than yours"));
    }
    let now = state.components.clock.wall_now();
    if !revocation.last_owner && is_owner(target) {
        let (ring, id) = (Arc::clone(&ring), id.clone());
        if page_query::run_blocking(move || is_last_owner(&ring, &id, now)).await? {
            let message = "it is the last valid owner key: without it, nobody can manage \
                keys or approve calls";
            return Err(ApiError::new(ErrorCode::Conflict, message).with_help(
                "create another owner key first, or force it with `toolkeep key revoke ID --yes`; \
                 `toolkeep key recover` on the server's machine creates a new one",
            ));
        }
    }
    let record = state.components.keys.revoke_key(&id, now).await?;
    tracing::info!(key = %id, by = principal.key_id(), "key revoked");
    Ok(key_reply(&record, Some(CredentialErrorKind::Revoked)))
}

/// Whether a key is a person's owner key that can manage keys.
fn is_owner(record: &KeyRecord) -> bool {
    record.level == PermissionLevel::Owner
        && !record.is_agent
        && record.rights.contains(&Right::KeysWrite)
}

/// Whether no valid owner key remains without this one and the keys delegated from it.
fn is_last_owner(ring: &KeyRing, id: &str, now: WallTime) -> bool {
    if ring.invalid_reason(id, now).is_some() {
        return false;
    }
    let left = |record: &KeyRecord| {
        is_owner(record)
            && record.id.as_str() != id
            && record.delegations.iter().all(|hand| hand.delegated_by != id)
            && ring.invalid_reason(record.id.as_str(), now).is_none()
    };
    ring.count_records(left) == 0
}

/// Builds the reply for a key; `over` is the reason why it is not valid, apart from its own expiry.
fn key_reply(record: &KeyRecord, over: Option<CredentialErrorKind>) -> KeyReply {
    let modules = record.persona.as_ref().and_then(|p| p.allowed_modules.clone());
    KeyReply {
        id: record.id.to_string(),
        subject: record.subject.clone(),
        level: record.level,
        label: record.label.clone(),
        agent: record.is_agent,
        rights: record.rights.clone(),
        roles: record.roles.clone(),
        toolset: record.toolset.clone(),
        delegated_from: record.delegations.iter().map(|hand| hand.delegated_by.clone()).collect(),
        inactive_reason: over.map(|reason| reason.as_str().to_owned()),
        modules: modules.clone(),
        persona_modules: modules,
        created: record.created_at.to_string(),
        expires: record.expires_at.map(|wall| wall.to_string()),
        revoked: record.revoked_at.map(|wall| wall.to_string()),
    }
}
