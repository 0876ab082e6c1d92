//! The REST door. Each route is declared once: what is mounted is what is documented.

pub(crate) mod body;
mod calls;
mod frames;
mod health;
mod keys;
pub(crate) mod openapi;
mod records;
mod route;
mod sources;
mod tools;

use axum::Router;
use axum::http::Uri;
use tool::Code;

use crate::error::ApiError;
use crate::state::Doors;

/// Routes that need no key: whether the server lives, and how to speak to it.
pub(crate) fn open_routes(doors: &Doors) -> Router {
    mount(health::open(), doors)
}

/// All other routes.
pub(crate) fn keyed_routes(doors: &Doors) -> Router {
    mount(keyed(), doors)
}

fn keyed() -> Vec<route::Route> {
    let parts = [
        tools::routes(),
        calls::routes(),
        records::routes(),
        sources::routes(),
        keys::routes(),
        health::keyed(),
    ];
    parts.into_iter().flatten().collect()
}

fn mount(routes: Vec<route::Route>, doors: &Doors) -> Router {
    let router = routes.into_iter().fold(Router::new(), |router, route| route.mount(router));
    router.with_state(doors.clone())
}

pub(crate) async fn nothing_here(uri: Uri) -> ApiError {
    let path: String = uri.path().chars().take(200).collect();
    ApiError::new(Code::NotFound, format!("there is nothing at `{}`", path.escape_debug()))
        .fix("see /openapi.json for what there is")
}
