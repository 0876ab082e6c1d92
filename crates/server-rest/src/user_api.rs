//! `/v1/users`: users, their levels and keys. A user is the subject of keys; nobody can be made an
//! owner.

use axum::extract::{Path, State};
use axum::routing::{delete, get, post};
use axum::{Extension, Json as Reply};
use identity::Principal;
use server_core::body::{DecodedBody, QueryParams};
use server_core::error::ApiError;
use server_core::page_query::{self, PageQuery};
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;
use server_core::user_management::{
    self, CreateUserBody, CreateUserReply, SetUserLevelBody, UserListReply, UserReply,
};

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new("get", "/v1/users", "List the users and their levels", get(list_users))
            .with_query(page_query::PAGE_QUERY)
            .with_reply::<UserListReply>(),
        ApiRoute::new(
            "post",
            "/v1/users",
            "Create a user and a key, which is returned once",
            post(create_user),
        )
        .with_body::<CreateUserBody>()
        .with_reply::<CreateUserReply>(),
        ApiRoute::new(
            "post",
            "/v1/users/{subject}/level",
            "Set the level of a user",
            post(set_user_level),
        )
        .with_body::<SetUserLevelBody>()
        .with_reply::<UserReply>(),
        ApiRoute::new(
            "delete",
            "/v1/users/{subject}",
            "Disable a user and its keys",
            delete(disable_user),
        )
        .with_reply::<UserReply>(),
        ApiRoute::new(
            "post",
            "/v1/users/{subject}/enable",
            "Enable a disabled user",
            post(enable_user),
        )
        .with_reply::<UserReply>(),
    ]
}

async fn list_users(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    QueryParams(page): QueryParams<PageQuery>,
) -> Result<Reply<UserListReply>, ApiError> {
    user_management::list_users(&state, &principal, page).await.map(Reply)
}

async fn create_user(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(body): DecodedBody<CreateUserBody>,
) -> Result<Reply<CreateUserReply>, ApiError> {
    user_management::create_user(&state, &principal, body).await.map(Reply)
}

async fn disable_user(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(subject): Path<String>,
) -> Result<Reply<UserReply>, ApiError> {
    user_management::disable_user(&state, &principal, &subject).await.map(Reply)
}

async fn enable_user(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(subject): Path<String>,
) -> Result<Reply<UserReply>, ApiError> {
    user_management::enable_user(&state, &principal, &subject).await.map(Reply)
}

async fn set_user_level(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(subject): Path<String>,
    DecodedBody(body): DecodedBody<SetUserLevelBody>,
) -> Result<Reply<UserReply>, ApiError> {
    user_management::set_user_level(&state, &principal, &subject, body).await.map(Reply)
}
