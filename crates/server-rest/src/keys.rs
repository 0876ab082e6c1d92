//! `/v1/keys`: creation, listing and revocation of keys for callers with the right; delegation for
//! all.

mod delegate;

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::routing::{delete, get};
use axum::{Extension, Json as Reply};
use identity::{KeyRecord, KeyRing, NewKey, Persona, Principal, Reason, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{Code, Level, Wall};

use super::page::{self, Page};
use server_core::body::{Body, Params};
use server_core::error::ApiError;
use server_core::keys::Keys;
use server_core::route::{Param, Route};
use server_core::state::Doors;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new("get", "/v1/keys", "The keys, without their secrets", get(list))
            .query(page::QUERY)
            .reply::<KeysReply>(),
        Route::new("post", "/v1/keys", "Make a key; it is shown once", axum::routing::post(create))
            .body::<KeyBody>()
            .reply::<NewKeyReply>(),
        delegate::route(),
        Route::new(
            "delete",
            "/v1/keys/{id}",
            "Revoke a key, and all that came of it",
            delete(revoke),
        )
        .query(REVOKE_QUERY)
        .reply::<KeyReply>(),
    ]
}

/// The query parameters of a revocation.
const REVOKE_QUERY: &[Param] = &[Param {
    name: "last_owner",
    what: "`true` revokes the key although no owner key is left then",
    kind: "boolean",
}];

/// The options of a key revocation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Revocation {
    #[serde(default)]
    last_owner: bool,
}

/// A key to make. It can carry no more than the key that makes it, and is bound to that one where it was
/// delegated. A subject that exists and is another one needs the right `act_as`, or an owner's key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct KeyBody {
    /// The user it stands for.
    subject: String,
    /// `guest`, `user`, `admin` or `owner`; `user` where absent.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    level: Option<Level>,
    /// A line for people.
    #[serde(default)]
    label: String,
    /// Whether a person holds it, rather than an agent; false where absent.
    #[serde(default)]
    person: Option<bool>,
    /// The contrary of `person`, for clients of older versions.
    #[serde(default)]
    agent: Option<bool>,
    /// Rights beside calling tools, such as `records:read`.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    rights: BTreeSet<Right>,
    /// Its roles.
    #[serde(default)]
    roles: Vec<String>,
    /// The sources whose tools it may use; all where absent, none where empty.
    #[serde(default, alias = "persona_modules")]
    modules: Option<BTreeSet<String>>,
    /// Seconds until it ends by itself; never where absent.
    #[serde(default)]
    expires_in: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct NewKeyReply {
    /// The key itself. It is not kept and cannot be shown again.
    key: String,
    /// Its id.
    id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct KeysReply {
    /// By id.
    keys: Vec<KeyReply>,
    /// Give it as `after` for the next page; null at the end.
    next: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct KeyReply {
    id: String,
    subject: String,
    #[schemars(with = "String")]
    level: Level,
    label: String,
    agent: bool,
    #[schemars(with = "Vec<String>")]
    rights: BTreeSet<Right>,
    roles: Vec<String>,
    modules: Option<BTreeSet<String>>,
    /// The same as `modules`, for clients of older versions.
    persona_modules: Option<BTreeSet<String>>,
    /// The keys it came of by being handed on, the eldest first.
    came_of: Vec<String>,
    /// Why it does not hold, where it does not: `revoked`, `expired`, `disabled` or `orphaned`.
    over: Option<String>,
    created: String,
    expires: Option<String>,
    revoked: Option<String>,
}

fn allowed(principal: &Principal) -> Result<(), ApiError> {
    if principal.may(Right::KeysWrite) {
        return Ok(());
    }
    Err(ApiError::lacks(Right::KeysWrite))
}

async fn list(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Params(page): Params<Page>,
) -> Result<Reply<KeysReply>, ApiError> {
    allowed(&principal)?;
    let (limit, ring) = (page.limit()?, doors.parts.keys.ring());
    let (now, org) = (doors.parts.clock.wall(), principal.org().clone());
    let found = page::away(move || {
        let over = |record: &KeyRecord| ring.over(record.id.as_str(), now);
        let records = ring.page(page.after.as_deref(), limit + 1, |record| record.org == org);
        records.into_iter().map(|record| reply(record, over(record))).collect::<Vec<_>>()
    });
    let mut keys = found.await?;
    let next = page::cut(&mut keys, limit, |key| &key.id);
    Ok(Reply(KeysReply { keys, next }))
}

async fn create(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Body(body): Body<KeyBody>,
) -> Result<Reply<NewKeyReply>, ApiError> {
    allowed(&principal)?;
    let now = doors.parts.clock.wall();
    let mut new = NewKey::user(Keys::fresh_id()?, body.subject);
    new.org = principal.org().clone();
    new.level = body.level.unwrap_or(Level::User);
    new.agent = match (body.person, body.agent) {
        (Some(person), Some(agent)) if person == agent => {
            let told = "`person` and `agent` contradict each other";
            return Err(ApiError::new(Code::InvalidRequest, told).fix("leave `agent` out"));
        }
        (Some(person), _) => !person,
        (None, agent) => agent.unwrap_or(true),
    };
    (new.label, new.rights, new.roles) = (body.label, body.rights, body.roles);
    new.persona = body
        .modules
        .map(|modules| Persona { name: "key".to_owned(), allowed_modules: Some(modules) });
    new.expires = body.expires_in.map(|s| Wall(now.0.saturating_add(s.saturating_mul(1_000))));
    let (secret, record) = doors.parts.keys.create_by(&principal, new, now).await?;
    let id = record.id.to_string();
    tracing::info!(key = %id, subject = record.subject, by = principal.key(), "key made");
    Ok(Reply(NewKeyReply { key: secret.open().to_owned(), id }))
}

async fn revoke(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    Params(revocation): Params<Revocation>,
) -> Result<Reply<KeyReply>, ApiError> {
    let ring = doors.parts.keys.ring();
    let target = ring.get(&id).filter(|record| record.org == *principal.org());
    let came_of_own = |record: &KeyRecord| {
        record.delegations.iter().any(|hand| hand.by == principal.key()) && !principal.is_token()
    };
    if !target.is_some_and(came_of_own) {
        allowed(&principal)?;
    }
    let Some(target) = target else {
        return Err(ApiError::new(Code::NotFound, format!("no key `{}`", id.escape_debug())));
    };
    if target.level > principal.level() {
        return Err(ApiError::new(Code::Forbidden, "the key is of a higher level than yours"));
    }
    let now = doors.parts.clock.wall();
    if !revocation.last_owner && is_owner(target) {
        let (ring, id) = (Arc::clone(&ring), id.clone());
        if page::away(move || is_last_owner(&ring, &id, now)).await? {
            let told = "it is the last valid owner key: without it nobody can manage keys, or approve calls";
            return Err(ApiError::new(Code::Conflict, told).fix(
                "make another owner key first, or revoke it all the same: `toolkeep key revoke ID --yes`; \
                 `toolkeep key recover` on the server's machine makes a new one",
            ));
        }
    }
    let record = doors.parts.keys.revoke(&id, now).await?;
    tracing::info!(key = %id, by = principal.key(), "key revoked");
    Ok(Reply(reply(&record, Some(Reason::Revoked))))
}

/// Whether a key is a person's owner key that can manage keys.
fn is_owner(record: &KeyRecord) -> bool {
    record.level == Level::Owner && !record.agent && record.rights.contains(&Right::KeysWrite)
}

/// Whether no valid owner key remains without this one and the keys delegated from it.
fn is_last_owner(ring: &KeyRing, id: &str, now: Wall) -> bool {
    if ring.over(id, now).is_some() {
        return false;
    }
    let left = |record: &KeyRecord| {
        is_owner(record)
            && record.id.as_str() != id
            && record.delegations.iter().all(|hand| hand.by != id)
            && ring.over(record.id.as_str(), now).is_none()
    };
    ring.count(left) == 0
}

/// Builds the reply for a key; `over` is the reason why it is not valid, apart from its own expiry.
fn reply(record: &KeyRecord, over: Option<Reason>) -> KeyReply {
    let modules = record.persona.as_ref().and_then(|p| p.allowed_modules.clone());
    KeyReply {
        id: record.id.to_string(),
        subject: record.subject.clone(),
        level: record.level,
        label: record.label.clone(),
        agent: record.agent,
        rights: record.rights.clone(),
        roles: record.roles.clone(),
        came_of: record.delegations.iter().map(|hand| hand.by.clone()).collect(),
        over: over.map(|reason| reason.as_str().to_owned()),
        modules: modules.clone(),
        persona_modules: modules,
        created: record.created.to_string(),
        expires: record.expires.map(|wall| wall.to_string()),
        revoked: record.revoked.map(|wall| wall.to_string()),
    }
}
