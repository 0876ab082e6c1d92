//! Catalog items of a version's tools: their traits, pinned definitions and executors.

use std::sync::Arc;

use tool::source::ToolAlias;
use tool::{CatalogItem, Digest, Executor, Json, Offer, Tool, ToolName, ToolTraits};

use super::VersionBackend;
use crate::AccessGrant;
use crate::access::EffectiveAccess;
use crate::manifest::{PluginManifest, PluginToolDeclaration};
use crate::plugin_executor::PluginExecutor;

/// Returns the catalog item of a tool, and its alias.
pub(super) fn catalog_item(
    manifest: &PluginManifest,
    declared: &PluginToolDeclaration,
    digest: Digest,
    (grant, backend): (&AccessGrant, &VersionBackend),
) -> Result<(Offer, Option<ToolAlias>), String> {
    let name = ToolName::new(format!("{}.{}", manifest.name, declared.name));
    let name = name.map_err(|error| error.to_string())?;
    let alias = ToolName::new(&declared.name).ok();
    let alias = alias.map(|alias| ToolAlias { alias, tool_name: name.clone() });
    let tool = Tool {
        name,
        title: None,
        description: declared.description.clone(),
        input_schema: Json::encode(&declared.input_schema),
        output_schema: None,
        traits: effective_traits(manifest, declared, grant),
        raw_definition: pinned_definition(manifest, digest, &declared.raw_definition),
    };
    let offer = match backend {
        VersionBackend::Process(supervisor) => {
            let executor: Arc<dyn Executor> = Arc::new(PluginExecutor {
                supervisor: Arc::clone(supervisor),
                tool_name: declared.name.clone(),
            });
            Offer { item: CatalogItem::Tool(Arc::new(tool)), executor }
        }
        VersionBackend::McpServer(mcp_backend) => {
            let listed = mcp_backend.find_tool(manifest, &declared.name);
            let (server_tool, offer) = listed.ok_or("the server does not list it")?;
            let tool = Tool {
                title: server_tool.title.clone(),
                output_schema: server_tool.output_schema.clone(),
                raw_definition: pinned_definition(manifest, digest, &server_tool.raw_definition),
                ..tool
            };
            mcp_backend.wrap_item(offer, CatalogItem::Tool(Arc::new(tool)))
        }
    };
    Ok((offer, alias))
}

/// Returns the traits of the manifest with the access of the whole plugin. The sandbox exposes only
/// granted folders, whatever paths a call names.
fn effective_traits(
    manifest: &PluginManifest,
    declared: &PluginToolDeclaration,
    grant: &AccessGrant,
) -> ToolTraits {
    let mut traits = declared.traits.clone();
    for scope in manifest.requested_access.required_scopes() {
        if !traits.scopes.contains(&scope) {
            traits.scopes.push(scope);
        }
    }
    if let Ok(allowed) = EffectiveAccess::resolve(&manifest.requested_access, grant, &manifest.name)
    {
        let granted = allowed.readable_paths.iter().chain(&allowed.writable_path);
        let granted: Option<Vec<_>> =
            granted.map(|path| path.to_str().map(str::to_owned)).collect();
        traits.base_folders = granted.filter(|granted| !granted.is_empty());
    }
    traits
}

/// Returns the pinned definition: the hash of the whole folder, and the original definition.
fn pinned_definition(manifest: &PluginManifest, digest: Digest, definition: &Json) -> Json {
    Json::object_from([
        ("plugin", &Json::encode(&manifest.name)),
        ("version", &Json::encode(&manifest.version)),
        ("content", &Json::encode(&digest)),
        ("tool", definition),
    ])
}
