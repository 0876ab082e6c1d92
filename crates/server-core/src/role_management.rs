//! Management of roles: named sets of rights with a maximum level, for callers who may create keys.

use std::collections::BTreeSet;

use identity::{Principal, Right, RoleRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{ErrorCode, PermissionLevel};

use crate::authorization_checks::{
    check_description, forbidden_change, require_installation_admin,
};
use crate::error::ApiError;
use crate::server_state::ServerState;

/// Maximum bytes of a description.
const MAX_DESCRIPTION_BYTES: usize = 1_000;

/// A role, which adds its rights to those of its keys and limits their level.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RoleBody {
    /// Description of the role.
    pub description: String,
    /// Maximum level of its keys; no maximum if absent.
    #[schemars(with = "Option<String>")]
    pub level: Option<PermissionLevel>,
    /// Rights of its keys.
    #[schemars(with = "Vec<String>")]
    pub rights: BTreeSet<Right>,
}

/// The roles of the installation.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RoleListReply {
    /// The roles, by name.
    pub roles: Vec<RoleReply>,
}

/// A role, and how many keys have it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RoleReply {
    /// Name of the role.
    pub name: String,
    /// Description of the role.
    pub description: String,
    /// Maximum level of its keys.
    #[schemars(with = "Option<String>")]
    pub level: Option<PermissionLevel>,
    /// Rights of its keys.
    #[schemars(with = "Vec<String>")]
    pub rights: BTreeSet<Right>,
    /// Number of keys that have the role.
    pub keys: usize,
    /// Time of its revocation, RFC 3339.
    pub revoked: Option<String>,
}

/// Lists the roles of the installation.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right, and in other organizations; an error for an invalid
/// or unknown role.
pub fn list_roles(state: &ServerState, principal: &Principal) -> Result<RoleListReply, ApiError> {
    require_installation_admin(principal)?;
    let ring = state.components.keys.key_ring();
    Ok(RoleListReply {
        roles: ring.directory().list_roles().map(|role| role_reply(state, role)).collect(),
    })
}

/// Creates or changes a role.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right, and in other organizations; an error for an invalid
/// or unknown role.
pub async fn put_role(
    state: &ServerState,
    principal: &Principal,
    name: String,
    body: RoleBody,
) -> Result<RoleReply, ApiError> {
    require_installation_admin(principal)?;
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
        .check_role_update(&role, principal)
        .map_err(|fault| forbidden_change(&fault))?;
    state.components.keys.upsert_role(&role).await?;
    tracing::info!(role = role.name, by = principal.key_id(), "role set");
    Ok(role_reply(state, &role))
}

/// Revokes a role; keys that have it can no longer be used.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right, and in other organizations; an error for an invalid
/// or unknown role.
pub async fn revoke_role(
    state: &ServerState,
    principal: &Principal,
    name: &str,
) -> Result<RoleReply, ApiError> {
    require_installation_admin(principal)?;
    let missing = || {
        ApiError::new(ErrorCode::NotFound, format!("no role `{}`", name.escape_debug()))
            .with_help("run `toolkeep role list` to see all roles")
    };
    let ring = state.components.keys.key_ring();
    let role = ring.directory().find_role(name).cloned().ok_or_else(missing)?;
    ring.check_role_revocation(name, principal).map_err(|fault| forbidden_change(&fault))?;
    if principal.roles().iter().any(|role| role == name) {
        let message = "this is a role of your own key, which would become unusable too";
        return Err(ApiError::new(ErrorCode::Conflict, message));
    }
    let revoked = role.revoked_at.or_else(|| Some(state.components.clock.wall_now()));
    let role = RoleRecord { revoked_at: revoked, ..role };
    state.components.keys.upsert_role(&role).await?;
    tracing::info!(role = role.name, by = principal.key_id(), "role revoked");
    Ok(role_reply(state, &role))
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
