//! Plugin versions whose tools come from an MCP server's listing, with traits from the manifest.

use std::sync::Arc;

use sandbox::process::{CommandSpec, EnvValue};
use serde_json::Value;
use source_mcp::{McpOptions, McpSource, ServerLimits, StdioConnector};
use tool::{
    CatalogItem, Offer, Problem, Source as _, SourceListing, SourceName, SourceRevision, Tool,
};

use super::plan::BuildPlan;
use super::{PluginVersion, VersionBackend, VersionBuilder};
use crate::access::EffectiveAccess;
use crate::manifest::{MAX_TOOLS, PluginManifest, PluginToolDeclaration, escape_for_message};
use crate::mcp_server::{PluginMcpExecutor, ServerLifetime};
use crate::parameter_schema;
use crate::plugin_folder::FolderCopy;
use crate::plugin_process::ReportedProblem;

/// Maximum size in bytes of the settings, which a server receives in its environment.
const MAX_SETTINGS_BYTES: usize = 64 << 10;

/// A running server and its last listing.
#[derive(Debug)]
pub(crate) struct McpBackend {
    pub(crate) server_lifetime: Arc<ServerLifetime>,
    /// Plan without the server's listing.
    base_plan: BuildPlan,
    listing: SourceListing,
}

impl VersionBuilder {
    /// Starts the server and fetches its listing.
    pub(super) async fn start_server(
        &self,
        plan: &mut BuildPlan,
        (folder_copy, spec): (FolderCopy, CommandSpec),
    ) -> Result<McpBackend, String> {
        let name = SourceName::new(&plan.manifest.name).map_err(|error| error.to_string())?;
        let ready = self.config.startup_timeout;
        let bounds =
            ServerLimits { start_timeout: ready, list_timeout: ready, ..ServerLimits::default() };
        let options = McpOptions { limits: bounds, ..McpOptions::default() };
        let dial = StdioConnector::new(self.config.launcher.clone(), spec).with_plain_arguments();
        let server = Arc::new(McpSource::with_pipes(name, options, Arc::new(dial)));
        let session = Arc::new(ServerLifetime::new(self, server, folder_copy));
        let listing = fetch_listing(&session, self.config.startup_timeout).await?;
        let backend = McpBackend { server_lifetime: session, base_plan: plan.clone(), listing };
        plan.apply_listing(&backend.listing);
        Ok(backend)
    }
}

/// Fetches the current listing of the server.
pub(crate) async fn fetch_listing(
    server: &ServerLifetime,
    limit: std::time::Duration,
) -> Result<SourceListing, String> {
    match tokio::time::timeout(limit, server.server.list_offers()).await {
        Ok(listing) => listing.map_err(|error| error.problem.message),
        Err(_) => Err(format!("it did not list its tools within {} s", limit.as_secs())),
    }
}

impl PluginVersion {
    /// Returns the server and the revision of its known listing.
    pub(crate) fn watched_listing(&self) -> Option<(Arc<ServerLifetime>, SourceRevision)> {
        let backend = self.backend.as_ref()?.mcp_backend()?;
        Some((Arc::clone(&backend.server_lifetime), backend.listing.revision))
    }

    /// Returns this version with a new listing. If the listing failed, the old one stays, with a
    /// problem.
    pub(crate) fn with_listing(
        &self,
        listing: Result<SourceListing, String>,
        revision: SourceRevision,
    ) -> Option<Self> {
        let backend = self.backend.as_ref()?.mcp_backend()?;
        let mut plan = backend.base_plan.clone();
        let listing = listing.unwrap_or_else(|why| {
            let manifest_path = plan.manifest_path.clone();
            plan.problems.push(Problem::new(
                manifest_path,
                format!(
                    "its server cannot list its tools: \
                    {why}"
                ),
            ));
            SourceListing { revision, ..backend.listing.clone() }
        });
        plan.apply_listing(&listing);
        let (session, seed) = (Arc::clone(&backend.server_lifetime), backend.base_plan.clone());
        let backend = McpBackend { server_lifetime: session, base_plan: seed, listing };
        Some(VersionBuilder::finish_version(
            plan,
            self.content_digest,
            &self.grant,
            Some(VersionBackend::McpServer(Box::new(backend))),
        ))
    }
}

impl McpBackend {
    fn listed_tools(listing: &SourceListing) -> impl Iterator<Item = (&Tool, &Offer)> {
        listing.offers.iter().filter_map(|offer| match &offer.item {
            CatalogItem::Tool(tool) => Some((tool.as_ref(), offer)),
            _ => None,
        })
    }

    /// Finds the server's own offer of a tool.
    pub(super) fn find_tool(
        &self,
        manifest: &PluginManifest,
        own_name: &str,
    ) -> Option<(&Tool, &Offer)> {
        Self::listed_tools(&self.listing)
            .find(|(tool, _)| server_tool_name(manifest, tool) == own_name)
    }

    /// Wraps an offer so that it keeps the server running.
    pub(super) fn wrap_item(&self, offer: &Offer, item: CatalogItem) -> Offer {
        let through =
            PluginMcpExecutor::new(Arc::clone(&offer.executor), Arc::clone(&self.server_lifetime));
        Offer { item, executor: Arc::new(through) }
    }

    /// Returns prompts and resources as the server listed them.
    pub(super) fn companion_items(&self) -> Vec<Offer> {
        let others = self.listing.offers.iter();
        let others = others.filter(|offer| !matches!(offer.item, CatalogItem::Tool(_)));
        others.map(|offer| self.wrap_item(offer, offer.item.clone())).collect()
    }

    pub(super) fn server_info(&self) -> Option<tool::Json> {
        self.listing.initialize_result.clone()
    }
}

/// The name that the server knows.
fn server_tool_name<'a>(manifest: &PluginManifest, tool: &'a Tool) -> &'a str {
    let name = tool.name.as_str();
    name.get(manifest.name.len() + 1..).unwrap_or(name)
}

impl BuildPlan {
    /// Applies the server's listing: tools of the manifest must exist and match, and other tools
    /// get default traits.
    fn apply_listing(&mut self, listing: &SourceListing) {
        self.problems.extend(listing.problems.iter().cloned());
        let tools: Vec<(String, &Tool)> = McpBackend::listed_tools(listing)
            .map(|(tool, _)| (server_tool_name(&self.manifest, tool).to_owned(), tool))
            .collect();
        let mut mismatches = Vec::new();
        for declared in &mut self.manifest.tools {
            let found = tools.iter().find(|(own, _)| *own == declared.name);
            let error = match found {
                None => {
                    Some(format!("the server has no tool `{}`", escape_for_message(&declared.name)))
                }
                Some((_, tool)) => complete_declaration(declared, tool),
            };
            mismatches.extend(error.map(|message| (declared.name.clone(), message)));
        }
        for (name, message) in mismatches {
            self.add_problem(&ReportedProblem { tool: Some(name), is_missing: false, message });
        }
        for (own, tool) in &tools {
            if self.manifest.tools.iter().any(|declared| declared.name == *own) {
                continue;
            }
            if self.manifest.tools.len() >= MAX_TOOLS {
                let message = format!("the server lists more than {MAX_TOOLS} tools");
                self.problems.push(Problem::new(self.manifest_path.as_str(), message));
                break;
            }
            let mut declared = PluginToolDeclaration::from_server_listing(own);
            // Cannot fail, because nothing is declared.
            let _fits = complete_declaration(&mut declared, tool);
            let on = self.settings.tool_overrides.get(own).copied().unwrap_or(true);
            self.disabled_reasons.push((!on).then(|| "it is disabled".to_owned()));
            self.manifest.tools.push(declared);
        }
        self.check_overrides();
    }
}

/// Completes the declaration from the server's tool. Returns a message if they do not match.
fn complete_declaration(declared: &mut PluginToolDeclaration, tool: &Tool) -> Option<String> {
    if declared.description.is_empty() {
        declared.description.clone_from(&tool.description);
    }
    let server = tool.input_schema.to_value();
    if declared.parameters.as_str() == "{}" {
        declared.input_schema = server;
        declared.parameters = tool.input_schema.clone();
        return None;
    }
    let own = parameter_schema::parameter_names(&declared.input_schema);
    let server = parameter_schema::parameter_names(&server);
    let extra = own.declared.iter();
    let extra = extra.filter(|name| !server.allows_others && !server.declared.contains(name));
    let extra = extra
        .map(|name| format!("the server's tool has no parameter `{}`", escape_for_message(name)));
    let lacking = server.required.iter().filter(|name| !own.required.contains(name));
    let lacking = lacking.map(|name| {
        let verb = if own.declared.contains(name) { "require" } else { "declare" };
        format!(
            "the server's tool requires `{}`, which the manifest does not {verb}",
            escape_for_message(name)
        )
    });
    let message: Vec<_> = extra.chain(lacking).collect();
    (!message.is_empty())
        .then(|| format!("the manifest does not match the tool: {}", message.join("; ")))
}

/// Returns the environment that replaces the first line for MCP servers: settings and granted
/// paths.
pub(super) fn server_environment(
    values: &Value,
    access: &EffectiveAccess,
) -> Result<Vec<(String, EnvValue)>, String> {
    let settings = values.to_string();
    if settings.len() > MAX_SETTINGS_BYTES {
        return Err(format!("its settings are longer than {MAX_SETTINGS_BYTES} bytes"));
    }
    let read: Vec<_> =
        access.readable_paths.iter().map(|path| path.display().to_string()).collect();
    let write = access.writable_path.as_ref().map(|path| path.display().to_string());
    let all = [
        ("TOOLKEEP_SETTINGS", settings),
        ("TOOLKEEP_READ", read.join(":")),
        ("TOOLKEEP_WRITE", write.unwrap_or_default()),
    ];
    Ok(all.map(|(name, value)| (name.to_owned(), value.into())).into())
}
