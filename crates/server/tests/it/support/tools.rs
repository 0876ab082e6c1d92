//! The tools of a test's server.

use std::sync::Arc;

use serde_json::{Value, json};
use testkit::executor::{Scripted, echo};
use tool::{Body, Code, Executor, Item, Json, Level, Limits, Offer, Outcome, Safety, Step, Tool};

use super::executors::Failing;

pub(crate) fn offer(tool: Tool, executor: Arc<dyn Executor>) -> Offer {
    Offer { item: Item::Tool(Arc::new(tool)), executor }
}

/// A tool that takes an integer `n` or nothing.
pub(crate) fn tool(name: &str) -> Tool {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "maximum": 10}}});
    testkit::tool(name, &format!("The tool {name}."), &schema)
}

pub(crate) fn with(name: &str, change: impl FnOnce(&mut Tool)) -> Tool {
    let mut tool = tool(name);
    change(&mut tool);
    tool
}

/// A tool as an MCP server defines it.
pub(crate) fn received(definition: &Value) -> Tool {
    let name = definition["name"].as_str().unwrap();
    let description = definition["description"].as_str().unwrap();
    let mut tool = testkit::tool(name, description, &definition["inputSchema"]);
    tool.received = Json::of(definition);
    tool
}

fn answers(outcome: impl Fn() -> Outcome + Send + Sync + 'static) -> Arc<dyn Executor> {
    Arc::new(Scripted::new(move |_| Ok(Step::Done(outcome()))))
}

pub(crate) const MCP_RESULT: &str = r#"{"content":[{"type":"text","text":"found"},{"type":"image","data":"AA==","mimeType":"image/png"}],"structuredContent":{"n":1.0},"_meta":{"a.b/c":true}}"#;

/// One of each kind: levels, decisions, outcomes.
pub(crate) fn standard() -> Vec<Offer> {
    let level = |level: Level| {
        let name = format!("needs.{level}");
        offer(with(&name, |t| t.traits.level = level), echo())
    };
    let mut offers: Vec<_> = Level::ALL.iter().copied().map(level).collect();
    let mcp = || {
        let json = Json::check(MCP_RESULT, Limits::DOCUMENT).unwrap();
        Outcome { body: Body::Mcp(json), is_error: false }
    };
    let region = json!({
        "name": "region", "description": "Has a parameter that goes into a header.",
        "inputSchema": {"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"}}},
    });
    offers.extend([
        offer(tool("notes.append"), echo()),
        offer(with("dangerous", |t| t.traits.safety = Safety::Dangerous), echo()),
        offer(with("destructive", |t| t.traits.destructive = true), echo()),
        offer(tool("says_error"), answers(|| Outcome::failed("no such note"))),
        offer(tool("fails"), Arc::new(Failing(Code::UpstreamFailed, "it answered 500"))),
        offer(tool("mcp_result"), answers(mcp)),
        offer(received(&region), echo()),
    ]);
    offers
}

/// So many tools, each a guest's.
pub(crate) fn many(count: usize) -> Vec<Offer> {
    (0..count).map(|i| offer(tool(&format!("many.t{i:05}")), echo())).collect()
}

/// A method of MCP's, by its name of `tool::METHODS`.
pub(crate) fn method(name: &str, executor: Arc<dyn Executor>) -> Offer {
    let mut method = testkit::tool(name, "", &json!({"type": "object"}));
    method.traits.effects = tool::Effects::read_only();
    Offer { item: Item::Method(Arc::new(method)), executor }
}

/// A tool as an MCP server offers it: `s.own`, with its own definition.
pub(crate) fn of_server(definition: &Value, executor: Arc<dyn Executor>) -> Offer {
    let mut tool = received(definition);
    tool.name = tool::ToolName::new(format!("s.{}", definition["name"].as_str().unwrap())).unwrap();
    offer(tool, executor)
}

pub(crate) fn prompt(definition: &Value) -> Offer {
    let name = tool::ToolName::new(format!("s.{}", definition["name"].as_str().unwrap())).unwrap();
    let prompt = tool::Prompt { name, received: Json::of(definition) };
    Offer { item: Item::Prompt(prompt), executor: echo() }
}

pub(crate) fn resource(definition: &Value) -> Offer {
    let template = definition.get("uriTemplate").is_some();
    let uri = definition[if template { "uriTemplate" } else { "uri" }].as_str().unwrap().to_owned();
    let resource = tool::Resource { uri, template, received: Json::of(definition) };
    Offer { item: Item::Resource(resource), executor: echo() }
}
