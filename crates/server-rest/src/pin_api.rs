//! `/v1/pins`: the approved tool definitions, and decisions on definitions that await review.

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use identity::Principal;
use intake::PinVerdict;
use server_core::body::{DecodedBody, QueryParams};
use server_core::error::ApiError;
use server_core::pin_review::{
    self, PinDecisionBody, PinDetailReply, PinListQuery, PinListReply, PinReply,
};
use server_core::route::{ApiRoute, QueryParam};
use server_core::server_state::ServerState;

const LIST_QUERY: &[QueryParam] = &[
    QueryParam {
        name: "source",
        description: "only definitions of this source",
        schema_type: "string",
    },
    QueryParam {
        name: "state",
        description: "only definitions in this state: pending, active, quarantined or retired; `waiting` \
               stands for pending and quarantined",
        schema_type: "string",
    },
    QueryParam {
        name: "limit",
        description: "number of definitions per page, 1 to 1000",
        schema_type: "integer",
    },
    QueryParam {
        name: "cursor",
        description: "next_cursor of the previous page",
        schema_type: "string",
    },
];

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new("get", "/v1/pins", "List the pinned tool definitions", get(list_pins))
            .with_query(LIST_QUERY)
            .with_reply::<PinListReply>(),
        ApiRoute::new(
            "get",
            "/v1/pins/{source}/{tool}",
            "Get a pinned tool definition with its texts",
            get(show_pin),
        )
        .with_reply::<PinDetailReply>(),
        ApiRoute::new(
            "post",
            "/v1/pins/{source}/{tool}/approve",
            "Approve a tool definition",
            post(approve_definition),
        )
        .with_body::<PinDecisionBody>()
        .with_reply::<PinReply>(),
        ApiRoute::new(
            "post",
            "/v1/pins/{source}/{tool}/reject",
            "Reject a tool definition",
            post(reject_definition),
        )
        .with_body::<PinDecisionBody>()
        .with_reply::<PinReply>(),
    ]
}

async fn list_pins(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    QueryParams(query): QueryParams<PinListQuery>,
) -> Result<Reply<PinListReply>, ApiError> {
    pin_review::list_pins(&state, &principal, query).await.map(Reply)
}

async fn show_pin(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path((source, tool)): Path<(String, String)>,
) -> Result<Reply<PinDetailReply>, ApiError> {
    pin_review::show_pin(&state, &principal, (&source, &tool)).await.map(Reply)
}

async fn approve_definition(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path((source, tool)): Path<(String, String)>,
    DecodedBody(body): DecodedBody<PinDecisionBody>,
) -> Result<Reply<PinReply>, ApiError> {
    let decision = (PinVerdict::Approve, body);
    pin_review::decide_pin(&state, &principal, (&source, &tool), decision).await.map(Reply)
}

async fn reject_definition(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path((source, tool)): Path<(String, String)>,
    DecodedBody(body): DecodedBody<PinDecisionBody>,
) -> Result<Reply<PinReply>, ApiError> {
    let decision = (PinVerdict::Reject, body);
    pin_review::decide_pin(&state, &principal, (&source, &tool), decision).await.map(Reply)
}
