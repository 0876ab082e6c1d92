//! `/v1/users`: users, their levels and keys. A user is the subject of keys; nobody can be made an
//! owner.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::routing::{delete, get, post};
use axum::{Extension, Json as Reply};
use identity::{KeyRecord, KeyRing, NewKey, Persona, Principal, Right, User};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{Code, Level, Org};

use super::page::{self, Page};
use super::standing::has;
use server_core::body::{Body, Params};
use server_core::error::ApiError;
use server_core::keys::Keys;
use server_core::route::Route;
use server_core::state::Doors;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new("get", "/v1/users", "The users and their levels", get(list))
            .query(page::QUERY)
            .reply::<UsersReply>(),
        Route::new("post", "/v1/users", "Make a user, with a key that is shown once", post(create))
            .body::<NewUser>()
            .reply::<NewUserReply>(),
        Route::new("post", "/v1/users/{subject}/level", "Give a user another level", post(promote))
            .body::<Promotion>()
            .reply::<UserReply>(),
        Route::new(
            "delete",
            "/v1/users/{subject}",
            "Disable a user: none of its keys holds",
            delete(disable),
        )
        .reply::<UserReply>(),
        Route::new("post", "/v1/users/{subject}/enable", "Enable a user again", post(enable))
            .reply::<UserReply>(),
    ]
}

#[derive(Debug, Serialize, JsonSchema)]
struct UsersReply {
    /// By name.
    users: Vec<UserReply>,
    /// Give it as `after` for the next page; null at the end.
    next: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct UserReply {
    subject: String,
    /// The highest of its keys.
    #[schemars(with = "String")]
    level: Level,
    /// The persona its keys name.
    persona: Option<String>,
    /// Its roles, which count where others act for it.
    roles: Vec<String>,
    /// How many keys it has that are not revoked.
    keys: usize,
    /// Since when none of its keys holds.
    disabled: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewUser {
    subject: String,
    /// `guest`, `user` or `admin`; `guest` where absent.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    level: Option<Level>,
    /// The name of a persona.
    #[serde(default)]
    persona: Option<String>,
    /// Its roles, and those of its key.
    #[serde(default)]
    roles: Vec<String>,
    /// Whether a person holds the key, rather than an agent.
    #[serde(default)]
    person: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct NewUserReply {
    subject: String,
    #[schemars(with = "String")]
    level: Level,
    /// The key itself. It is not kept and cannot be shown again.
    key: String,
    /// Its id.
    id: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Promotion {
    /// `guest`, `user` or `admin`.
    #[schemars(with = "String")]
    level: Level,
}

fn allowed(principal: &Principal) -> Result<(), ApiError> {
    has(principal, Right::KeysWrite)
}

fn never_owner(level: Level) -> Result<(), ApiError> {
    if level < Level::Owner {
        return Ok(());
    }
    Err(ApiError::new(Code::Forbidden, "nobody is made an owner")
        .fix("use guest, user or admin; the owner's key is made by the first start"))
}

/// The keys of a user that are not revoked.
fn keys_of(doors: &Doors, principal: &Principal, subject: &str) -> Vec<KeyRecord> {
    let ring = doors.parts.keys.ring();
    let own = |record: &&&KeyRecord| record.org == *principal.org() && record.revoked.is_none();
    let records = ring.records();
    let records = records.iter().filter(own).filter(|record| record.subject == subject);
    records.map(|record| KeyRecord::clone(record)).collect()
}

async fn list(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Params(page): Params<Page>,
) -> Result<Reply<UsersReply>, ApiError> {
    allowed(&principal)?;
    let (limit, ring) = (page.limit()?, doors.parts.keys.ring());
    let org = principal.org().clone();
    let found = page::away(move || listed(&ring, &org, (page.after.as_deref(), limit + 1)));
    let mut users = found.await?;
    let next = page::cut(&mut users, limit, |user| &user.subject);
    Ok(Reply(UsersReply { users, next }))
}

fn listed(ring: &KeyRing, org: &Org, (after, limit): (Option<&str>, usize)) -> Vec<UserReply> {
    let own = |record: &&&KeyRecord| record.org == *org && record.revoked.is_none();
    let late = |subject: &str| after.is_none_or(|after| subject > after);
    let mut users = BTreeMap::<&str, Vec<&KeyRecord>>::new();
    let records = ring.records();
    for record in records.iter().filter(own).filter(|record| late(&record.subject)) {
        users.entry(record.subject.as_str()).or_default().push(record);
    }
    // Include users without a key.
    let directory = ring.directory();
    for user in directory.users().filter(|user| user.org == *org && late(&user.subject)) {
        users.entry(user.subject.as_str()).or_default();
    }
    let record = |subject: &str| directory.user(org, subject);
    let users = users.into_iter().take(limit);
    users.map(|(name, keys)| reply((name, record(name)), &keys)).collect()
}

fn reply((subject, user): (&str, Option<&User>), keys: &[&KeyRecord]) -> UserReply {
    let level = keys.iter().map(|key| key.level).max();
    let persona = keys.iter().find_map(|key| key.persona.as_ref());
    let persona = persona.map(|persona| persona.name.clone());
    UserReply {
        subject: subject.to_owned(),
        level: level.or(user.map(|user| user.level)).unwrap_or(Level::Guest),
        persona: persona.or_else(|| user.and_then(|user| user.persona.clone())),
        roles: user.map(|user| user.roles.clone()).unwrap_or_default(),
        keys: keys.len(),
        disabled: user.and_then(|user| user.disabled).map(|wall| wall.to_string()),
    }
}

async fn create(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Body(body): Body<NewUser>,
) -> Result<Reply<NewUserReply>, ApiError> {
    allowed(&principal)?;
    let level = body.level.unwrap_or(Level::Guest);
    never_owner(level)?;
    let there = doors.parts.keys.ring();
    let there = there.directory().user(principal.org(), &body.subject);
    if there.is_some() || !keys_of(&doors, &principal, &body.subject).is_empty() {
        let told = format!("there is a user `{}` already", body.subject.escape_debug());
        let fix = "`toolkeep key create` makes another key for it";
        return Err(ApiError::new(Code::Conflict, told).fix(fix));
    }
    let keys = &doors.parts.keys;
    let mut new = NewKey::user(Keys::fresh_id()?, body.subject);
    (new.org, new.level, new.agent) = (principal.org().clone(), level, !body.person);
    new.roles = body.roles;
    let ring = keys.ring();
    if let Some(name) = body.persona {
        if ring.personas().get(&name).is_none() {
            let told = format!("no persona `{}`", name.escape_debug());
            return Err(ApiError::new(Code::NotFound, told));
        }
        // Stored by name, so that later changes of the persona apply.
        new.persona = Some(Persona { name, allowed_modules: None });
    }
    let user = User {
        org: new.org.clone(),
        subject: new.subject.clone(),
        level,
        roles: new.roles.clone(),
        persona: new.persona.as_ref().map(|persona| persona.name.clone()),
        disabled: None,
    };
    let (secret, record) = keys.create_by(&principal, new, doors.parts.clock.wall()).await?;
    // Stored after the key, which is validated more strictly: no user without a valid key.
    keys.keep_user(&user).await?;
    let id = record.id.to_string();
    tracing::info!(key = %id, subject = record.subject, by = principal.key(), "user made");
    let key = secret.open().to_owned();
    Ok(Reply(NewUserReply { subject: record.subject, level, key, id }))
}

async fn disable(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(subject): Path<String>,
) -> Result<Reply<UserReply>, ApiError> {
    if subject == principal.subject() {
        let told = "that is your own user, and your key would not hold either";
        return Err(ApiError::new(Code::Conflict, told));
    }
    let now = doors.parts.clock.wall();
    change(&doors, &principal, &subject, |user| user.disabled = user.disabled.or(Some(now))).await
}

async fn enable(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(subject): Path<String>,
) -> Result<Reply<UserReply>, ApiError> {
    change(&doors, &principal, &subject, |user| user.disabled = None).await
}

/// Updates a user whose level does not exceed the caller's.
async fn change(
    doors: &Doors,
    principal: &Principal,
    subject: &str,
    change: impl FnOnce(&mut User),
) -> Result<Reply<UserReply>, ApiError> {
    allowed(principal)?;
    let keys = keys_of(doors, principal, subject);
    let mut user = user_of(doors, principal, subject, &keys)?;
    if user.level > principal.level() || keys.iter().any(|key| key.level > principal.level()) {
        let told = format!("your own level is `{}`, and that is not enough", principal.level());
        return Err(ApiError::new(Code::Forbidden, told));
    }
    change(&mut user);
    doors.parts.keys.keep_user(&user).await?;
    let disabled = user.disabled.is_some();
    tracing::info!(subject, disabled, by = principal.key(), "user changed");
    Ok(Reply(reply((subject, Some(&user)), &keys.iter().collect::<Vec<_>>())))
}

/// Returns a user's record, or derives it from its keys if there is none yet.
fn user_of(
    doors: &Doors,
    principal: &Principal,
    subject: &str,
    keys: &[KeyRecord],
) -> Result<User, ApiError> {
    let ring = doors.parts.keys.ring();
    if let Some(user) = ring.directory().user(principal.org(), subject) {
        return Ok(user.clone());
    }
    let level = keys.iter().map(|key| key.level).max().ok_or_else(|| {
        let told = format!("no user `{}`", subject.escape_debug());
        ApiError::new(Code::NotFound, told).fix("see `toolkeep user list`")
    })?;
    let persona = keys.iter().find_map(|key| key.persona.as_ref());
    let persona = persona.map(|persona| persona.name.clone());
    let (org, subject) = (principal.org().clone(), subject.to_owned());
    Ok(User { org, subject, level, roles: Vec::new(), persona, disabled: None })
}

async fn promote(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(subject): Path<String>,
    Body(body): Body<Promotion>,
) -> Result<Reply<UserReply>, ApiError> {
    allowed(&principal)?;
    never_owner(body.level)?;
    let keys = keys_of(&doors, &principal, &subject);
    if keys.is_empty() {
        let told = format!("no user `{}`", subject.escape_debug());
        return Err(ApiError::new(Code::NotFound, told).fix("see `toolkeep user list`"));
    }
    if body.level > principal.level() || keys.iter().any(|key| key.level > principal.level()) {
        let told = format!("your own level is `{}`, and that is not enough", principal.level());
        return Err(ApiError::new(Code::Forbidden, told));
    }
    if keys.iter().any(|key| key.level == Level::Owner) {
        let told = "the owner's level stays; revoke the key, or use another subject";
        return Err(ApiError::new(Code::Forbidden, told));
    }
    let mut user = user_of(&doors, &principal, &subject, &keys)?;
    let moves =
        |key: &&KeyRecord| key.level_after(user.level, body.level) != (key.level, key.level_fixed);
    for key in keys.iter().filter(moves) {
        doors.parts.keys.relevel(key.id.as_str(), user.level, body.level).await?;
    }
    let (level, by) = (body.level, principal.key());
    tracing::info!(subject, %level, by, keys = keys.len(), "user promoted");
    user.level = body.level;
    doors.parts.keys.keep_user(&user).await?;
    let keys = keys_of(&doors, &principal, &subject);
    Ok(Reply(reply((&subject, Some(&user)), &keys.iter().collect::<Vec<_>>())))
}
