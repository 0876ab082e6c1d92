//! Review of a configuration: loads what a server would load, without starting anything.

mod command_check;
mod persona_check;

use std::sync::Arc;

use egress::EgressClient;
use plugins::PluginCheck;
use source_tool_files::{CodeHost, CodeTool, HostedCode, InstalledBuiltins, ToolFileSource};
use tool::{
    BoxFuture, CallContext, CatalogItem, Clock, ErrorCode, ExecuteError, ExecutionState, Executor,
    Json, Problem, RecordedCall, Source as _, SourceError, SourceListing,
};
use tool_manifest::BuiltinTool;

use super::internal_tools;
use super::source_factory;
use super::startup_tasks::StartupTasks;
use super::unmatched_names::{KnownNames, unmatched_names};
use cli_core::command_error::CommandError;
use cli_core::server_launcher::ConfigReview;
use config::{Config, Environment, SourceConfig, SourceKind};
use host::clock::SystemClock;

/// Reviews a configuration: loads tool files and plugins as a server does, looks up the commands of
/// MCP servers, and checks the names in policy and personas.
pub(crate) async fn review_config(
    config: &Config,
    environment: &Arc<Environment>,
) -> Result<ConfigReview, CommandError> {
    let egress = StartupTasks::spawn_tasks(config.server.http_stack).join_tasks().await?;
    let mut names = KnownNames::of_builtins();
    let mut left_out = Vec::new();
    for source in &config.sources {
        let SourceKind::ToolFile(_) = &source.kind else {
            names.add_unlisted(source.name.as_str());
            continue;
        };
        match list_tool_file(config, source, &egress, environment).await {
            Ok(listing) => {
                names.add_source(source.name.as_str(), tool_names(&listing));
                left_out.extend(listing.problems);
            }
            Err(error) => {
                names.add_unlisted(source.name.as_str());
                left_out.push(error.problem);
            }
        }
    }
    let folders = config.plugins.folders.clone();
    if !folders.is_empty() {
        names.add_unlisted("plugins");
    }
    let checked = tokio::task::spawn_blocking(move || plugins::check_folders(&folders)).await;
    for PluginCheck { source_name: source, problems } in checked.unwrap_or_default() {
        if let Some(source) = &source {
            names.add_unlisted(source.as_str());
        }
        left_out.extend(problems);
    }
    let mut warnings = unmatched_names(config, &names);
    let (config, environment) = (config.clone(), Arc::clone(environment));
    let sources = names.into_source_names();
    let checks = tokio::task::spawn_blocking(move || {
        (
            command_check::command_problems(&config, &environment),
            persona_check::persona_warnings(&config.data_dir, &sources),
        )
    });
    let (commands, personas) = checks.await.unwrap_or_default();
    left_out.extend(commands);
    warnings.extend(personas);
    Ok(ConfigReview { left_out, warnings })
}

async fn list_tool_file(
    config: &Config,
    source: &SourceConfig,
    egress: &EgressClient,
    environment: &Arc<Environment>,
) -> Result<SourceListing, SourceError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let host: Arc<dyn CodeHost> = Arc::new(StubCodeHost);
    let internals =
        internal_tools::internal_tools_with(&(Arc::new(StubExecutor) as Arc<dyn Executor>));
    let categories = config.policy.document().own_categories.as_slice().into();
    let tools = source_factory::ToolFileDependencies {
        internal_handlers: internals,
        installed_tools: stub_builtins(),
        categories,
        code_host: host,
    };
    let handlers = source_factory::tool_file_handlers(&clock, egress, environment, tools);
    let SourceKind::ToolFile(path) = &source.kind else { return Ok(SourceListing::default()) };
    let file = ToolFileSource::new(source.name.clone(), path, handlers);
    let listing = file.list_offers().await;
    file.shut_down().await;
    listing
}

fn tool_names(listing: &SourceListing) -> impl Iterator<Item = &str> {
    listing.offers.iter().filter_map(|offer| match &offer.item {
        CatalogItem::Tool(tool) => Some(tool.name.as_str()),
        _ => None,
    })
}

/// A code host that runs nothing and accepts every function that a tool file names.
#[derive(Debug)]
struct StubCodeHost;

impl CodeHost for StubCodeHost {
    fn load_code(&self, code: Vec<CodeTool>) -> BoxFuture<'_, HostedCode> {
        let tools = code.iter().map(|_| Ok(Arc::new(StubExecutor) as Arc<dyn Executor>)).collect();
        let content = Json::encode(&serde_json::Value::Null);
        let hosted = HostedCode {
            revision: 1,
            content_digest: content,
            executors: tools,
            problems: Vec::<Problem>::new(),
        };
        Box::pin(std::future::ready(hosted))
    }

    fn wait_for_change(&self, _: u64) -> BoxFuture<'_, u64> {
        Box::pin(std::future::pending())
    }

    fn shut_down(&self) {}
}

/// Returns all built-in tools by name with executors that refuse to run.
fn stub_builtins() -> InstalledBuiltins {
    let builtin = |name: &'static str| {
        let (tool, executor) = (builtin_manifests::find_tool(name)?, Arc::new(StubExecutor));
        Some((name.to_owned(), BuiltinTool { tool, executor, handler: name.into() }))
    };
    Arc::new(builtin_manifests::tool_names().filter_map(builtin).collect())
}

/// An executor that always refuses to run.
#[derive(Debug)]
struct StubExecutor;

impl Executor for StubExecutor {
    fn execute<'a>(
        &'a self,
        _: RecordedCall<'a>,
        _: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        let told = "no running server has this tool";
        Box::pin(std::future::ready(Err(ExecuteError::not_sent(ErrorCode::UpstreamLost, told))))
    }
}

#[cfg(test)]
mod tests;
