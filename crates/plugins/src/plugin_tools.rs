//! The built-in tools `list_plugins` and `reload_plugins`, with the research registry's results.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tool::plugin_admin::{PluginStatus, ReloadReport};
use tool::{
    BoxFuture, CatalogItem, Executor, Json, Offer, Outcome, PermissionLevel, SideEffect,
    SideEffects, Source, SourceError, SourceListing, SourceName, SourceRevision, Tool, ToolCall,
    ToolName, ToolTraits,
};

/// Source of the tools `list_plugins` and `reload_plugins`. Their executors act on behalf of the
/// caller.
#[derive(Debug)]
pub struct PluginTools {
    name: SourceName,
    list_executor: Arc<dyn Executor>,
    reload_executor: Arc<dyn Executor>,
}

#[derive(Debug, Clone, Copy)]
enum AdminTool {
    List,
    Reload,
}

impl PluginTools {
    /// Creates the source `plugins` with the executors of `list_plugins` and `reload_plugins`.
    pub fn new(list: Arc<dyn Executor>, reload: Arc<dyn Executor>) -> Self {
        Self { name: source_name(), list_executor: list, reload_executor: reload }
    }

    fn catalog_item(&self, does: AdminTool) -> Option<Offer> {
        let (name, description, input, traits) = tool_definition(does);
        let received = json!({"name": name, "description": description, "parameters": input});
        let tool = Tool {
            name: ToolName::new(name).ok()?,
            title: None,
            description: description.to_owned(),
            input_schema: Json::encode(&input),
            output_schema: None,
            traits,
            raw_definition: Json::encode(&received),
        };
        let executor = match does {
            AdminTool::List => &self.list_executor,
            AdminTool::Reload => &self.reload_executor,
        };
        Some(Offer { item: CatalogItem::Tool(Arc::new(tool)), executor: Arc::clone(executor) })
    }
}

#[expect(clippy::expect_used, reason = "the name is a constant, and a test makes the source")]
fn source_name() -> SourceName {
    SourceName::new("plugins").expect("a valid name")
}

fn tool_definition(does: AdminTool) -> (&'static str, &'static str, Value, ToolTraits) {
    let object = |properties: Value| json!({"type": "object", "properties": properties, "additionalProperties": false});
    let traits = |effects| ToolTraits {
        min_level: PermissionLevel::User,
        categories: vec!["system".to_owned()],
        effects: SideEffects::Declared(vec![effects]),
        is_idempotent: true,
        ..ToolTraits::default()
    };
    match does {
        AdminTool::List => (
            "list_plugins",
            "Lists the plugins that you can use, with their tools and whether each is enabled.",
            object(json!({"enabled_only": {"type": "boolean", "default": true,
                "description": "Omits disabled plugins and tools."}})),
            traits(SideEffect::ReadOnly),
        ),
        AdminTool::Reload => (
            "reload_plugins",
            "Rescans all plugin folders, loads what changed and returns the number of reloaded plugins. A broken change is not loaded. Needs the right `sources:refresh`.",
            object(json!({})),
            traits(SideEffect::SystemState),
        ),
    }
}

/// Returns the result of `list_plugins` with the plugins that are visible to its caller.
pub fn list_plugins_outcome(call: &ToolCall, visible: Vec<PluginStatus>) -> Outcome {
    let requested = call.arguments.as_value().get("enabled_only").and_then(Value::as_bool);
    Outcome::from_value(Json::encode(&plugins_json(visible, requested.unwrap_or(true))))
}

/// Returns the result of `reload_plugins`.
pub fn reload_plugins_outcome(report: &ReloadReport) -> Outcome {
    let count = report.reloaded.len();
    let many = if count == 1 { "" } else { "s" };
    let failed = match report.failed.as_slice() {
        [] => String::new(),
        names => format!("; not reloaded: {}", names.join(", ")),
    };
    let message = format!("Reloaded {count} plugin{many}{failed}");
    let body = json!({"status": "success", "reloaded": count, "message": message});
    Outcome::from_value(Json::encode(&body))
}

/// Result in the research registry's format.
fn plugins_json(plugins: Vec<PluginStatus>, enabled_only: bool) -> Value {
    let mut all = Map::new();
    let mut count = 0;
    for plugin in plugins {
        if enabled_only && !plugin.is_enabled {
            continue;
        }
        let tools = plugin.tools.iter().filter(|tool| tool.is_enabled || !enabled_only);
        let names: Vec<_> = tools.map(|tool| tool.name.clone()).collect();
        count += names.len();
        all.insert(plugin.name, json!({"tools": names, "enabled": plugin.is_enabled}));
    }
    json!({"status": "success", "plugin_count": all.len(), "tool_count": count, "plugins": all})
}

impl Source for PluginTools {
    fn name(&self) -> &SourceName {
        &self.name
    }

    fn list_offers(&self) -> BoxFuture<'_, Result<SourceListing, SourceError>> {
        let offers = [AdminTool::List, AdminTool::Reload]
            .into_iter()
            .filter_map(|does| self.catalog_item(does));
        let listing = SourceListing {
            revision: SourceRevision(1),
            offers: offers.collect(),
            ..SourceListing::default()
        };
        Box::pin(std::future::ready(Ok(listing)))
    }

    fn wait_for_change(&self, known_revision: SourceRevision) -> BoxFuture<'_, SourceRevision> {
        if known_revision == SourceRevision(1) {
            Box::pin(std::future::pending())
        } else {
            Box::pin(std::future::ready(SourceRevision(1)))
        }
    }

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
