//! `/v1/orgs`: organizations and the tools they may use.

use axum::extract::{Path, State};
use axum::routing::{delete, get, post, put};
use axum::{Extension, Json as Reply};
use identity::{NewKey, OrgRecord, Principal, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::identifier::validate_line;
use tool::{ErrorCode, Org};

use server_core::authorization_checks::{check_description, require_right};
use server_core::body::DecodedBody;
use server_core::error::ApiError;
use server_core::key_store::{KeyStore, key_error};
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;

/// Maximum number of tool patterns per organization.
const MAX_PATTERNS: usize = 10_000;
/// Maximum bytes of one pattern or of a description.
const MAX_TEXT_BYTES: usize = 1_000;

pub(crate) fn routes() -> Vec<ApiRoute> {
    let tools = "/v1/orgs/{org}/tools";
    vec![
        ApiRoute::new("get", "/v1/orgs", "List the organisations", get(list_orgs))
            .with_reply::<OrgListReply>(),
        ApiRoute::new(
            "post",
            "/v1/orgs",
            "Create an organisation and its owner's key, which is returned once",
            post(create_org),
        )
        .with_body::<CreateOrgBody>()
        .with_reply::<CreateOrgReply>(),
        ApiRoute::new(
            "delete",
            "/v1/orgs/{org}",
            "Disable an organisation and its keys",
            delete(disable_org),
        )
        .with_reply::<OrgReply>(),
        ApiRoute::new(
            "post",
            "/v1/orgs/{org}/enable",
            "Enable a disabled organisation",
            post(enable_org),
        )
        .with_reply::<OrgReply>(),
        ApiRoute::new(
            "get",
            tools,
            "Get the tools that an organisation may \
            use",
            get(show_org_tools),
        )
        .with_reply::<OrgToolsReply>(),
        ApiRoute::new(
            "put",
            tools,
            "Set the tools that an organisation may \
            use",
            put(set_org_tools),
        )
        .with_body::<OrgToolsBody>()
        .with_reply::<OrgToolsReply>(),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateOrgBody {
    /// Name of the organisation.
    #[schemars(with = "String")]
    name: Org,
    /// Description of the organisation.
    #[serde(default)]
    description: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CreateOrgReply {
    org: String,
    /// Key of the organisation's owner. It is returned once and cannot be shown again.
    key: String,
    /// ID of the key.
    id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct OrgListReply {
    orgs: Vec<OrgReply>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct OrgReply {
    org: String,
    description: String,
    /// Number of keys that are not revoked.
    keys: usize,
    /// Number of patterns in the tool list; null without a list.
    tools: Option<usize>,
    disabled: Option<String>,
}

/// The tools that an organisation may use.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OrgToolsBody {
    /// Patterns and groups of tools; an empty list allows none.
    tools: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct OrgToolsReply {
    org: String,
    /// Patterns and groups of tools; null without a list.
    tools: Option<Vec<String>>,
}

async fn list_orgs(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<OrgListReply>, ApiError> {
    require_right(&principal, Right::OrgsWrite)?;
    let ring = state.components.keys.key_ring();
    let orgs = ring.directory().list_orgs().map(|org| org_reply(&state, org)).collect();
    Ok(Reply(OrgListReply { orgs }))
}

async fn create_org(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(body): DecodedBody<CreateOrgBody>,
) -> Result<Reply<CreateOrgReply>, ApiError> {
    require_right(&principal, Right::OrgsWrite)?;
    let CreateOrgBody { name, description } = body;
    let keys = &state.components.keys;
    if name == Org::default() || keys.key_ring().directory().find_org(&name).is_some() {
        let message = format!("the organisation `{name}` already exists");
        return Err(ApiError::new(ErrorCode::Conflict, message).with_help("choose another name"));
    }
    check_description(&description, MAX_TEXT_BYTES)?;
    let new = NewKey::first_of_org(name.clone(), KeyStore::generate_key_id()?, &principal);
    let new = new.map_err(|fault| key_error(&fault))?;
    keys.upsert_org(&OrgRecord { name: name.clone(), description, disabled_at: None }).await?;
    let (secret, record) = keys.create_key(new, state.components.clock.wall_now()).await?;
    tracing::info!(%name, by = principal.key_id(), "organisation created");
    let (key, id) = (secret.expose().to_owned(), record.id.to_string());
    Ok(Reply(CreateOrgReply { org: name.to_string(), key, id }))
}

async fn disable_org(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(org): Path<String>,
) -> Result<Reply<OrgReply>, ApiError> {
    require_right(&principal, Right::OrgsWrite)?;
    let record = find_org(&state, &org)?;
    if record.name == *principal.org() {
        let message = "this is the organisation of your own key, which would become invalid too";
        return Err(ApiError::new(ErrorCode::Conflict, message));
    }
    let disabled = record.disabled_at.or_else(|| Some(state.components.clock.wall_now()));
    store_org(&state, &principal, OrgRecord { disabled_at: disabled, ..record }).await
}

async fn enable_org(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(org): Path<String>,
) -> Result<Reply<OrgReply>, ApiError> {
    require_right(&principal, Right::OrgsWrite)?;
    let record = find_org(&state, &org)?;
    store_org(&state, &principal, OrgRecord { disabled_at: None, ..record }).await
}

async fn store_org(
    state: &ServerState,
    principal: &Principal,
    org: OrgRecord,
) -> Result<Reply<OrgReply>, ApiError> {
    state.components.keys.upsert_org(&org).await?;
    let disabled = org.disabled_at.is_some();
    tracing::info!(org = %org.name, disabled, by = principal.key_id(), "organisation changed");
    Ok(Reply(org_reply(state, &org)))
}

async fn show_org_tools(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(org): Path<String>,
) -> Result<Reply<OrgToolsReply>, ApiError> {
    require_right(&principal, Right::OrgsWrite)?;
    let org = find_org(&state, &org)?.name;
    let tools = state
        .components
        .keys
        .key_ring()
        .directory()
        .org_tools(&org)
        .map(|list| list.patterns().to_vec());
    Ok(Reply(OrgToolsReply { org: org.to_string(), tools }))
}

async fn set_org_tools(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(org): Path<String>,
    DecodedBody(body): DecodedBody<OrgToolsBody>,
) -> Result<Reply<OrgToolsReply>, ApiError> {
    require_right(&principal, Right::OrgsWrite)?;
    let org = find_org(&state, &org)?.name;
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
    Ok(Reply(OrgToolsReply { org: org.to_string(), tools: Some(body.tools) }))
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
