//! `/v1/attention` and `/v1/activity`: what needs a person, and the calls of the last hour.

use axum::extract::State;
use axum::routing::get;
use axum::{Extension, Json as Reply};
use identity::Principal;
use server_core::attention_list::{self, AttentionReply};
use server_core::call_activity::ActivityReply;
use server_core::error::ApiError;
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new(
            "get",
            "/v1/attention",
            "List what needs a person, the most urgent first",
            get(list_attention),
        )
        .with_reply::<AttentionReply>(),
        ApiRoute::new(
            "get",
            "/v1/activity",
            "List the calls per minute of the last hour, with failures and mean duration",
            get(list_activity),
        )
        .with_reply::<ActivityReply>(),
    ]
}

async fn list_attention(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<AttentionReply>, ApiError> {
    attention_list::list_attention(&state, &principal).await.map(Reply)
}

async fn list_activity(State(state): State<ServerState>) -> Reply<ActivityReply> {
    Reply(state.activity.list_minutes())
}
