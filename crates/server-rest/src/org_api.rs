//! `/v1/orgs`: organizations and the tools they may use.

use axum::extract::{Path, State};
use axum::routing::{delete, get, post, put};
use axum::{Extension, Json as Reply};
use identity::Principal;

use server_core::body::DecodedBody;
use server_core::error::ApiError;
use server_core::org_management::{
    self, CreateOrgBody, CreateOrgReply, OrgListReply, OrgReply, OrgToolsBody, OrgToolsReply,
};
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;

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

async fn list_orgs(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<OrgListReply>, ApiError> {
    org_management::list_orgs(&state, &principal).map(Reply)
}

async fn create_org(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(body): DecodedBody<CreateOrgBody>,
) -> Result<Reply<CreateOrgReply>, ApiError> {
    org_management::create_org(&state, &principal, body).await.map(Reply)
}

async fn disable_org(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(org): Path<String>,
) -> Result<Reply<OrgReply>, ApiError> {
    org_management::disable_org(&state, &principal, &org).await.map(Reply)
}

async fn enable_org(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(org): Path<String>,
) -> Result<Reply<OrgReply>, ApiError> {
    org_management::enable_org(&state, &principal, &org).await.map(Reply)
}

async fn show_org_tools(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(org): Path<String>,
) -> Result<Reply<OrgToolsReply>, ApiError> {
    org_management::show_org_tools(&state, &principal, &org).map(Reply)
}

async fn set_org_tools(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(org): Path<String>,
    DecodedBody(body): DecodedBody<OrgToolsBody>,
) -> Result<Reply<OrgToolsReply>, ApiError> {
    org_management::set_org_tools(&state, &principal, &org, body).await.map(Reply)
}
