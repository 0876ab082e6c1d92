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
use identity::{KeyFault, KeyRecord, NewKey, Principal, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::node::{NodeFault, Speaks};
use tool::{Code, Level, Wall};

use super::nodes::registry;
use server_core::body::Body;
use server_core::error::ApiError;
use server_core::keys::{Keys, refused as refused_key};
use server_core::node_rights::speaks;
use server_core::route::Route;
use server_core::state::Doors;

/// Lifetime of an invitation, in milliseconds.
const INVITED: u64 = 10 * 60 * 1_000;
/// Maximum characters of a base64 key or proof: a P-256 point has 88.
const LONGEST: usize = 256;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new("post", "/v1/nodes/{node_id}/invite", "Let a node join, once", post(invite))
            .reply::<Invitation>(),
        Route::new(
            "post",
            "/v1/nodes/{node_id}/join",
            "A node gets its certificate; with an invitation a key as well",
            post(join),
        )
        .body::<JoinBody>()
        .reply::<Joined>(),
    ]
}

#[derive(Debug, Serialize, JsonSchema)]
struct Invitation {
    /// The node that it is for.
    node_id: String,
    /// The key to join with. It is shown this once.
    key: String,
    /// When it is over.
    expires: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct JoinBody {
    /// The node's public key: a P-256 point without compression, as base64.
    public_key: String,
    /// A signature by its private key (ECDSA with SHA-256, ASN.1, as base64) of `toolkeep node join`, a
    /// zero byte, the node's id, a zero byte and the public key.
    proof: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Joined {
    node_id: String,
    /// The node's certificate, PEM.
    certificate: String,
    /// The certificate of who signs for nodes and for this server's calls to them, PEM.
    authority: String,
    /// The name in the certificate.
    name: String,
    /// Until when it holds.
    until: String,
    /// The key to register with, of who joined with an invitation. It is shown this once.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

async fn invite(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(node_id): Path<String>,
) -> Result<Reply<Invitation>, ApiError> {
    registry(&doors)?;
    if speaks(&principal) != Speaks::All {
        return Err(ApiError::lacks(Right::NodesWrite));
    }
    if principal.is_delegated() {
        return Err(refused_key(&KeyFault::Delegated("invite a node")));
    }
    let now = doors.parts.clock.wall();
    let expires = Wall(now.0.saturating_add(INVITED));
    let mut new = key(&node_id, Right::NodesJoin, "an invitation", Some(expires))?;
    new.creator = Some(principal.subject().to_owned());
    let (secret, record) = doors.parts.keys.create(new, now).await?;
    tracing::info!(node = node_id, key = %record.id, by = principal.key(), "node invited");
    let (key, expires) = (secret.open().to_owned(), expires.to_string());
    Ok(Reply(Invitation { node_id, key, expires }))
}

/// Creates the description of a node's key: an agent key that cannot call tools.
fn key(
    node_id: &str,
    right: Right,
    label: &str,
    expires: Option<Wall>,
) -> Result<NewKey, ApiError> {
    let mut new = NewKey::user(Keys::fresh_id()?, node_id.to_owned());
    (new.level, new.agent, new.rights) = (Level::Guest, true, [right].into());
    (new.label, new.expires) = (format!("{label} of the node {node_id}"), expires);
    Ok(new)
}

/// Describes the registration key of an invited node; its creator is the one who invited the node.
fn own_key(node_id: &str, invited: &Principal) -> Result<NewKey, ApiError> {
    let mut new = key(node_id, Right::NodesRegister, "the key", None)?;
    new.creator = invited.creator().map(str::to_owned);
    Ok(new)
}

/// Enrolls a node with an invitation, or renews its certificate with the node's own key.
async fn join(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(node_id): Path<String>,
    Body(JoinBody { public_key, proof }): Body<JoinBody>,
) -> Result<Reply<Joined>, ApiError> {
    let invited = is_invitation(&doors, &principal);
    let by = if invited { Speaks::For(principal.subject().to_owned()) } else { speaks(&principal) };
    let (public, proof) = (bytes("public_key", &public_key)?, bytes("proof", &proof)?);
    let nodes = registry(&doors)?;
    // A request that fails validation does not consume the invitation. It is consumed before
    // anything is signed, so that of two concurrent requests, here or at another server, only one
    // succeeds.
    nodes.may_certify(&by, &node_id, &public, &proof).map_err(refused)?;
    if invited {
        doors.parts.keys.use_up(principal.key(), doors.parts.clock.wall()).await?;
    }
    let own = if invited { Some(own_key(&node_id, &principal)?) } else { None };
    // A key for all nodes is not stored as this node's key: it may be revoked while the node stays.
    let presented = Some(principal.key()).filter(|_| matches!(by, Speaks::For(_)));
    let issued_with = own.as_ref().map(|own| own.id.as_str()).or(presented);
    let signed = nodes.certify(&by, &node_id, (&public, &proof), issued_with).await;
    let signed = signed.map_err(refused)?;
    let key = match own {
        Some(own) => Some(registration_key(&doors, &node_id, own).await?),
        None => None,
    };
    let (certificate, authority, name) = (signed.certificate, signed.authority, signed.name);
    let until = signed.until.to_string();
    Ok(Reply(Joined { node_id, certificate, authority, name, until, key }))
}

/// Whether the key is an invitation; other keys are not consumed by enrollment.
fn is_invitation(doors: &Doors, principal: &Principal) -> bool {
    doors.parts.keys.ring().get(principal.key()).is_some_and(KeyRecord::is_invitation)
}

/// Creates the node's registration key. The invitation is consumed by then: a crash in between
/// leaves a node without a key, never with two.
async fn registration_key(doors: &Doors, node_id: &str, new: NewKey) -> Result<String, ApiError> {
    let now = doors.parts.clock.wall();
    let (secret, record) = doors.parts.keys.create(new, now).await?;
    tracing::info!(node = node_id, key = %record.id, "node joined");
    Ok(secret.open().to_owned())
}

fn bytes(what: &str, text: &str) -> Result<Vec<u8>, ApiError> {
    let bad = || ApiError::new(Code::InvalidRequest, format!("`{what}` is no base64 of its kind"));
    let fits = text.len() <= LONGEST;
    fits.then(|| STANDARD.decode(text).ok()).flatten().ok_or_else(bad)
}

fn refused(fault: NodeFault) -> ApiError {
    match fault {
        NodeFault::Foreign(_) => ApiError::new(Code::Forbidden, fault.to_string())
            .fix("ask the operator for `toolkeep node invite ID`"),
        NodeFault::Unavailable(told) => ApiError::new(Code::StoreUnavailable, told),
        fault => ApiError::new(Code::InvalidRequest, fault.to_string()),
    }
}
