//! `/v1/users`: who calls, and at which level. A user is the subject of keys; nobody is made an owner.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use identity::{KeyRecord, NewKey, Persona, Principal, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{Code, Level};

use super::body::Body;
use super::route::Route;
use crate::error::ApiError;
use crate::keys::Keys;
use crate::state::Doors;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new("get", "/v1/users", "The users and their levels", get(list))
            .reply::<UsersReply>(),
        Route::new("post", "/v1/users", "Make a user, with a key that is shown once", post(create))
            .body::<NewUser>()
            .reply::<NewUserReply>(),
        Route::new("post", "/v1/users/{subject}/level", "Give a user another level", post(promote))
            .body::<Promotion>()
            .reply::<UserReply>(),
    ]
}

#[derive(Debug, Serialize, JsonSchema)]
struct UsersReply {
    users: Vec<UserReply>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct UserReply {
    subject: String,
    /// The highest of its keys.
    #[schemars(with = "String")]
    level: Level,
    /// The persona its keys name.
    persona: Option<String>,
    /// How many keys it has that are not revoked.
    keys: usize,
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
    if principal.may(Right::KeysWrite) {
        return Ok(());
    }
    Err(ApiError::new(Code::Forbidden, "the key lacks the right `keys:write`")
        .fix("use the owner's key"))
}

fn never_owner(level: Level) -> Result<(), ApiError> {
    if level < Level::Owner {
        return Ok(());
    }
    Err(ApiError::new(Code::Forbidden, "nobody is made an owner")
        .fix("use guest, user or admin; the owner's key is made by the first start"))
}

/// The keys of a user that may still hold.
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
) -> Result<Reply<UsersReply>, ApiError> {
    allowed(&principal)?;
    let ring = doors.parts.keys.ring();
    let own = |record: &&&KeyRecord| record.org == *principal.org() && record.revoked.is_none();
    let mut users = BTreeMap::<&str, Vec<&KeyRecord>>::new();
    let records = ring.records();
    for record in records.iter().filter(own) {
        users.entry(record.subject.as_str()).or_default().push(record);
    }
    let users = users.into_iter().map(|(subject, keys)| reply(subject, &keys)).collect();
    Ok(Reply(UsersReply { users }))
}

fn reply(subject: &str, keys: &[&KeyRecord]) -> UserReply {
    let level = keys.iter().map(|key| key.level).max().unwrap_or(Level::Guest);
    let persona = keys.iter().find_map(|key| key.persona.as_ref());
    let persona = persona.map(|persona| persona.name.clone());
    UserReply { subject: subject.to_owned(), level, persona, keys: keys.len() }
}

async fn create(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Body(body): Body<NewUser>,
) -> Result<Reply<NewUserReply>, ApiError> {
    allowed(&principal)?;
    let level = body.level.unwrap_or(Level::Guest);
    never_owner(level)?;
    if !keys_of(&doors, &principal, &body.subject).is_empty() {
        let told = format!("there is a user `{}` already", body.subject.escape_debug());
        let fix = "`toolkeep key create` makes another key for it";
        return Err(ApiError::new(Code::Conflict, told).fix(fix));
    }
    let keys = &doors.parts.keys;
    let mut new = NewKey::user(Keys::fresh_id()?, body.subject);
    (new.org, new.level, new.agent) = (principal.org().clone(), level, !body.person);
    if let Some(name) = body.persona {
        let missing =
            || ApiError::new(Code::NotFound, format!("no persona `{}`", name.escape_debug()));
        let named = keys.ring().personas().get(&name).cloned().ok_or_else(missing)?;
        // Judged by what it allows, kept by its name.
        new.persona = Some(named);
    }
    new.within(&principal).map_err(|fault| ApiError::new(Code::Forbidden, fault.to_string()))?;
    let named = new.persona.map(|persona| Persona { allowed_modules: None, ..persona });
    let new = NewKey { persona: named, ..new };
    let (secret, record) = keys.create(new, doors.parts.clock.wall()).await?;
    let id = record.id.to_string();
    tracing::info!(key = %id, subject = record.subject, by = principal.key(), "user made");
    let key = secret.open().to_owned();
    Ok(Reply(NewUserReply { subject: record.subject, level, key, id }))
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
    for key in &keys {
        doors.parts.keys.set_level(key.id.as_str(), body.level).await?;
    }
    let (level, by) = (body.level, principal.key());
    tracing::info!(subject, %level, by, keys = keys.len(), "user promoted");
    let keys = keys_of(&doors, &principal, &subject);
    Ok(Reply(reply(&subject, &keys.iter().collect::<Vec<_>>())))
}
