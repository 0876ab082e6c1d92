//! `/v1/switches`: sources and tools that are turned off, and the tools of one source with their
//! switches.

use axum::extract::{Path, State};
use axum::routing::{get, put};
use axum::{Extension, Json as Reply};
use identity::Principal;

use server_core::body::{DecodedBody, QueryParams};
use server_core::error::ApiError;
use server_core::page_query::{self, PageQuery};
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;
use server_core::tool_switches::{self, SourceToolListReply, SwitchBody, SwitchListReply};

pub(crate) fn routes() -> Vec<ApiRoute> {
    let path = "/v1/switches";
    vec![
        ApiRoute::new("get", path, "List what is turned off", get(list_switches))
            .with_reply::<SwitchListReply>(),
        ApiRoute::new("put", path, "Turn a source or a tool on or off", put(set_switch))
            .with_body::<SwitchBody>()
            .with_reply::<SwitchListReply>(),
        ApiRoute::new(
            "get",
            "/v1/sources/{source}/tools",
            "List the tools of a source with their switches and tokens",
            get(list_source_tools),
        )
        .with_query(page_query::PAGE_QUERY)
        .with_reply::<SourceToolListReply>(),
    ]
}

async fn list_switches(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<SwitchListReply>, ApiError> {
    tool_switches::list_switches(&state, &principal).map(Reply)
}

async fn set_switch(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(body): DecodedBody<SwitchBody>,
) -> Result<Reply<SwitchListReply>, ApiError> {
    tool_switches::set_switch(&state, &principal, body).await.map(Reply)
}

async fn list_source_tools(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(source): Path<String>,
    QueryParams(page): QueryParams<PageQuery>,
) -> Result<Reply<SourceToolListReply>, ApiError> {
    tool_switches::list_source_tools(&state, &principal, &source, page).await.map(Reply)
}
