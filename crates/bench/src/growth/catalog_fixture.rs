//! Catalogs of many sources, for the growth benchmark: tools with schemas as usual servers have them.

use std::sync::Arc;

use ::policy::{Policy, PolicyDocument, PolicyLayer, ToolPattern};
use catalog::SourceCatalog;
use identity::{KeyId, KeyRing, NewKey, Principal};
use serde_json::json;
use tool::{
    CatalogItem, Executor, Json, Offer, Org, PermissionLevel, SideEffects, SourceListing,
    SourceName, SourceRevision, SourceTrust, Tool, ToolName, ToolTraits, WallTime,
};

use crate::policy::policy_fixture::echo_executor;

/// The listing of a source, again and again: the executors stay.
#[derive(Debug)]
pub(super) struct ListedSource {
    name: SourceName,
    number: usize,
    tools: usize,
    executor: Arc<dyn Executor>,
}

impl ListedSource {
    pub(super) fn new(number: usize, tools: usize) -> Result<Self, String> {
        let name = SourceName::new(format!("source{number}")).map_err(|error| error.to_string())?;
        Ok(Self { name, number, tools, executor: echo_executor() })
    }

    pub(super) fn name(&self) -> &SourceName {
        &self.name
    }

    /// Lists the tools. `revision` is the text of the first one.
    pub(super) fn list(&self, revision: u64) -> Result<SourceListing, String> {
        let offer = |index: usize| {
            let edition = if index == 0 { revision } else { 0 };
            let tool = build_tool((self.number, index), edition)?;
            let item = CatalogItem::Tool(Arc::new(tool));
            Ok::<_, String>(Offer { item, executor: Arc::clone(&self.executor) })
        };
        let offers = (0..self.tools).map(offer).collect::<Result<_, _>>()?;
        Ok(SourceListing { offers, revision: SourceRevision(revision), ..SourceListing::default() })
    }

    pub(super) fn source_catalog(&self) -> Result<SourceCatalog, String> {
        let empty = SourceCatalog::new_starting(self.name.clone(), "test", SourceTrust::Full);
        Ok(empty.with_listing(&Org::default(), self.list(0)?))
    }
}

/// Returns the name of a tool by its source and its index there.
pub(super) fn tool_name((source, index): (usize, usize)) -> String {
    format!("source{source}.get_item_{index}")
}

fn build_tool(at: (usize, usize), edition: u64) -> Result<Tool, String> {
    let (name, number) = (tool_name(at), at.0 * 31 + at.1);
    let description = format!(
        "Returns item {number} of the inventory with its price, its state and where it is stored, \
         as of edition {edition}. Use it before an order is made."
    );
    let input = json!({
        "type": "object",
        "properties": {
            "id": { "type": "string", "description": format!("Id of the item, below {number}.") },
            "fields": { "type": "array", "items": { "type": "string" }, "maxItems": 20 },
            "currency": { "type": "string", "enum": ["EUR", "USD", "JPY"] },
        },
        "required": ["id"],
    });
    let received = Json::encode(&json!({
        "name": name, "description": description, "inputSchema": input,
    }));
    let traits = ToolTraits {
        min_level: PermissionLevel::Guest,
        effects: SideEffects::read_only(),
        categories: vec!["data".to_owned()],
        ..ToolTraits::default()
    };
    Ok(Tool {
        name: ToolName::new(name).map_err(|error| error.to_string())?,
        title: None,
        description,
        input_schema: received.get("inputSchema").unwrap_or_else(Json::empty_object),
        output_schema: None,
        traits,
        raw_definition: received,
    })
}

/// Builds the sources of this many tools.
pub(super) fn build_sources(
    tools: usize,
    tools_per_source: usize,
) -> Result<Vec<ListedSource>, String> {
    let number = tools / tools_per_source.max(1);
    (0..number.max(1)).map(|number| ListedSource::new(number, tools_per_source)).collect()
}

/// Builds a policy with this many roles, each of which hides one tool from its class.
pub(super) fn build_policy(roles: usize, sources: usize) -> Result<Policy, String> {
    let layer = |at: usize| {
        let hidden = ToolPattern::new(tool_name((at % sources.max(1), at / sources.max(1) + 1)))?;
        Ok::<_, String>(PolicyLayer { deny: vec![hidden], ..PolicyLayer::default() })
    };
    let roles = (0..roles).map(|at| Ok((format!("r{at}"), layer(at)?)));
    let document = PolicyDocument {
        roles: roles.collect::<Result<_, String>>()?,
        ..PolicyDocument::default()
    };
    Policy::new(document).map_err(|diagnostics| format!("{diagnostics:?}"))
}

/// Builds a caller with this role.
pub(super) fn build_caller(role: usize) -> Result<Principal, String> {
    let id = KeyId::new(format!("k{role}")).map_err(|error| error.to_string())?;
    let key = NewKey { roles: vec![format!("r{role}")], ..NewKey::for_user(id, "ann") };
    let (secret, record) = key.issue_key([7; 32], WallTime(0)).map_err(|it| it.to_string())?;
    let ring = KeyRing::new([record]);
    ring.verify_key(Some(secret.expose()), WallTime(1)).map_err(|error| error.to_string())
}
