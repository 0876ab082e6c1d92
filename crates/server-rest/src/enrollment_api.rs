//! `/v1/nodes/{node_id}/invite` and `/join`: enrollment of nodes, which issues certificates and
//! node keys.
//!
//! An invitation is a single-use key that enrolls one node and expires after ten minutes. The node
//! presents it with a proof that it owns the private key.

use axum::extract::{Path, State};
use axum::routing::post;
use axum::{Extension, Json as Reply};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use identity::{KeyIssueError, KeyRecord, NewKey, Principal, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::node_registry::{KeyProof, NodeAccess, NodeError};
use tool::{ErrorCode, PermissionLevel, WallTime};

use server_core::body::DecodedBody;
use server_core::error::ApiError;
use server_core::key_store::{KeyStore, key_error as refused_key};
use server_core::node_management::node_registry;
use server_core::node_rights::node_access;
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;

/// Lifetime of an invitation, in milliseconds.
const INVITATION_TTL_MS: u64 = 10 * 60 * 1_000;
/// Maximum characters of a base64 key or proof: a P-256 point has 88.
const MAX_BASE64_CHARS: usize = 256;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new(
            "post",
            "/v1/nodes/{node_id}/invite",
            "Create a one-time invitation for a node",
            post(create_invitation),
        )
        .with_reply::<InvitationReply>(),
        ApiRoute::new(
            "post",
            "/v1/nodes/{node_id}/join",
            "Join as a node: returns a certificate and, with an invitation, a key",
            post(enroll_node),
        )
        .with_body::<JoinNodeBody>()
        .with_reply::<JoinNodeReply>(),
    ]
}

#[derive(Debug, Serialize, JsonSchema)]
struct InvitationReply {
    /// ID of the invited node.
    node_id: String,
    /// Key to join with. It is returned once and cannot be shown again.
    key: String,
    /// Expiry time of the invitation.
    expires: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct JoinNodeBody {
    /// Public key of the node: an uncompressed P-256 point in base64.
    public_key: String,
    /// Signature (ECDSA with SHA-256, ASN.1, base64) by the private key. It covers `toolkeep node
    /// join`, a zero byte, the node's ID, a zero byte and the public key.
    proof: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct JoinNodeReply {
    node_id: String,
    /// Certificate of the node, PEM.
    certificate: String,
    /// Certificate of the authority that signs for nodes and for calls of this server, PEM.
    authority: String,
    /// Name in the certificate.
    name: String,
    /// Expiry time of the certificate.
    #[serde(rename = "until")]
    expires_at: String,
    /// Key to register with, if the node joined with an invitation. It is returned once and cannot
    /// be shown again.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

async fn create_invitation(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(node_id): Path<String>,
) -> Result<Reply<InvitationReply>, ApiError> {
    node_registry(&state)?;
    if node_access(&principal) != NodeAccess::All {
        return Err(ApiError::missing_right(Right::NodesWrite));
    }
    if principal.is_delegated() {
        return Err(refused_key(&KeyIssueError::NotForDelegatedKeys("invite a node")));
    }
    let now = state.components.clock.wall_now();
    let expires = WallTime(now.0.saturating_add(INVITATION_TTL_MS));
    let mut new = new_node_key(&node_id, Right::NodesJoin, "an invitation", Some(expires))?;
    new.creator = Some(principal.subject().to_owned());
    let (secret, record) = state.components.keys.create_key(new, now).await?;
    tracing::info!(node = node_id, key = %record.id, by = principal.key_id(), "node invited");
    let (key, expires) = (secret.expose().to_owned(), expires.to_string());
    Ok(Reply(InvitationReply { node_id, key, expires }))
}

/// Creates the description of a node's key: an agent key that cannot call tools.
fn new_node_key(
    node_id: &str,
    right: Right,
    label: &str,
    expires: Option<WallTime>,
) -> Result<NewKey, ApiError> {
    let mut new = NewKey::for_user(KeyStore::generate_key_id()?, node_id.to_owned());
    (new.level, new.is_agent, new.rights) = (PermissionLevel::Guest, true, [right].into());
    (new.label, new.expires_at) = (format!("{label} of the node {node_id}"), expires);
    Ok(new)
}

/// Describes the registration key of an invited node; its creator is the one who invited the node.
fn new_registration_key(node_id: &str, invited: &Principal) -> Result<NewKey, ApiError> {
    let mut new = new_node_key(node_id, Right::NodesRegister, "the key", None)?;
    new.creator = invited.creator().map(str::to_owned);
    Ok(new)
}

/// Enrolls a node with an invitation, or renews its certificate with the node's own key.
async fn enroll_node(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(node_id): Path<String>,
    DecodedBody(JoinNodeBody { public_key, proof }): DecodedBody<JoinNodeBody>,
) -> Result<Reply<JoinNodeReply>, ApiError> {
    let invited = is_invitation(&state, &principal);
    let by = if invited {
        NodeAccess::Node(principal.subject().to_owned())
    } else {
        node_access(&principal)
    };
    let (public_key, signature) =
        (decode_base64("public_key", &public_key)?, decode_base64("proof", &proof)?);
    let nodes = node_registry(&state)?;
    // A request that fails validation does not consume the invitation. It is consumed before
    // anything is signed, so that of two concurrent requests, here or at another server, only one
    // succeeds.
    let proof = KeyProof { public_key: &public_key, signature: &signature };
    nodes.check_certificate_request(&by, &node_id, proof).map_err(node_error)?;
    if invited {
        state
            .components
            .keys
            .consume_key(principal.key_id(), state.components.clock.wall_now())
            .await?;
    }
    let own = if invited { Some(new_registration_key(&node_id, &principal)?) } else { None };
    // A key for all nodes is not stored as this node's key: it may be revoked while the node stays.
    let presented = Some(principal.key_id()).filter(|_| matches!(by, NodeAccess::Node(_)));
    let issued_with = own.as_ref().map(|own| own.id.as_str()).or(presented);
    let signed = nodes.issue_certificate(&by, &node_id, proof, issued_with).await;
    let signed = signed.map_err(node_error)?;
    let key = match own {
        Some(own) => Some(registration_key(&state, &node_id, own).await?),
        None => None,
    };
    let (certificate, authority, name) =
        (signed.certificate_pem, signed.ca_certificate_pem, signed.dns_name);
    let until = signed.expires_at.to_string();
    Ok(Reply(JoinNodeReply { node_id, certificate, authority, name, expires_at: until, key }))
}

/// Whether the key is an invitation; other keys are not consumed by enrollment.
fn is_invitation(state: &ServerState, principal: &Principal) -> bool {
    state
        .components
        .keys
        .key_ring()
        .find_record(principal.key_id())
        .is_some_and(KeyRecord::is_invitation)
}

/// Creates the node's registration key. The invitation is consumed by then: a crash in between
/// leaves a node without a key, never with two.
async fn registration_key(
    state: &ServerState,
    node_id: &str,
    new: NewKey,
) -> Result<String, ApiError> {
    let now = state.components.clock.wall_now();
    let (secret, record) = state.components.keys.create_key(new, now).await?;
    tracing::info!(node = node_id, key = %record.id, "node joined");
    Ok(secret.expose().to_owned())
}

fn decode_base64(what: &str, text: &str) -> Result<Vec<u8>, ApiError> {
    let bad = || {
        ApiError::new(
            ErrorCode::InvalidRequest,
            format!(
                "`{what}` is not valid base64 or has \
            the wrong length"
            ),
        )
    };
    let fits = text.len() <= MAX_BASE64_CHARS;
    fits.then(|| STANDARD.decode(text).ok()).flatten().ok_or_else(bad)
}

fn node_error(fault: NodeError) -> ApiError {
    match fault {
        NodeError::NotAuthorized(_) => ApiError::new(ErrorCode::Forbidden, fault.to_string())
            .with_help("ask the operator to run `toolkeep node invite ID`"),
        NodeError::Unavailable(told) => ApiError::new(ErrorCode::StoreUnavailable, told),
        fault => ApiError::new(ErrorCode::InvalidRequest, fault.to_string()),
    }
}
