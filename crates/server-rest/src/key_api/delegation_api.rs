//! `POST /v1/keys/delegate`: creation of a narrower key, for oneself or to act for another user.

use std::collections::BTreeSet;

use axum::extract::State;
use axum::routing::post;
use axum::{Extension, Json as Reply};
use identity::{DelegationRequest, Principal, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{PermissionLevel, WallTime};

use server_core::body::DecodedBody;
use server_core::error::ApiError;
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;

pub(super) fn delegation_route() -> ApiRoute {
    let summary = "Delegate your own key with fewer rights; the new key is returned once";
    ApiRoute::new("post", "/v1/keys/delegate", summary, post(delegate_key))
        .with_body::<DelegateKeyBody>()
        .with_reply::<DelegateKeyReply>()
}

/// A narrower key. Absent fields are inherited from the requesting key, except rights, which must
/// be listed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct DelegateKeyBody {
    /// Level, at most that of the requesting key.
    #[schemars(with = "Option<String>")]
    level: Option<PermissionLevel>,
    /// Rights to keep; none if empty.
    #[schemars(with = "Vec<String>")]
    rights: BTreeSet<Right>,
    /// Sources whose tools stay allowed.
    #[serde(alias = "persona_modules")]
    modules: Option<BTreeSet<String>>,
    /// Patterns and groups of tools to allow; all if absent, none if empty.
    allow: Option<Vec<String>>,
    /// Patterns and groups of tools to exclude.
    deny: Vec<String>,
    /// Whether to exclude tools with side effects.
    read_only: bool,
    /// Whether to exclude tools that reach the network.
    no_web: bool,
    /// User to act for, with the lesser rights of both; requires the right `act_as`.
    act_as: Option<String>,
    /// Whether the key is for a person instead of an agent.
    person: bool,
    /// Description of the key.
    label: String,
    /// Lifetime in seconds; one day if absent, and at most that of the requesting key.
    expires_in: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct DelegateKeyReply {
    /// The key. It is returned once and cannot be shown again.
    key: String,
    /// ID of the key.
    id: String,
    /// User that the key stands for.
    subject: String,
    /// Expiry time of the key.
    expires: Option<String>,
}

async fn delegate_key(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(body): DecodedBody<DelegateKeyBody>,
) -> Result<Reply<DelegateKeyReply>, ApiError> {
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
        expires_at: body.expires_in.map(end),
    };
    let (secret, record) = state.components.keys.delegate_key(&principal, request, now).await?;
    let id = record.id.to_string();
    tracing::info!(key = %id, subject = record.subject, by = principal.key_id(), "key delegated");
    let expires = record.expires_at.map(|wall| wall.to_string());
    Ok(Reply(DelegateKeyReply {
        key: secret.expose().to_owned(),
        id,
        subject: record.subject,
        expires,
    }))
}
