//! `/v1/roles`: named sets of rights with a maximum level, for callers who may create keys.

use std::collections::BTreeSet;

use axum::extract::{Path, State};
use axum::routing::{delete, get, put};
use axum::{Extension, Json as Reply};
use identity::{Principal, Right, RoleRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{ErrorCode, PermissionLevel};

use super::authorization_checks::{
    check_description, forbidden_change, require_installation_admin,
};
use server_core::body::DecodedBody;
use server_core::error::ApiError;
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;

/// Maximum bytes of a description.
const MAX_DESCRIPTION_BYTES: usize = 1_000;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new("get", "/v1/roles", "List the roles", get(list_roles))
            .with_reply::<RoleListReply>(),
        ApiRoute::new("put", "/v1/roles/{name}", "Create or change a role", put(put_role))
            .with_body::<RoleBody>()
            .with_reply::<RoleReply>(),
        ApiRoute::new(
            "delete",
            "/v1/roles/{name}",
            "Revoke a role; keys that have it can no longer be used",
            delete(revoke_role),
        )
        .with_reply::<RoleReply>(),
    ]
}

/// A role, which adds its rights to those of its keys and limits their level.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct RoleBody {
    /// Description of the role.
    description: String,
    /// Maximum level of its keys; no maximum if absent.
    #[schemars(with = "Option<String>")]
    level: Option<PermissionLevel>,
    /// Rights of its keys.
    #[schemars(with = "Vec<String>")]
    rights: BTreeSet<Right>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RoleListReply {
    roles: Vec<RoleReply>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RoleReply {
    name: String,
    description: String,
    #[schemars(with = "Option<String>")]
    level: Option<PermissionLevel>,
    #[schemars(with = "Vec<String>")]
    rights: BTreeSet<Right>,
    /// Number of keys that have the role.
    keys: usize,
    revoked: Option<String>,
}

async fn list_roles(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<RoleListReply>, ApiError> {
    require_installation_admin(&principal)?;
    let ring = state.components.keys.key_ring();
    Ok(Reply(RoleListReply {
        roles: ring.directory().list_roles().map(|role| role_reply(&state, role)).collect(),
    }))
}

async fn put_role(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
    DecodedBody(body): DecodedBody<RoleBody>,
) -> Result<Reply<RoleReply>, ApiError> {
    require_installation_admin(&principal)?;
    let shown = name.escape_debug();
    if !RoleRecord::is_valid_name(&name) {
        let message = format!("invalid role name `{shown}`");
        return Err(ApiError::new(ErrorCode::InvalidRequest, message)
            .with_help("use 1 to 64 letters, digits, `_`, `.` and `-`"));
    }
    check_description(&body.description, MAX_DESCRIPTION_BYTES)?;
    let RoleBody { description, level, rights } = body;
    let role = RoleRecord { name, description, max_level: level, rights, revoked_at: None };
    state
        .components
        .keys
        .key_ring()
        .check_role_update(&role, &principal)
        .map_err(|fault| forbidden_change(&fault))?;
    state.components.keys.upsert_role(&role).await?;
    tracing::info!(role = role.name, by = principal.key_id(), "role set");
    Ok(Reply(role_reply(&state, &role)))
}

async fn revoke_role(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
) -> Result<Reply<RoleReply>, ApiError> {
    require_installation_admin(&principal)?;
    let missing = || {
        ApiError::new(ErrorCode::NotFound, format!("no role `{}`", name.escape_debug()))
            .with_help("run `toolkeep role list` to see all roles")
    };
    let ring = state.components.keys.key_ring();
    let role = ring.directory().find_role(&name).cloned().ok_or_else(missing)?;
    ring.check_role_revocation(&name, &principal).map_err(|fault| forbidden_change(&fault))?;
    if principal.roles().contains(&name) {
        let message = "this is a role of your own key, which would become unusable too";
        return Err(ApiError::new(ErrorCode::Conflict, message));
    }
    let revoked = role.revoked_at.or_else(|| Some(state.components.clock.wall_now()));
    let role = RoleRecord { revoked_at: revoked, ..role };
    state.components.keys.upsert_role(&role).await?;
    tracing::info!(role = role.name, by = principal.key_id(), "role revoked");
    Ok(Reply(role_reply(&state, &role)))
}

fn role_reply(state: &ServerState, role: &RoleRecord) -> RoleReply {
    let ring = state.components.keys.key_ring();
    let keys = ring.count_records(|key| key.roles.contains(&role.name));
    RoleReply {
        name: role.name.clone(),
        description: role.description.clone(),
        level: role.max_level,
        rights: role.rights.clone(),
        keys,
        revoked: role.revoked_at.map(|wall| wall.to_string()),
    }
}
