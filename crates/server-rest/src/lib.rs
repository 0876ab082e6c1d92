//! The REST interface under `/v1`. Each route is declared once, so that every mounted route is
//! documented.

mod approvals;
mod artefacts;
mod asked_for;
pub(crate) mod calls;
mod explain;
mod frames;
mod health;
mod joining;
mod keys;
mod nodes;
mod orgs;
mod page;
mod personas;
mod pins;
mod plugins;
pub(crate) mod programs;
mod records;
mod roles;
mod sheet;
mod sources;
mod standing;
mod tools;
mod users;
mod well_known;

use serde_json::Value;
use server_core::route::Route;

pub use nodes::heartbeat;

/// The routes that need no key. `document` builds the OpenAPI document of all interfaces.
pub fn open(document: fn() -> Value) -> Vec<Route> {
    let parts = [health::open(document), well_known::open(), approvals::open()];
    parts.into_iter().flatten().collect()
}

/// The routes that need a key.
pub fn keyed() -> Vec<Route> {
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
    ];
    parts.into_iter().flatten().collect()
}
