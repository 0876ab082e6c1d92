//! A node as a source.

use std::collections::BTreeSet;
use std::sync::Arc;

use tool::node::{NodeTool, PREFIX, Stale};
use tool::{
    Boxed, Effects, Item, Json, Level, Listing, NameError, Offer, Problem, Revision, Source,
    SourceError, SourceName, Tool, ToolName, Traits,
};

use crate::execute::Execute;
use crate::input_spec;
use crate::registry::Shared;

/// The tools that change nothing, by the operator's word: a node's own about its tools counts for
/// nothing. A name is meant as the tool of the node that owns it, which is shared with others at most by
/// that node's own word.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ReadOnly {
    /// All.
    All,
    /// These: `TOOL` of whichever node owns the name, `NODE/TOOL` if that node does, or all that a node
    /// owns: `NODE/*`.
    Named(BTreeSet<String>),
}

impl Default for ReadOnly {
    /// None is known.
    fn default() -> Self {
        Self::Named(BTreeSet::new())
    }
}

impl ReadOnly {
    fn holds(&self, owner: &str, tool: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => {
                let of_owner = |tool: &str| names.contains(&format!("{owner}/{tool}"));
                !names.is_empty() && (names.contains(tool) || of_owner(tool) || of_owner("*"))
            }
        }
    }
}

/// What one node registered.
#[derive(Debug)]
pub struct NodeSource {
    name: SourceName,
    node: String,
    shared: Arc<Shared>,
}

impl NodeSource {
    pub(crate) fn new(node: &str, shared: Arc<Shared>) -> Result<Self, NameError> {
        let name = source_name(node)?;
        Ok(Self { name, node: node.to_owned(), shared })
    }

    fn listing(&self) -> Listing {
        let (revision, tools) = self.shared.listed(&self.node);
        let read_only = self.shared.read_only.load();
        let mut listing = Listing { revision, ..Listing::default() };
        if let Some(Stale { since, why }) = self.shared.stale() {
            listing.stale_since = Some(since);
            listing.problems.push(
                Problem::new("the registry of nodes", why)
                    .fix("nothing need be done here: it is read again as soon as it answers"),
            );
        }
        for tool in &tools {
            if let Err(fault) = self.shared.may_have(tool) {
                let fix = "have the node register the tool under another name, or share it";
                listing.problems.push(Problem::new(tool.name.clone(), fault.to_string()).fix(fix));
                continue;
            }
            let owner = self.shared.owner_of(tool);
            let (item, told) = match item(tool, read_only.holds(&owner, &tool.name)) {
                Ok(read) => read,
                // It was checked when it was registered; a newer Toolkeep may have written it.
                Err(error) => {
                    listing.problems.push(Problem::new(tool.name.clone(), error.to_string()));
                    continue;
                }
            };
            listing.problems.extend(told.into_iter().map(|what| {
                Problem::new(format!("{}: input_spec", tool.name), what)
                    .fix("name one of string, integer, number, boolean, object, array, or write JSON Schema")
            }));
            let (node, shared) = (self.node.clone(), Arc::clone(&self.shared));
            let executor = Arc::new(Execute { node, shared });
            listing.offers.push(Offer { item: Item::Tool(Arc::new(item)), executor });
        }
        listing
    }
}

/// The name of a node's source.
pub(crate) fn source_name(node: &str) -> Result<SourceName, NameError> {
    // The id itself first: the error then names what was written.
    SourceName::new(node)?;
    SourceName::new(format!("{PREFIX}{node}"))
}

/// The definition, and what is said of its `input_spec`.
pub(crate) fn item(tool: &NodeTool, read_only: bool) -> Result<(Tool, Vec<String>), NameError> {
    let read = input_spec::schema(&tool.input_spec);
    let item = Tool {
        name: ToolName::new(&tool.name)?,
        title: None,
        description: tool.description.clone(),
        input: read.schema,
        output: None,
        traits: traits(read_only),
        received: definition(tool),
    };
    Ok((item, read.unknown))
}

/// A node's tools reach into its machine: nobody's guest calls them. What they do is unknown, where the
/// operator does not say that it is nothing.
fn traits(read_only: bool) -> Traits {
    let effects = if read_only { Effects::read_only() } else { Effects::Unknown };
    Traits { level: Level::User, effects, idempotent: read_only, ..Traits::default() }
}

/// What a pin holds on to: all but where the tool is, so that it is the same on every node.
pub(crate) fn definition(tool: &NodeTool) -> Json {
    Json::fields([
        ("name", &Json::of(&tool.name)),
        ("description", &Json::of(&tool.description)),
        ("input_spec", &tool.input_spec),
        ("metadata", &tool.metadata.without("node_id")),
    ])
}

impl Source for NodeSource {
    fn name(&self) -> &SourceName {
        &self.name
    }

    fn list(&self) -> Boxed<'_, Result<Listing, SourceError>> {
        Box::pin(std::future::ready(Ok(self.listing())))
    }

    fn changed(&self, seen: Revision) -> Boxed<'_, Revision> {
        Box::pin(self.shared.changed(&self.node, seen))
    }

    fn close(&self) -> Boxed<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
