//! A node as a source of the catalog.

use std::sync::Arc;

use option_types::ToolSelection;
use tool::node_registry::{NODE_SOURCE_PREFIX, NodeTool, RegistryStaleness};
use tool::{
    BoxFuture, CatalogItem, Json, NameError, Offer, PermissionLevel, Problem, SideEffects, Source,
    SourceError, SourceListing, SourceName, SourceRevision, Tool, ToolName, ToolTraits,
};

use crate::input_spec;
use crate::node_executor::NodeExecutor;
use crate::registry::RegistryContext;

/// Returns whether the operator lists a tool as one without side effects: `TOOL` of any owner,
/// `NODE/TOOL` if that node owns the name, `NODE/*` for all that a node owns.
fn is_read_only(listed: &ToolSelection, owner: &str, tool: &str) -> bool {
    // Most installations list none.
    *listed != ToolSelection::NONE
        && (listed.contains(tool)
            || listed.contains(&format!("{owner}/{tool}"))
            || listed.contains(&format!("{owner}/*")))
}

/// The tools that one node registered, as a source.
#[derive(Debug)]
pub struct NodeSource {
    name: SourceName,
    node: String,
    context: Arc<RegistryContext>,
}

impl NodeSource {
    pub(crate) fn new(node: &str, registry: Arc<RegistryContext>) -> Result<Self, NameError> {
        let name = source_name(node)?;
        Ok(Self { name, node: node.to_owned(), context: registry })
    }

    fn build_listing(&self) -> SourceListing {
        let (revision, tools) = self.context.list_tools(&self.node);
        let read_only = self.context.read_only.load();
        let mut listing = SourceListing { revision, ..SourceListing::default() };
        if let Some(RegistryStaleness { since, reason: why }) = self.context.staleness() {
            listing.stale_since = Some(since);
            listing
                .problems
                .push(Problem::new("the node registry", why).with_help(
                    "no action is needed: it is reloaded as soon as the store responds",
                ));
        }
        for tool in &tools {
            if let Err(fault) = self.context.check_name_use(tool) {
                let help = "register the tool under another name on the node, or share it";
                listing
                    .problems
                    .push(Problem::new(tool.name.clone(), fault.to_string()).with_help(help));
                continue;
            }
            let owner = self.context.effective_owner(tool);
            let ConvertedTool { item, warnings } =
                match convert_tool(tool, is_read_only(&read_only, &owner, &tool.name)) {
                    Ok(read) => read,
                    // Checked at registration, but a newer Toolkeep may have written it.
                    Err(error) => {
                        listing.problems.push(Problem::new(tool.name.clone(), error.to_string()));
                        continue;
                    }
                };
            listing.problems.extend(warnings.into_iter().map(|what| {
                Problem::new(format!("{}: input_spec", tool.name), what).with_help(
                    "use one of string, integer, number, boolean, object, array, or \
                        write JSON Schema",
                )
            }));
            let (node, shared) = (self.node.clone(), Arc::clone(&self.context));
            let executor = Arc::new(NodeExecutor { node, context: shared });
            listing.offers.push(Offer { item: CatalogItem::Tool(Arc::new(item)), executor });
        }
        listing
    }
}

/// Returns the source name of a node.
pub(crate) fn source_name(node: &str) -> Result<SourceName, NameError> {
    // The id is checked first, so that the error names the given text.
    SourceName::new(node)?;
    SourceName::new(format!("{NODE_SOURCE_PREFIX}{node}"))
}

/// A registered tool as a catalog item.
pub(crate) struct ConvertedTool {
    pub(crate) item: Tool,
    /// Warnings about its `input_spec`.
    pub(crate) warnings: Vec<String>,
}

/// Converts a registered tool.
pub(crate) fn convert_tool(tool: &NodeTool, read_only: bool) -> Result<ConvertedTool, NameError> {
    let converted = input_spec::to_json_schema(&tool.input_spec);
    let item = Tool {
        name: ToolName::new(&tool.name)?,
        title: None,
        description: tool.description.clone(),
        input_schema: converted.schema,
        output_schema: None,
        traits: tool_traits(read_only),
        raw_definition: pinned_definition(tool),
    };
    Ok(ConvertedTool { item, warnings: converted.warnings })
}

/// Returns the traits of a node's tool. Guests may not call it, because it runs on the node's
/// machine. Its effects are unknown, unless the operator lists it as read-only.
fn tool_traits(read_only: bool) -> ToolTraits {
    let effects = if read_only { SideEffects::read_only() } else { SideEffects::Unknown };
    ToolTraits {
        min_level: PermissionLevel::User,
        effects,
        is_idempotent: read_only,
        ..ToolTraits::default()
    }
}

/// Returns the definition that is pinned: everything except the node, so that it is equal on every
/// node.
pub(crate) fn pinned_definition(tool: &NodeTool) -> Json {
    Json::object_from([
        ("name", &Json::encode(&tool.name)),
        ("description", &Json::encode(&tool.description)),
        ("input_spec", &tool.input_spec),
        ("metadata", &tool.metadata.without_member("node_id")),
    ])
}

impl Source for NodeSource {
    fn name(&self) -> &SourceName {
        &self.name
    }

    fn list_offers(&self) -> BoxFuture<'_, Result<SourceListing, SourceError>> {
        Box::pin(std::future::ready(Ok(self.build_listing())))
    }

    fn wait_for_change(&self, seen: SourceRevision) -> BoxFuture<'_, SourceRevision> {
        Box::pin(self.context.wait_for_change(&self.node, seen))
    }

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
