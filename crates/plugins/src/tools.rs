//! `list_plugins` and `reload_plugins`: what an agent sees of the plugins, in spec 3's shapes.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tool::plugin::{PluginState, Reloaded};
use tool::{
    Boxed, Call, Effect, Effects, Executor, Item, Json, Level, Listing, Offer, Outcome, Revision,
    Source, SourceError, SourceName, Tool, ToolName, Traits,
};

/// Offers both. What runs them acts on behalf of its caller, and is given.
#[derive(Debug)]
pub struct PluginTools {
    name: SourceName,
    list: Arc<dyn Executor>,
    reload: Arc<dyn Executor>,
}

#[derive(Debug, Clone, Copy)]
enum Does {
    List,
    Reload,
}

impl PluginTools {
    /// The source `plugins`, with what runs `list_plugins` and `reload_plugins`.
    pub fn new(list: Arc<dyn Executor>, reload: Arc<dyn Executor>) -> Self {
        Self { name: name(), list, reload }
    }

    fn offer(&self, does: Does) -> Option<Offer> {
        let (name, description, input, traits) = said(does);
        let received = json!({"name": name, "description": description, "parameters": input});
        let tool = Tool {
            name: ToolName::new(name).ok()?,
            title: None,
            description: description.to_owned(),
            input: Json::of(&input),
            output: None,
            traits,
            received: Json::of(&received),
        };
        let executor = match does {
            Does::List => &self.list,
            Does::Reload => &self.reload,
        };
        Some(Offer { item: Item::Tool(Arc::new(tool)), executor: Arc::clone(executor) })
    }
}

#[expect(clippy::expect_used, reason = "the name is a constant, and a test makes the source")]
fn name() -> SourceName {
    SourceName::new("plugins").expect("a valid name")
}

fn said(does: Does) -> (&'static str, &'static str, Value, Traits) {
    let object = |properties: Value| json!({"type": "object", "properties": properties, "additionalProperties": false});
    let traits = |effects| Traits {
        level: Level::User,
        categories: vec!["system".to_owned()],
        effects: Effects::Declared(vec![effects]),
        idempotent: true,
        ..Traits::default()
    };
    match does {
        Does::List => (
            "list_plugins",
            "Lists the plugins that you can use: their tools, and whether each is enabled.",
            object(json!({"enabled_only": {"type": "boolean", "default": true,
                "description": "Leave out plugins and tools that are switched off"}})),
            traits(Effect::ReadOnly),
        ),
        Does::Reload => (
            "reload_plugins",
            "Scans the folders of all plugins now and loads what changed. A broken change is not loaded. Needs the right `sources:refresh`.",
            object(json!({})),
            traits(Effect::SystemState),
        ),
    }
}

/// What `list_plugins` answers to `call`, of the plugins that its caller may know of.
pub fn listed_plugins(call: &Call, visible: Vec<PluginState>) -> Outcome {
    let asked = call.args.value().get("enabled_only").and_then(Value::as_bool);
    Outcome::value(Json::of(&listed(visible, asked.unwrap_or(true))))
}

/// What `reload_plugins` answers.
pub fn reloaded_plugins(done: &Reloaded) -> Outcome {
    let count = done.reloaded.len();
    let many = if count == 1 { "" } else { "s" };
    let failed = match done.failed.as_slice() {
        [] => String::new(),
        names => format!("; not taken: {}", names.join(", ")),
    };
    let message = format!("Reloaded {count} plugin{many}{failed}");
    let body = json!({"status": "success", "reloaded": count, "message": message});
    Outcome::value(Json::of(&body))
}

/// Spec 3's answer.
fn listed(plugins: Vec<PluginState>, enabled_only: bool) -> Value {
    let mut all = Map::new();
    let mut count = 0;
    for plugin in plugins {
        if enabled_only && !plugin.enabled {
            continue;
        }
        let tools = plugin.tools.iter().filter(|tool| tool.enabled || !enabled_only);
        let names: Vec<_> = tools.map(|tool| tool.name.clone()).collect();
        count += names.len();
        all.insert(plugin.name, json!({"tools": names, "enabled": plugin.enabled}));
    }
    json!({"status": "success", "plugin_count": all.len(), "tool_count": count, "plugins": all})
}

impl Source for PluginTools {
    fn name(&self) -> &SourceName {
        &self.name
    }

    fn list(&self) -> Boxed<'_, Result<Listing, SourceError>> {
        let offers = [Does::List, Does::Reload].into_iter().filter_map(|does| self.offer(does));
        let listing =
            Listing { revision: Revision(1), offers: offers.collect(), ..Listing::default() };
        Box::pin(std::future::ready(Ok(listing)))
    }

    fn changed(&self, seen: Revision) -> Boxed<'_, Revision> {
        if seen == Revision(1) {
            Box::pin(std::future::pending())
        } else {
            Box::pin(std::future::ready(Revision(1)))
        }
    }

    fn close(&self) -> Boxed<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
