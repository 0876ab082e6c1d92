//! `/v1/access` and `/v1/policy/preview`: which keys may call which tools, and what another policy
//! would change.

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use identity::Principal;

use server_core::body::{DecodedBody, QueryParams};
use server_core::error::ApiError;
use server_core::route::{ApiRoute, QueryParam};
use server_core::server_state::ServerState;
use server_core::tool_access::{
    self, AccessMatrixQuery, AccessMatrixReply, PolicyPreviewBody, PolicyPreviewReply,
};

const MATRIX_QUERY: &[QueryParam] = &[
    QueryParam {
        name: "keys",
        description: "IDs of keys, separated by commas, at most 8; one key of each combination of rights by \
               default",
        schema_type: "string",
    },
    QueryParam {
        name: "tool",
        description: "only tools whose name contains this text",
        schema_type: "string",
    },
    QueryParam {
        name: "limit",
        description: "number of tools per page, 1 to 200; default 200",
        schema_type: "integer",
    },
    QueryParam { name: "after", description: "`next` of the previous page", schema_type: "string" },
];

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new("get", "/v1/access", "List the access of keys to tools", get(list_access))
            .with_query(MATRIX_QUERY)
            .with_reply::<AccessMatrixReply>(),
        ApiRoute::new(
            "post",
            "/v1/policy/preview",
            "Compare the access under another policy with that under the active one",
            post(preview_policy),
        )
        .with_body::<PolicyPreviewBody>()
        .with_reply::<PolicyPreviewReply>(),
    ]
}

async fn list_access(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    QueryParams(query): QueryParams<AccessMatrixQuery>,
) -> Result<Reply<AccessMatrixReply>, ApiError> {
    tool_access::list_access(&state, &principal, query).await.map(Reply)
}

async fn preview_policy(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(body): DecodedBody<PolicyPreviewBody>,
) -> Result<Reply<PolicyPreviewReply>, ApiError> {
    tool_access::preview_policy(&state, &principal, body).await.map(Reply)
}
