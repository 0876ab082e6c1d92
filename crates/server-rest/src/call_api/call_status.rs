//! `GET /v1/calls/{id}`: the status of a call, and the calls that it made.

use axum::extract::{Path, State};
use axum::{Extension, Json as Reply};
use identity::Principal;

use super::{parse_call_id, unknown_id};
use server_core::call_history::{CallStatusReply, find_call};
use server_core::child_calls::{self, ChildCallsReply};
use server_core::error::ApiError;
use server_core::server_state::ServerState;

pub(super) async fn show_call(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Reply<CallStatusReply>, ApiError> {
    let call = parse_call_id(&id, "call")?;
    // A call of another caller is reported as not found.
    let found = find_call(&state, &principal, call).await?;
    found.map(Reply).ok_or_else(|| unknown_id(&id, "call"))
}

pub(super) async fn list_children(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Reply<ChildCallsReply>, ApiError> {
    let call = parse_call_id(&id, "call")?;
    child_calls::list_child_calls(&state, &principal, call).await.map(Reply)
}
