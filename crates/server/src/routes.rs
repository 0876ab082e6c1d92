//! All routes as one router, in the order in which they are documented.

use std::collections::BTreeMap;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::MethodRouter;
use tool::Code;

use server_core::error::ApiError;
use server_core::route::{Route, shown};
use server_core::state::Doors;

use crate::openapi;

/// Routes that need no key: whether the server lives, and how to speak to it.
pub(crate) fn open_routes(doors: &Doors) -> Router {
    mount(open(), doors)
}

/// All other routes.
pub(crate) fn keyed_routes(doors: &Doors) -> Router {
    mount(keyed(), doors)
}

/// The routes by which a node registers and says that it lives.
pub(crate) fn registration(doors: &Doors) -> Router {
    mount(
        server_compat::registration().into_iter().chain([server_rest::heartbeat()]).collect(),
        doors,
    )
}

pub(crate) fn open() -> Vec<Route> {
    server_rest::open(openapi::document).into_iter().chain(server_compat::open()).collect()
}

pub(crate) fn keyed() -> Vec<Route> {
    server_rest::keyed().into_iter().chain(server_compat::keyed()).collect()
}

/// Paths with all their methods; another method is answered in the envelope, as everything is.
fn mount(routes: Vec<Route>, doors: &Doors) -> Router {
    let mut paths = BTreeMap::<&str, (MethodRouter<Doors>, Vec<String>)>::new();
    for route in routes {
        let (answers, methods) = paths.entry(route.path).or_default();
        *answers = std::mem::take(answers).merge(route.answer);
        methods.push(route.method.to_uppercase());
    }
    let mount = |router: Router<Doors>, (path, (answers, methods)): (&str, (_, Vec<String>))| {
        let allowed = methods.join(" or ");
        let other = move |method: Method, uri: Uri| async move { not_so(&method, &uri, &allowed) };
        router.route(path, MethodRouter::fallback(answers, other))
    };
    paths.into_iter().fold(Router::new(), mount).with_state(doors.clone())
}

/// The router adds `Allow`.
fn not_so(method: &Method, uri: &Uri, allowed: &str) -> Response {
    let (method, path) = (shown(method.as_str(), 20), shown(uri.path(), 200));
    let told = format!("`{path}` takes {allowed}, and not `{method}`");
    let fix = "see /openapi.json for what there is";
    let error = ApiError::new(Code::InvalidRequest, told).fix(fix);
    (StatusCode::METHOD_NOT_ALLOWED, error).into_response()
}

pub(crate) async fn nothing_here(uri: Uri) -> ApiError {
    server_core::route::nothing_here(&uri)
}
