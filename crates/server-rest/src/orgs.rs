//! `/v1/orgs`: organizations and the tools they may use.

use axum::extract::{Path, State};
use axum::routing::{delete, get, post, put};
use axum::{Extension, Json as Reply};
use identity::{NewKey, OrgRecord, Principal, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::identifier::check_line;
use tool::{Code, Org};

use super::standing::{described, has};
use server_core::body::Body;
use server_core::error::ApiError;
use server_core::keys::{Keys, refused};
use server_core::route::Route;
use server_core::state::Doors;

/// Maximum number of tool patterns per organization.
const PATTERNS: usize = 10_000;
/// Maximum bytes of one pattern or of a description.
const TEXT: usize = 1_000;

pub(crate) fn routes() -> Vec<Route> {
    let tools = "/v1/orgs/{org}/tools";
    vec![
        Route::new("get", "/v1/orgs", "The organisations", get(list)).reply::<OrgsReply>(),
        Route::new(
            "post",
            "/v1/orgs",
            "Make an organisation, with its owner's key, shown once",
            post(create),
        )
        .body::<NewOrg>()
        .reply::<NewOrgReply>(),
        Route::new(
            "delete",
            "/v1/orgs/{org}",
            "Disable an organisation: none of its keys holds",
            delete(disable),
        )
        .reply::<OrgReply>(),
        Route::new("post", "/v1/orgs/{org}/enable", "Enable an organisation again", post(enable))
            .reply::<OrgReply>(),
        Route::new("get", tools, "The tools an organisation may use", get(tools_of))
            .reply::<ToolsReply>(),
        Route::new("put", tools, "Say which tools an organisation may use", put(set_tools))
            .body::<ToolsBody>()
            .reply::<ToolsReply>(),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewOrg {
    /// Its name.
    #[schemars(with = "String")]
    name: Org,
    /// A line for people.
    #[serde(default)]
    description: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct NewOrgReply {
    org: String,
    /// The key of its owner. It is not kept and cannot be shown again.
    key: String,
    /// The key's id.
    id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct OrgsReply {
    orgs: Vec<OrgReply>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct OrgReply {
    org: String,
    description: String,
    /// How many keys of it are not revoked.
    keys: usize,
    /// How many patterns its list of tools has; null where it has none.
    tools: Option<usize>,
    disabled: Option<String>,
}

/// Which tools an organisation may use.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ToolsBody {
    /// Patterns and groups; none is allowed where it is empty.
    tools: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ToolsReply {
    org: String,
    /// Null where it has no list.
    tools: Option<Vec<String>>,
}

async fn list(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<OrgsReply>, ApiError> {
    has(&principal, Right::OrgsWrite)?;
    let ring = doors.parts.keys.ring();
    let orgs = ring.directory().orgs().map(|org| reply(&doors, org)).collect();
    Ok(Reply(OrgsReply { orgs }))
}

async fn create(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Body(body): Body<NewOrg>,
) -> Result<Reply<NewOrgReply>, ApiError> {
    has(&principal, Right::OrgsWrite)?;
    let NewOrg { name, description } = body;
    let keys = &doors.parts.keys;
    if name == Org::default() || keys.ring().directory().org(&name).is_some() {
        let told = format!("there is an organisation `{name}` already");
        return Err(ApiError::new(Code::Conflict, told).fix("give it another name"));
    }
    described(&description, TEXT)?;
    let new = NewKey::first_of(name.clone(), Keys::fresh_id()?, &principal);
    let new = new.map_err(|fault| refused(&fault))?;
    keys.keep_org(&OrgRecord { name: name.clone(), description, disabled: None }).await?;
    let (secret, record) = keys.create(new, doors.parts.clock.wall()).await?;
    tracing::info!(%name, by = principal.key(), "organisation made");
    let (key, id) = (secret.open().to_owned(), record.id.to_string());
    Ok(Reply(NewOrgReply { org: name.to_string(), key, id }))
}

async fn disable(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(org): Path<String>,
) -> Result<Reply<OrgReply>, ApiError> {
    has(&principal, Right::OrgsWrite)?;
    let record = known(&doors, &org)?;
    if record.name == *principal.org() {
        let told = "that is the organisation of your own key, which would not hold either";
        return Err(ApiError::new(Code::Conflict, told));
    }
    let disabled = record.disabled.or_else(|| Some(doors.parts.clock.wall()));
    kept(&doors, &principal, OrgRecord { disabled, ..record }).await
}

async fn enable(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(org): Path<String>,
) -> Result<Reply<OrgReply>, ApiError> {
    has(&principal, Right::OrgsWrite)?;
    let record = known(&doors, &org)?;
    kept(&doors, &principal, OrgRecord { disabled: None, ..record }).await
}

async fn kept(
    doors: &Doors,
    principal: &Principal,
    org: OrgRecord,
) -> Result<Reply<OrgReply>, ApiError> {
    doors.parts.keys.keep_org(&org).await?;
    let disabled = org.disabled.is_some();
    tracing::info!(org = %org.name, disabled, by = principal.key(), "organisation changed");
    Ok(Reply(reply(doors, &org)))
}

async fn tools_of(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(org): Path<String>,
) -> Result<Reply<ToolsReply>, ApiError> {
    has(&principal, Right::OrgsWrite)?;
    let org = known(&doors, &org)?.name;
    let tools =
        doors.parts.keys.ring().directory().org_tools(&org).map(|list| list.patterns().to_vec());
    Ok(Reply(ToolsReply { org: org.to_string(), tools }))
}

async fn set_tools(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(org): Path<String>,
    Body(body): Body<ToolsBody>,
) -> Result<Reply<ToolsReply>, ApiError> {
    has(&principal, Right::OrgsWrite)?;
    let org = known(&doors, &org)?.name;
    if org == *principal.org() && !principal.is_owner() {
        let told = "that is your own organisation, whose tools only an owner sets";
        return Err(ApiError::new(Code::Forbidden, told));
    }
    let unfit = |text: &String| check_line(text, TEXT).is_err();
    if body.tools.len() > PATTERNS || body.tools.iter().any(unfit) {
        let told = format!("a list has at most {PATTERNS} patterns of 1 to {TEXT} printable bytes");
        return Err(ApiError::new(Code::InvalidRequest, told));
    }
    doors.parts.keys.keep_org_tools(&org, &body.tools).await?;
    tracing::info!(%org, tools = body.tools.len(), by = principal.key(), "tools of organisation set");
    Ok(Reply(ToolsReply { org: org.to_string(), tools: Some(body.tools) }))
}

/// Finds an existing organization. The default organization needs no record.
fn known(doors: &Doors, name: &str) -> Result<OrgRecord, ApiError> {
    let missing = || {
        ApiError::new(Code::NotFound, format!("no organisation `{}`", name.escape_debug()))
            .fix("see `toolkeep org list`")
    };
    let org: Org = name.parse().map_err(|_| missing())?;
    let ring = doors.parts.keys.ring();
    match ring.directory().org(&org) {
        Some(record) => Ok(record.clone()),
        None if org == Org::default() => {
            Ok(OrgRecord { name: org, description: String::new(), disabled: None })
        }
        None => Err(missing()),
    }
}

fn reply(doors: &Doors, org: &OrgRecord) -> OrgReply {
    let ring = doors.parts.keys.ring();
    let own = |key: &identity::KeyRecord| key.org == org.name && key.revoked.is_none();
    OrgReply {
        org: org.name.to_string(),
        description: org.description.clone(),
        keys: ring.count(own),
        tools: ring.directory().org_tools(&org.name).map(|list| list.patterns().len()),
        disabled: org.disabled.map(|wall| wall.to_string()),
    }
}
