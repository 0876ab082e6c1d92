//! The built-in tools, a folder per category, and the source that offers them.
//!
//! Most tools are pure functions of their arguments and the clock. File and network access goes
//! through `rooted-fs` and `egress` only. `builtin-manifests` holds each tool's name, schema,
//! traits and limits.

mod archive;
mod cages;
mod code;
mod data;
mod math;
mod source;
mod specialized;
mod system;
mod web;
mod worker;

pub use cages::Cages;
pub use code::lint_python::{Installed, Package, RUFF, Ruff, install};
pub use math::expression::{Expression, ExpressionError, Program};
pub use math::number::Number;
pub use source::BuiltinSource;
pub use system::files::Files;
pub use web::{Endpoint, Endpoints, Engine};
pub use worker::{
    DedicatedWorker, Extra, FreshWorker, Job, Lease, Prepare, READ_FOLDER, WORK, WorkerCounts,
    WorkerError, WorkerPlace, WorkerQuota, WorkerShare, WorkerTurn, Workers, read_folder,
    serve_dedicated, work,
};

use builtin_manifests::Family;
use std::collections::BTreeMap;
use std::sync::Arc;

use egress::Egress;
use tool::Clock;
use tool::artefact::Artefacts;
use tool_manifest::{Builtin, Narrowing, Registry};

use archive::opened::Archives;

/// Builds the built-in tools without I/O, in listing order.
pub fn all(clock: &Arc<dyn Clock>) -> Vec<Builtin> {
    computing(Family::General.registry(), clock)
}

fn computing(registry: &Registry, clock: &Arc<dyn Clock>) -> Vec<Builtin> {
    let made = [
        math::calculator::builtin(registry),
        data::json_query::builtin(registry),
        data::csv_to_json::builtin(registry),
        data::json_to_csv::builtin(registry),
        data::generate_uuid::builtin(registry),
        specialized::echo::builtin(registry),
        system::current_datetime::builtin(registry, Arc::clone(clock)),
        system::current_date::builtin(registry, Arc::clone(clock)),
        system::current_time::builtin(registry, Arc::clone(clock)),
    ];
    made.into_iter().flatten().collect()
}

/// Dependencies of tools with I/O. A tool whose dependency is missing is not offered.
#[derive(Debug, Clone, Default)]
pub struct Means {
    /// File roots that tools may use.
    pub files: Option<Arc<Files>>,
    /// Egress client for all network access of tools.
    pub egress: Option<Egress>,
    /// Store for results that are too large to return inline.
    pub artefacts: Option<Arc<dyn Artefacts>>,
    /// Fixed endpoints of the search engine and Wikipedia.
    pub endpoints: Endpoints,
    /// The ruff linter, with the folders in which it may be installed.
    pub ruff: Option<Ruff>,
    /// Operator restrictions by tool name.
    pub narrowings: BTreeMap<String, Narrowing>,
    /// Sandboxes for tools that run code.
    pub cages: Option<Arc<Cages>>,
}

/// Builds the tools that run in a sandbox. Whether this machine supports one is checked when they
/// are listed.
fn caged(registry: &Registry, means: &Means, clock: &Arc<dyn Clock>) -> Vec<Builtin> {
    let Some(cages) = &means.cages else { return Vec::new() };
    let workers = Arc::new(worker::Workers::new(Arc::clone(cages)));
    let files = means.files.as_ref();
    let git = files.and_then(|files| {
        let readers = Arc::new(worker::FolderReaders::new(Arc::clone(cages)));
        code::git_status::builtin(registry, files, &readers)
    });
    let made = [
        git,
        data::sql_query::builtin(registry, &workers),
        code::python_eval::builtin(registry, &workers),
        cages.work().and_then(|_| code::run_shell::builtin(registry, cages, clock)),
    ];
    made.into_iter().flatten().collect()
}

/// Builds the tools with file, network or artifact access.
fn reaching(registry: &Registry, means: &Means, clock: &Arc<dyn Clock>) -> Vec<Builtin> {
    let files = means.files.iter().flat_map(|files| {
        let archives = Archives::new(Arc::clone(files));
        [
            system::read_file::builtin(registry, Arc::clone(files)),
            system::write_file::builtin(registry, Arc::clone(files)),
            system::list_directory::builtin(registry, Arc::clone(files)),
            archive::archive_open::builtin(registry, Arc::clone(&archives)),
            archive::archive_extract::builtin(registry, Arc::clone(&archives)),
            archive::archive_file::builtin(registry, Arc::clone(&archives)),
            archive::archive_search::builtin(registry, archives),
        ]
    });
    let web = means.egress.iter().flat_map(|egress| {
        [
            web::http_get::builtin(registry, egress.clone(), Arc::clone(clock)),
            web::http_post::builtin(registry, egress.clone(), Arc::clone(clock)),
            web::web_search::builtin(registry, egress.clone(), &means.endpoints),
            web::fetch_wikipedia::builtin(registry, egress.clone(), &means.endpoints),
        ]
    });
    let artefacts = means.artefacts.iter();
    let artefacts = artefacts.flat_map(|artefacts| data::artefacts::builtins(registry, artefacts));
    let code = [code::lint_python::builtin(registry, means.ruff.as_ref())];
    files.chain(web).chain(artefacts).chain(code).flatten().collect()
}

#[cfg(test)]
mod examples;
#[cfg(test)]
mod tests;
