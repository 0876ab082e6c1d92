//! `/v1/roles`: named sets of rights with a maximum level, for callers who may create keys.

use std::collections::BTreeSet;

use axum::extract::{Path, State};
use axum::routing::{delete, get, put};
use axum::{Extension, Json as Reply};
use identity::{Principal, Right, Role};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{Code, Level};

use super::standing::{described, forbidden, of_installation};
use server_core::body::Body;
use server_core::error::ApiError;
use server_core::route::Route;
use server_core::state::Doors;

/// Maximum bytes of a description.
const DESCRIPTION: usize = 1_000;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new("get", "/v1/roles", "The roles", get(list)).reply::<RolesReply>(),
        Route::new("put", "/v1/roles/{name}", "Make a role, or change it", put(keep))
            .body::<RoleBody>()
            .reply::<RoleReply>(),
        Route::new(
            "delete",
            "/v1/roles/{name}",
            "Revoke a role: its keys may use nothing",
            delete(revoke),
        )
        .reply::<RoleReply>(),
    ]
}

/// What a role is. Its keys have its rights beside their own, and at most its level.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct RoleBody {
    /// A line for people.
    description: String,
    /// The highest level of a key that has it; no cap where absent.
    #[schemars(with = "Option<String>")]
    level: Option<Level>,
    /// Rights of its keys.
    #[schemars(with = "Vec<String>")]
    rights: BTreeSet<Right>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RolesReply {
    roles: Vec<RoleReply>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RoleReply {
    name: String,
    description: String,
    #[schemars(with = "Option<String>")]
    level: Option<Level>,
    #[schemars(with = "Vec<String>")]
    rights: BTreeSet<Right>,
    /// How many keys name it.
    keys: usize,
    revoked: Option<String>,
}

async fn list(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<RolesReply>, ApiError> {
    of_installation(&principal)?;
    let ring = doors.parts.keys.ring();
    Ok(Reply(RolesReply {
        roles: ring.directory().roles().map(|role| reply(&doors, role)).collect(),
    }))
}

async fn keep(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
    Body(body): Body<RoleBody>,
) -> Result<Reply<RoleReply>, ApiError> {
    of_installation(&principal)?;
    let shown = name.escape_debug();
    if !Role::fits(&name) {
        let told = format!("`{shown}` is no name of a role");
        return Err(ApiError::new(Code::InvalidRequest, told)
            .fix("use 1 to 64 letters, digits, `_`, `.` and `-`"));
    }
    described(&body.description, DESCRIPTION)?;
    let RoleBody { description, level, rights } = body;
    let role = Role { name, description, level, rights, revoked: None };
    doors.parts.keys.ring().may_set_role(&role, &principal).map_err(|fault| forbidden(&fault))?;
    doors.parts.keys.keep_role(&role).await?;
    tracing::info!(role = role.name, by = principal.key(), "role kept");
    Ok(Reply(reply(&doors, &role)))
}

async fn revoke(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
) -> Result<Reply<RoleReply>, ApiError> {
    of_installation(&principal)?;
    let missing = || {
        ApiError::new(Code::NotFound, format!("no role `{}`", name.escape_debug()))
            .fix("see `toolkeep role list`")
    };
    let ring = doors.parts.keys.ring();
    let role = ring.directory().role(&name).cloned().ok_or_else(missing)?;
    ring.may_revoke_role(&name, &principal).map_err(|fault| forbidden(&fault))?;
    if principal.roles().contains(&name) {
        let told = "that is a role of your own key, which could do nothing either";
        return Err(ApiError::new(Code::Conflict, told));
    }
    let revoked = role.revoked.or_else(|| Some(doors.parts.clock.wall()));
    let role = Role { revoked, ..role };
    doors.parts.keys.keep_role(&role).await?;
    tracing::info!(role = role.name, by = principal.key(), "role revoked");
    Ok(Reply(reply(&doors, &role)))
}

fn reply(doors: &Doors, role: &Role) -> RoleReply {
    let ring = doors.parts.keys.ring();
    let keys = ring.count(|key| key.roles.contains(&role.name));
    RoleReply {
        name: role.name.clone(),
        description: role.description.clone(),
        level: role.level,
        rights: role.rights.clone(),
        keys,
        revoked: role.revoked.map(|wall| wall.to_string()),
    }
}
