//! Management of users, who are the subjects of keys: levels, creation, and disabling. Nobody can
//! be made an owner.

use std::collections::BTreeMap;

use identity::{KeyRecord, KeyRing, NewKey, Persona, Principal, Right, UserRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{ErrorCode, Org, PermissionLevel};

use crate::authorization_checks::require_right;
use crate::error::ApiError;
use crate::key_store::KeyStore;
use crate::page_query::{self, PageQuery};
use crate::server_state::ServerState;

/// A page of users.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UserListReply {
    /// Users, sorted by name.
    pub users: Vec<UserReply>,
    /// Value of `after` for the next page; null on the last page.
    pub next: Option<String>,
}

/// A user, and its keys in numbers.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UserReply {
    /// Name of the user.
    pub subject: String,
    /// Highest level of the user's keys.
    #[schemars(with = "String")]
    pub level: PermissionLevel,
    /// Persona of the user's keys.
    pub persona: Option<String>,
    /// Roles of the user, which apply when others act for it.
    pub roles: Vec<String>,
    /// Number of keys that are not revoked.
    pub keys: usize,
    /// Time since which the user is disabled.
    pub disabled: Option<String>,
}

/// A user to create, with its first key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateUserBody {
    /// Name of the user.
    pub subject: String,
    /// Level: `guest`, `user` or `admin`; `guest` if absent.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub level: Option<PermissionLevel>,
    /// Name of a persona.
    #[serde(default)]
    pub persona: Option<String>,
    /// Roles of the user and its key.
    #[serde(default)]
    pub roles: Vec<String>,
    /// Whether the key is for a person instead of an agent.
    #[serde(default)]
    #[serde(rename = "person")]
    pub is_person: bool,
}

/// A created user with its key.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CreateUserReply {
    /// Name of the user.
    pub subject: String,
    /// Level of the user.
    #[schemars(with = "String")]
    pub level: PermissionLevel,
    /// The key. It is returned once and cannot be shown again.
    pub key: String,
    /// ID of the key.
    pub id: String,
}

/// A new level for a user.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetUserLevelBody {
    /// Level: `guest`, `user` or `admin`.
    #[schemars(with = "String")]
    pub level: PermissionLevel,
}

fn reject_owner_level(level: PermissionLevel) -> Result<(), ApiError> {
    if level < PermissionLevel::Owner {
        return Ok(());
    }
    Err(ApiError::new(ErrorCode::Forbidden, "the level `owner` cannot be granted")
        .with_help("use guest, user or admin; the owner's key is created by the first start"))
}

/// The keys of a user that are not revoked.
fn active_keys_of(state: &ServerState, principal: &Principal, subject: &str) -> Vec<KeyRecord> {
    let ring = state.components.keys.key_ring();
    let own = |record: &&&KeyRecord| record.org == *principal.org() && record.revoked_at.is_none();
    let records = ring.sorted_records();
    let records = records.iter().filter(own).filter(|record| record.subject == subject);
    records.map(|record| KeyRecord::clone(record)).collect()
}

/// Lists the users of the caller's organization, by name.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right, or for a level above the caller's; an error for an
/// unknown user or an invalid request.
pub async fn list_users(
    state: &ServerState,
    principal: &Principal,
    page: PageQuery,
) -> Result<UserListReply, ApiError> {
    require_right(principal, Right::KeysWrite)?;
    let (limit, ring) = (page.check_limit()?, state.components.keys.key_ring());
    let org = principal.org().clone();
    let found = page_query::run_blocking(move || {
        collect_users(&ring, &org, (page.after.as_deref(), limit + 1))
    });
    let mut users = found.await?;
    let next = page_query::cut_page(&mut users, limit, |user| &user.subject);
    Ok(UserListReply { users, next })
}

fn collect_users(
    ring: &KeyRing,
    org: &Org,
    (after, limit): (Option<&str>, usize),
) -> Vec<UserReply> {
    let own = |record: &&&KeyRecord| record.org == *org && record.revoked_at.is_none();
    let late = |subject: &str| after.is_none_or(|after| subject > after);
    let mut users = BTreeMap::<&str, Vec<&KeyRecord>>::new();
    let records = ring.sorted_records();
    for record in records.iter().filter(own).filter(|record| late(&record.subject)) {
        users.entry(record.subject.as_str()).or_default().push(record);
    }
    // Include users without a key.
    let directory = ring.directory();
    for user in directory.list_users().filter(|user| user.org == *org && late(&user.subject)) {
        users.entry(user.subject.as_str()).or_default();
    }
    let record = |subject: &str| directory.find_user(org, subject);
    let users = users.into_iter().take(limit);
    users.map(|(name, keys)| user_reply((name, record(name)), &keys)).collect()
}

fn user_reply((subject, user): (&str, Option<&UserRecord>), keys: &[&KeyRecord]) -> UserReply {
    let level = keys.iter().map(|key| key.level).max();
    let persona = keys.iter().find_map(|key| key.persona.as_ref());
    let persona = persona.map(|persona| persona.name.clone());
    UserReply {
        subject: subject.to_owned(),
        level: level.or(user.map(|user| user.level)).unwrap_or(PermissionLevel::Guest),
        persona: persona.or_else(|| user.and_then(|user| user.persona.clone())),
        roles: user.map(|user| user.roles.clone()).unwrap_or_default(),
        keys: keys.len(),
        disabled: user.and_then(|user| user.disabled_at).map(|wall| wall.to_string()),
    }
}

/// Creates a user and a key, whose secret is returned once.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right, or for a level above the caller's; an error for an
/// unknown user or an invalid request.
pub async fn create_user(
    state: &ServerState,
    principal: &Principal,
    body: CreateUserBody,
) -> Result<CreateUserReply, ApiError> {
    require_right(principal, Right::KeysWrite)?;
    let level = body.level.unwrap_or(PermissionLevel::Guest);
    reject_owner_level(level)?;
    let there = state.components.keys.key_ring();
    let there = there.directory().find_user(principal.org(), &body.subject);
    if there.is_some() || !active_keys_of(state, principal, &body.subject).is_empty() {
        let message = format!("the user `{}` already exists", body.subject.escape_debug());
        let fix = "run `toolkeep key create` to create another key for it";
        return Err(ApiError::new(ErrorCode::Conflict, message).with_help(fix));
    }
    let keys = &state.components.keys;
    let mut new = NewKey::for_user(KeyStore::generate_key_id()?, body.subject);
    (new.org, new.level, new.is_agent) = (principal.org().clone(), level, !body.is_person);
    new.roles = body.roles;
    let ring = keys.key_ring();
    if let Some(name) = body.persona {
        if ring.personas().find_persona(&name).is_none() {
            let told = format!("no persona `{}`", name.escape_debug());
            return Err(ApiError::new(ErrorCode::NotFound, told));
        }
        // Stored by name, so that later changes of the persona apply.
        new.persona = Some(Persona { name, allowed_modules: None });
    }
    let user = UserRecord {
        org: new.org.clone(),
        subject: new.subject.clone(),
        level,
        roles: new.roles.clone(),
        persona: new.persona.as_ref().map(|persona| persona.name.clone()),
        disabled_at: None,
    };
    let (secret, record) =
        keys.create_by(principal, new, state.components.clock.wall_now()).await?;
    // Stored after the key, which is validated more strictly: no user without a valid key.
    keys.upsert_user(&user).await?;
    let id = record.id.to_string();
    tracing::info!(key = %id, subject = record.subject, by = principal.key_id(), "user created");
    let key = secret.expose().to_owned();
    Ok(CreateUserReply { subject: record.subject, level, key, id })
}

/// Disables a user and its keys.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right, or for a level above the caller's; an error for an
/// unknown user or an invalid request.
pub async fn disable_user(
    state: &ServerState,
    principal: &Principal,
    subject: &str,
) -> Result<UserReply, ApiError> {
    if subject == principal.subject() {
        let message = "this is your own user, and your key would become invalid too";
        return Err(ApiError::new(ErrorCode::Conflict, message));
    }
    let now = state.components.clock.wall_now();
    update_user(state, principal, subject, |user| {
        user.disabled_at = user.disabled_at.or(Some(now));
    })
    .await
}

/// Enables a disabled user.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right, or for a level above the caller's; an error for an
/// unknown user or an invalid request.
pub async fn enable_user(
    state: &ServerState,
    principal: &Principal,
    subject: &str,
) -> Result<UserReply, ApiError> {
    update_user(state, principal, subject, |user| user.disabled_at = None).await
}

/// Updates a user whose level does not exceed the caller's.
async fn update_user(
    state: &ServerState,
    principal: &Principal,
    subject: &str,
    change: impl FnOnce(&mut UserRecord),
) -> Result<UserReply, ApiError> {
    require_right(principal, Right::KeysWrite)?;
    let keys = active_keys_of(state, principal, subject);
    let mut user = find_or_derive_user(state, principal, subject, &keys)?;
    if user.level > principal.level() || keys.iter().any(|key| key.level > principal.level()) {
        let message = format!("your own level `{}` is too low", principal.level());
        return Err(ApiError::new(ErrorCode::Forbidden, message));
    }
    change(&mut user);
    state.components.keys.upsert_user(&user).await?;
    let disabled = user.disabled_at.is_some();
    tracing::info!(subject, disabled, by = principal.key_id(), "user changed");
    Ok(user_reply((subject, Some(&user)), &keys.iter().collect::<Vec<_>>()))
}

/// Returns a user's record, or derives it from its keys if there is none yet.
fn find_or_derive_user(
    state: &ServerState,
    principal: &Principal,
    subject: &str,
    keys: &[KeyRecord],
) -> Result<UserRecord, ApiError> {
    let ring = state.components.keys.key_ring();
    if let Some(user) = ring.directory().find_user(principal.org(), subject) {
        return Ok(user.clone());
    }
    let level = keys.iter().map(|key| key.level).max().ok_or_else(|| {
        let message = format!("no user `{}`", subject.escape_debug());
        ApiError::new(ErrorCode::NotFound, message).with_help(
            "run `toolkeep user list` to see all \
            users",
        )
    })?;
    let persona = keys.iter().find_map(|key| key.persona.as_ref());
    let persona = persona.map(|persona| persona.name.clone());
    let (org, subject) = (principal.org().clone(), subject.to_owned());
    Ok(UserRecord { org, subject, level, roles: Vec::new(), persona, disabled_at: None })
}

/// Sets the level of a user and its keys.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right, or for a level above the caller's; an error for an
/// unknown user or an invalid request.
pub async fn set_user_level(
    state: &ServerState,
    principal: &Principal,
    subject: &str,
    body: SetUserLevelBody,
) -> Result<UserReply, ApiError> {
    require_right(principal, Right::KeysWrite)?;
    reject_owner_level(body.level)?;
    let keys = active_keys_of(state, principal, subject);
    if keys.is_empty() {
        let message = format!("no user `{}`", subject.escape_debug());
        return Err(ApiError::new(ErrorCode::NotFound, message).with_help(
            "run `toolkeep user list` to see \
                all users",
        ));
    }
    if body.level > principal.level() || keys.iter().any(|key| key.level > principal.level()) {
        let told = format!("your own level `{}` is too low", principal.level());
        return Err(ApiError::new(ErrorCode::Forbidden, told));
    }
    if keys.iter().any(|key| key.level == PermissionLevel::Owner) {
        let told = "the owner's level cannot be changed; revoke the key, or use another subject";
        return Err(ApiError::new(ErrorCode::Forbidden, told));
    }
    let mut user = find_or_derive_user(state, principal, subject, &keys)?;
    let moves =
        |key: &&KeyRecord| key.level_after(user.level, body.level) != (key.level, key.level_fixed);
    for key in keys.iter().filter(moves) {
        state.components.keys.change_level(key.id.as_str(), user.level, body.level).await?;
    }
    let (level, by) = (body.level, principal.key_id());
    tracing::info!(subject, %level, by, keys = keys.len(), "user promoted");
    user.level = body.level;
    state.components.keys.upsert_user(&user).await?;
    let keys = active_keys_of(state, principal, subject);
    Ok(user_reply((subject, Some(&user)), &keys.iter().collect::<Vec<_>>()))
}
