//! The built-in tools, a folder per category, and the source that offers them.
//!
//! Most tools are pure functions of their arguments and the clock. File and network access goes
//! through `rooted-fs` and `egress` only. `builtin-manifests` holds each tool's name, schema,
//! traits and limits.

mod archive;
mod builtin_source;
mod code;
mod data;
mod guide_skills;
mod math;
mod sandbox_provider;
mod specialized;
mod system;
mod web;
mod worker_pool;

pub use builtin_source::BuiltinSource;
pub use code::lint_python::{
    InstalledProgram, PinnedPackage, RUFF_DIR, RuffLinter, install_package,
};
pub use guide_skills::Guide;
pub use math::exact_number::ExactNumber;
pub use math::expression::{CompiledExpression, Expression, ExpressionError};
pub use sandbox_provider::SandboxProvider;
pub use system::file_roots::FileRoots;
pub use web::{SearchEngine, WebEndpoint, WebEndpoints};
pub use worker_pool::{
    DedicatedWorker, FOLDER_READER_COMMAND, FreshWorker, JobHandler, POOL_WORKER_COMMAND,
    WorkerCounts, WorkerError, WorkerJob, WorkerLease, WorkerPool, WorkerPreparation, WorkerQuota,
    WorkerResources, WorkerSlot, WorkerTurn, run_dedicated_worker, run_folder_reader,
    run_pool_worker,
};

use builtin_manifests::ToolFamily;
use std::collections::BTreeMap;
use std::sync::Arc;

use egress::EgressClient;
use tool::Clock;
use tool::artifact::ArtifactStore;
use tool_manifest::{BuiltinTool, ManifestRegistry, ToolRestriction};

use archive::recent_archives::RecentArchives;

/// Builds the built-in tools without I/O, in listing order.
pub fn pure_tools(clock: &Arc<dyn Clock>) -> Vec<BuiltinTool> {
    build_pure_tools(ToolFamily::General.registry(), clock)
}

fn build_pure_tools(registry: &ManifestRegistry, clock: &Arc<dyn Clock>) -> Vec<BuiltinTool> {
    let made = [
        math::calculator::build_tool(registry),
        data::json_query::build_tool(registry),
        data::csv_to_json::build_tool(registry),
        data::json_to_csv::build_tool(registry),
        data::generate_uuid::build_tool(registry),
        specialized::echo::build_tool(registry),
        system::current_datetime::build_tool(registry, Arc::clone(clock)),
        system::current_date::build_tool(registry, Arc::clone(clock)),
        system::current_time::build_tool(registry, Arc::clone(clock)),
    ];
    made.into_iter().flatten().collect()
}

/// Dependencies of tools with I/O. A tool whose dependency is missing is not offered.
#[derive(Debug, Clone, Default)]
pub struct ToolDependencies {
    /// File roots that tools may use.
    pub file_roots: Option<Arc<FileRoots>>,
    /// Egress client for all network access of tools.
    pub egress: Option<EgressClient>,
    /// Store for results that are too large to return inline.
    pub artifacts: Option<Arc<dyn ArtifactStore>>,
    /// Fixed endpoints of the search engine and Wikipedia.
    pub endpoints: WebEndpoints,
    /// The ruff linter, with the folders in which it may be installed.
    pub ruff: Option<RuffLinter>,
    /// Operator restrictions by tool name.
    pub restrictions: BTreeMap<String, ToolRestriction>,
    /// Sandboxes for tools that run code.
    pub sandboxes: Option<Arc<SandboxProvider>>,
}

/// Builds the tools that run in a sandbox. Whether this machine supports one is checked when they
/// are listed.
fn build_sandboxed_tools(
    registry: &ManifestRegistry,
    means: &ToolDependencies,
    clock: &Arc<dyn Clock>,
) -> Vec<BuiltinTool> {
    let Some(sandboxes) = &means.sandboxes else { return Vec::new() };
    let workers = Arc::new(worker_pool::WorkerPool::new(Arc::clone(sandboxes)));
    let files = means.file_roots.as_ref();
    let git = files.and_then(|files| {
        let readers = Arc::new(worker_pool::FolderReaderPool::new(Arc::clone(sandboxes)));
        code::git_status::build_tool(registry, files, &readers)
    });
    let made = [
        git,
        data::sql_query::build_tool(registry, &workers),
        code::python_eval::build_tool(registry, &workers),
        sandboxes.work_dir().and_then(|_| code::run_shell::build_tool(registry, sandboxes, clock)),
    ];
    made.into_iter().flatten().collect()
}

/// Builds the tools with file, network or artifact access.
fn build_io_tools(
    registry: &ManifestRegistry,
    means: &ToolDependencies,
    clock: &Arc<dyn Clock>,
) -> Vec<BuiltinTool> {
    let files = means.file_roots.iter().flat_map(|files| {
        let archives = RecentArchives::new(Arc::clone(files));
        [
            system::read_file::build_tool(registry, Arc::clone(files)),
            system::write_file::build_tool(registry, Arc::clone(files)),
            system::list_directory::build_tool(registry, Arc::clone(files)),
            archive::archive_open::build_tool(registry, Arc::clone(&archives)),
            archive::archive_extract::build_tool(registry, Arc::clone(&archives)),
            archive::archive_file::build_tool(registry, Arc::clone(&archives)),
            archive::archive_search::build_tool(registry, archives),
        ]
    });
    let web = means.egress.iter().flat_map(|egress| {
        let [get, post] = web::http_request::build_tools(registry, egress, clock);
        [
            get,
            post,
            web::web_search::build_tool(registry, egress.clone(), &means.endpoints),
            web::fetch_wikipedia::build_tool(registry, egress.clone(), &means.endpoints),
        ]
    });
    let artefacts = means.artifacts.iter();
    let artefacts =
        artefacts.flat_map(|artefacts| data::artifact_tools::build_tools(registry, artefacts));
    let code = [code::lint_python::build_tool(registry, means.ruff.as_ref())];
    files.chain(web).chain(artefacts).chain(code).flatten().collect()
}

#[cfg(test)]
mod manifest_examples;
#[cfg(test)]
mod tests;
