//! What a server would load of a configuration, loaded without a server: nothing is started.

mod commands;
mod personas;

use std::sync::Arc;

use egress::Egress;
use plugins::Checked;
use source_tool_files::{Code, Host, Hosted, OwnTools, ToolFile};
use tool::{
    Boxed, Clock, Code as ErrorCode, Context, ExecuteError, Executor, Granted, Item, Json, Listing,
    Problem, Source as _, SourceError, Step,
};
use tool_manifest::Builtin;

use super::early::Early;
use super::internals;
use super::names::{Names, unmatched};
use super::sources;
use cli_core::failure::Failure;
use cli_core::wiring::Review;
use config::{Config, Environment, SourceConfig, SourceKind};
use host::clock::SystemClock;

/// Reads the tool files and the plugins as a server does, looks for the commands of MCP servers, and compares the names
/// of the configuration and of the personas with what there is.
pub(crate) async fn review(
    config: &Config,
    environment: &Arc<Environment>,
) -> Result<Review, Failure> {
    let egress = Early::begin(config.server.http).done().await?;
    let mut names = Names::shipped();
    let mut left_out = Vec::new();
    for source in &config.sources {
        let SourceKind::ToolFile(_) = &source.kind else {
            names.add_unlisted(source.name.as_str());
            continue;
        };
        match listed(config, source, &egress, environment).await {
            Ok(listing) => {
                names.add(source.name.as_str(), tool_names(&listing));
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
    for Checked { source, problems } in checked.unwrap_or_default() {
        if let Some(source) = &source {
            names.add_unlisted(source.as_str());
        }
        left_out.extend(problems);
    }
    let mut warnings = unmatched(config, &names);
    let (config, environment) = (config.clone(), Arc::clone(environment));
    let sources = names.into_sources();
    let looked = tokio::task::spawn_blocking(move || {
        (commands::problems(&config, &environment), personas::warnings(&config.data, &sources))
    });
    let (commands, personas) = looked.await.unwrap_or_default();
    left_out.extend(commands);
    warnings.extend(personas);
    Ok(Review { left_out, warnings })
}

async fn listed(
    config: &Config,
    source: &SourceConfig,
    egress: &Egress,
    environment: &Arc<Environment>,
) -> Result<Listing, SourceError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let host: Arc<dyn Host> = Arc::new(NoHost);
    let internals = internals::replaced(&(Arc::new(NotRun) as Arc<dyn Executor>));
    let categories = config.policy.rules().own_categories.as_slice().into();
    let tools = sources::FileTools { internals, own: not_run(), categories, host };
    let handlers = sources::handlers(&clock, egress, environment, tools);
    let SourceKind::ToolFile(path) = &source.kind else { return Ok(Listing::default()) };
    let file = ToolFile::new(source.name.clone(), path, handlers);
    let listing = file.list().await;
    file.close().await;
    listing
}

fn tool_names(listing: &Listing) -> impl Iterator<Item = &str> {
    listing.offers.iter().filter_map(|offer| match &offer.item {
        Item::Tool(tool) => Some(tool.name.as_str()),
        _ => None,
    })
}

/// Runs no code: what a tool file names is taken to be there.
#[derive(Debug)]
struct NoHost;

impl Host for NoHost {
    fn host(&self, code: Vec<Code>) -> Boxed<'_, Hosted> {
        let tools = code.iter().map(|_| Ok(Arc::new(NotRun) as Arc<dyn Executor>)).collect();
        let content = Json::of(&serde_json::Value::Null);
        let hosted = Hosted { revision: 1, content, tools, problems: Vec::<Problem>::new() };
        Box::pin(std::future::ready(hosted))
    }

    fn changed(&self, _: u64) -> Boxed<'_, u64> {
        Box::pin(std::future::pending())
    }

    fn close(&self) {}
}

/// Every built-in tool by its name, none of which runs.
fn not_run() -> OwnTools {
    let builtin = |name: &'static str| {
        let (tool, executor) = (builtin_manifests::tool(name)?, Arc::new(NotRun));
        Some((name.to_owned(), Builtin { tool, executor, handler: name.into() }))
    };
    Arc::new(builtin_manifests::names().filter_map(builtin).collect())
}

/// Stands where code would run.
#[derive(Debug)]
struct NotRun;

impl Executor for NotRun {
    fn execute<'a>(
        &'a self,
        _: Granted<'a>,
        _: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        let told = "no server runs this tool";
        Box::pin(std::future::ready(Err(ExecuteError::before(ErrorCode::UpstreamLost, told))))
    }
}

#[cfg(test)]
mod tests;
