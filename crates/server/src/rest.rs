//! The REST door. Each route is declared once: what is mounted is what is documented.

mod approvals;
mod artefacts;
mod asked_for;
pub(crate) mod body;
pub(crate) mod calls;
mod explain;
mod frames;
mod health;
mod joining;
mod keys;
mod nodes;
pub(crate) mod openapi;
mod orgs;
mod page;
mod personas;
mod pins;
mod plugins;
pub(crate) mod programs;
pub(crate) mod query;
mod records;
mod roles;
pub(crate) mod route;
mod sheet;
mod sources;
mod standing;
mod tools;
mod users;
mod well_known;

use std::collections::BTreeMap;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::MethodRouter;
use tool::Code;

use crate::error::ApiError;
use crate::facades;
use crate::state::Doors;

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
    mount(facades::registration().into_iter().chain([nodes::heartbeat()]).collect(), doors)
}

fn open() -> Vec<route::Route> {
    let parts = [health::open(), well_known::open(), approvals::open(), facades::open()];
    parts.into_iter().flatten().collect()
}

fn keyed() -> Vec<route::Route> {
    let parts = [
        tools::routes(),
        calls::routes(),
        explain::routes(),
        approvals::routes(),
        artefacts::routes(),
        records::routes(),
        sources::routes(),
        pins::routes(),
        plugins::routes(),
        keys::routes(),
        users::routes(),
        personas::routes(),
        roles::routes(),
        orgs::routes(),
        nodes::routes(),
        programs::routes(),
        joining::routes(),
        health::keyed(),
        facades::keyed(),
    ];
    parts.into_iter().flatten().collect()
}

/// Paths with all their methods; another method is answered in the envelope, as everything is.
fn mount(routes: Vec<route::Route>, doors: &Doors) -> Router {
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

fn shown(text: &str, most: usize) -> String {
    text.chars().take(most).flat_map(char::escape_debug).collect()
}

pub(crate) async fn nothing_here(uri: Uri) -> ApiError {
    let path = shown(uri.path(), 200);
    ApiError::new(Code::NotFound, format!("there is nothing at `{path}`"))
        .fix("see /openapi.json for what there is")
}
