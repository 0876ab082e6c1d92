//! Management of organizations and the tools they may use, with the right that it needs.

use identity::{NewKey, OrgRecord, Principal, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::identifier::validate_line;
use tool::{ErrorCode, Org};

use crate::authorization_checks::{check_description, require_right};
use crate::error::ApiError;
use crate::key_store::{KeyStore, key_error};
use crate::server_state::ServerState;

/// Maximum number of tool patterns per organization.
const MAX_PATTERNS: usize = 10_000;
/// Maximum bytes of one pattern or of a description.
const MAX_TEXT_BYTES: usize = 1_000;

/// An organization to create.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateOrgBody {
    /// Name of the organisation.
    #[schemars(with = "String")]
    pub name: Org,
    /// Description of the organisation.
    #[serde(default)]
    pub description: String,
}

/// A created organization with its owner's key.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CreateOrgReply {
    /// Name of the organization.
    pub org: String,
    /// Key of the organisation's owner. It is returned once and cannot be shown again.
    pub key: String,
    /// ID of the key.
    pub id: String,
}

/// All organizations of the installation.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OrgListReply {
    /// The organizations, by name.
    pub orgs: Vec<OrgReply>,
}

/// An organization with its numbers.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OrgReply {
    /// Name of the organization.
    pub org: String,
    /// Description of the organization.
    pub description: String,
    /// Number of keys that are not revoked.
    pub keys: usize,
    /// Number of patterns in the tool list; null without a list.
    pub tools: Option<usize>,
    /// Time at which it was disabled, RFC 3339.
    pub disabled: Option<String>,
}

/// The tools that an organisation may use.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OrgToolsBody {
    /// Patterns and groups of tools; an empty list allows none.
    pub tools: Vec<String>,
}

/// The tools that an organization may use.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OrgToolsReply {
    /// Name of the organization.
    pub org: String,
    /// Patterns and groups of tools; null without a list.
    pub tools: Option<Vec<String>>,
}

/// Lists all organizations of the installation.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right `orgs:write`.
pub fn list_orgs(state: &ServerState, principal: &Principal) -> Result<OrgListReply, ApiError> {
    require_right(principal, Right::OrgsWrite)?;
    let ring = state.components.keys.key_ring();
    let orgs = ring.directory().list_orgs().map(|org| org_reply(state, org)).collect();
    Ok(OrgListReply { orgs })
}

/// Creates an organization and its owner's key, which is returned once.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right `orgs:write`; [`ErrorCode::Conflict`] for a name that is taken.
pub async fn create_org(
    state: &ServerState,
    principal: &Principal,
    body: CreateOrgBody,
) -> Result<CreateOrgReply, ApiError> {
    require_right(principal, Right::OrgsWrite)?;
    let CreateOrgBody { name, description } = body;
    let keys = &state.components.keys;
    if name == Org::default() || keys.key_ring().directory().find_org(&name).is_some() {
        let message = format!("the organisation `{name}` already exists");
        return Err(ApiError::new(ErrorCode::Conflict, message).with_help("choose another name"));
    }
    check_description(&description, MAX_TEXT_BYTES)?;
    let new = NewKey::first_of_org(name.clone(), KeyStore::generate_key_id()?, principal);
    let new = new.map_err(|fault| key_error(&fault))?;
    keys.upsert_org(&OrgRecord { name: name.clone(), description, disabled_at: None }).await?;
    let (secret, record) = keys.create_key(new, state.components.clock.wall_now()).await?;
    tracing::info!(%name, by = principal.key_id(), "organisation created");
    let (key, id) = (secret.expose().to_owned(), record.id.to_string());
    Ok(CreateOrgReply { org: name.to_string(), key, id })
}

/// Disables an organization and its keys.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right `orgs:write`; [`ErrorCode::NotFound`]; [`ErrorCode::Conflict`] for the caller's own.
pub async fn disable_org(
    state: &ServerState,
    principal: &Principal,
    org: &str,
) -> Result<OrgReply, ApiError> {
    require_right(principal, Right::OrgsWrite)?;
    let record = find_org(state, org)?;
    if record.name == *principal.org() {
        let message = "this is the organisation of your own key, which would become invalid too";
        return Err(ApiError::new(ErrorCode::Conflict, message));
    }
    let disabled = record.disabled_at.or_else(|| Some(state.components.clock.wall_now()));
    store_org(state, principal, OrgRecord { disabled_at: disabled, ..record }).await
}

/// Enables a disabled organization.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right `orgs:write`; [`ErrorCode::NotFound`].
pub async fn enable_org(
    state: &ServerState,
    principal: &Principal,
    org: &str,
) -> Result<OrgReply, ApiError> {
    require_right(principal, Right::OrgsWrite)?;
    let record = find_org(state, org)?;
    store_org(state, principal, OrgRecord { disabled_at: None, ..record }).await
}

async fn store_org(
    state: &ServerState,
    principal: &Principal,
    org: OrgRecord,
) -> Result<OrgReply, ApiError> {
    state.components.keys.upsert_org(&org).await?;
    let disabled = org.disabled_at.is_some();
    tracing::info!(org = %org.name, disabled, by = principal.key_id(), "organisation changed");
    Ok(org_reply(state, &org))
}

/// Returns the tools that an organization may use.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right `orgs:write`; [`ErrorCode::NotFound`].
pub fn show_org_tools(
    state: &ServerState,
    principal: &Principal,
    org: &str,
) -> Result<OrgToolsReply, ApiError> {
    require_right(principal, Right::OrgsWrite)?;
    let org = find_org(state, org)?.name;
    let tools = state
        .components
        .keys
        .key_ring()
        .directory()
        .org_tools(&org)
        .map(|list| list.patterns().to_vec());
    Ok(OrgToolsReply { org: org.to_string(), tools })
}

/// Sets the tools that an organization may use.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right `orgs:write`; [`ErrorCode::NotFound`]; an error for an invalid list.
pub async fn set_org_tools(
    state: &ServerState,
    principal: &Principal,
    org: &str,
    body: OrgToolsBody,
) -> Result<OrgToolsReply, ApiError> {
    require_right(principal, Right::OrgsWrite)?;
    let org = find_org(state, org)?.name;
    if org == *principal.org() && !principal.is_owner() {
        let message = "only an owner can set the tools of your own organisation";
        return Err(ApiError::new(ErrorCode::Forbidden, message));
    }
    let unfit = |text: &String| validate_line(text, MAX_TEXT_BYTES).is_err();
    if body.tools.len() > MAX_PATTERNS || body.tools.iter().any(unfit) {
        let told = format!(
            "the list may have at most {MAX_PATTERNS} patterns of 1 to {MAX_TEXT_BYTES} printable \
             bytes"
        );
        return Err(ApiError::new(ErrorCode::InvalidRequest, told));
    }
    state.components.keys.set_org_tools(&org, &body.tools).await?;
    tracing::info!(%org, tools = body.tools.len(), by = principal.key_id(), "tools of organisation set");
    Ok(OrgToolsReply { org: org.to_string(), tools: Some(body.tools) })
}

/// Finds an existing organization. The default organization needs no record.
fn find_org(state: &ServerState, name: &str) -> Result<OrgRecord, ApiError> {
    let missing = || {
        ApiError::new(ErrorCode::NotFound, format!("no organisation `{}`", name.escape_debug()))
            .with_help("run `toolkeep org list` to see all organisations")
    };
    let org: Org = name.parse().map_err(|_| missing())?;
    let ring = state.components.keys.key_ring();
    match ring.directory().find_org(&org) {
        Some(record) => Ok(record.clone()),
        None if org == Org::default() => {
            Ok(OrgRecord { name: org, description: String::new(), disabled_at: None })
        }
        None => Err(missing()),
    }
}

fn org_reply(state: &ServerState, org: &OrgRecord) -> OrgReply {
    let ring = state.components.keys.key_ring();
    let own = |key: &identity::KeyRecord| key.org == org.name && key.revoked_at.is_none();
    OrgReply {
        org: org.name.to_string(),
        description: org.description.clone(),
        keys: ring.count_records(own),
        tools: ring.directory().org_tools(&org.name).map(|list| list.patterns().len()),
        disabled: org.disabled_at.map(|wall| wall.to_string()),
    }
}
