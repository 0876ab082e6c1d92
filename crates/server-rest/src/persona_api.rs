//! `/v1/personas`: personas and the sources that each may use.

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use identity::Principal;

use server_core::body::DecodedBody;
use server_core::error::ApiError;
use server_core::persona_management::{
    self, CreatePersonaBody, PersonaListReply, PersonaReply, UpdatePersonaBody,
};
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new("get", "/v1/personas", "List the personas", get(list_personas))
            .with_reply::<PersonaListReply>(),
        ApiRoute::new("post", "/v1/personas", "Create a persona", post(create_persona))
            .with_body::<CreatePersonaBody>()
            .with_reply::<PersonaReply>(),
        ApiRoute::new("post", "/v1/personas/{name}", "Change a persona", post(update_persona))
            .with_body::<UpdatePersonaBody>()
            .with_reply::<PersonaReply>(),
    ]
}

async fn list_personas(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<PersonaListReply>, ApiError> {
    persona_management::list_personas(&state, &principal).map(Reply)
}

async fn create_persona(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(body): DecodedBody<CreatePersonaBody>,
) -> Result<Reply<PersonaReply>, ApiError> {
    persona_management::create_persona(&state, &principal, body).await.map(Reply)
}

async fn update_persona(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
    DecodedBody(change): DecodedBody<UpdatePersonaBody>,
) -> Result<Reply<PersonaReply>, ApiError> {
    persona_management::update_persona(&state, &principal, &name, change).await.map(Reply)
}
