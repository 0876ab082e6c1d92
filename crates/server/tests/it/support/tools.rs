//! Tools of the server fixture.

use std::sync::Arc;

use serde_json::{Value, json};
use testkit::executor::{MockExecutor, echo_executor};
use tool::{
    CatalogItem, ErrorCode, ExecutionState, Executor, Json, JsonLimits, Offer, Outcome,
    OutcomeBody, PermissionLevel, SafetyLevel, Tool,
};

use super::executors::FailingExecutor;

pub(crate) fn tool_offer(tool: Tool, executor: Arc<dyn Executor>) -> Offer {
    Offer { item: CatalogItem::Tool(Arc::new(tool)), executor }
}

/// A tool that takes an integer `n` or nothing.
pub(crate) fn test_tool(name: &str) -> Tool {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "maximum": 10}}});
    testkit::read_only_tool(name, &format!("The tool {name}."), &schema)
}

pub(crate) fn tool_with(name: &str, change: impl FnOnce(&mut Tool)) -> Tool {
    let mut tool = test_tool(name);
    change(&mut tool);
    tool
}

/// A tool as an MCP server defines it.
pub(crate) fn received_tool(definition: &Value) -> Tool {
    let name = definition["name"].as_str().unwrap();
    let description = definition["description"].as_str().unwrap();
    let mut tool = testkit::read_only_tool(name, description, &definition["inputSchema"]);
    tool.raw_definition = Json::encode(definition);
    tool
}

fn fixed_executor(outcome: impl Fn() -> Outcome + Send + Sync + 'static) -> Arc<dyn Executor> {
    Arc::new(MockExecutor::new(move |_| Ok(ExecutionState::Completed(outcome()))))
}

pub(crate) const MCP_RESULT: &str = r#"{"content":[{"type":"text","text":"found"},{"type":"image","data":"AA==","mimeType":"image/png"}],"structuredContent":{"n":1.0},"_meta":{"a.b/c":true}}"#;

/// One of each kind: levels, decisions, outcomes.
pub(crate) fn standard_offers() -> Vec<Offer> {
    let level = |level: PermissionLevel| {
        let name = format!("needs.{level}");
        tool_offer(tool_with(&name, |t| t.traits.min_level = level), echo_executor())
    };
    let mut offers: Vec<_> = PermissionLevel::ALL.iter().copied().map(level).collect();
    let mcp = || {
        let json = Json::parse(MCP_RESULT, JsonLimits::DOCUMENT).unwrap();
        Outcome { body: OutcomeBody::Mcp(json), is_error: false }
    };
    let region = json!({
        "name": "region", "description": "Has a parameter that goes into a header.",
        "inputSchema": {"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"}}},
    });
    offers.extend([
        tool_offer(test_tool("notes.append"), echo_executor()),
        tool_offer(
            tool_with("dangerous", |t| t.traits.safety = SafetyLevel::Dangerous),
            echo_executor(),
        ),
        tool_offer(tool_with("destructive", |t| t.traits.is_destructive = true), echo_executor()),
        tool_offer(
            test_tool("says_error"),
            fixed_executor(|| Outcome::tool_failure("no such note")),
        ),
        tool_offer(
            test_tool("fails"),
            Arc::new(FailingExecutor(ErrorCode::UpstreamFailed, "it answered 500")),
        ),
        tool_offer(test_tool("mcp_result"), fixed_executor(mcp)),
        tool_offer(received_tool(&region), echo_executor()),
    ]);
    offers
}

/// So many tools, each a guest's.
pub(crate) fn many_offers(count: usize) -> Vec<Offer> {
    (0..count).map(|i| tool_offer(test_tool(&format!("many.t{i:05}")), echo_executor())).collect()
}

/// A method of MCP's, by its name of `tool::METHODS`.
pub(crate) fn method_offer(name: &str, executor: Arc<dyn Executor>) -> Offer {
    let mut method = testkit::read_only_tool(name, "", &json!({"type": "object"}));
    method.traits.effects = tool::SideEffects::read_only();
    Offer { item: CatalogItem::Method(Arc::new(method)), executor }
}

/// A tool as an MCP server offers it: `s.own`, with its own definition.
pub(crate) fn server_offer(definition: &Value, executor: Arc<dyn Executor>) -> Offer {
    let mut tool = received_tool(definition);
    tool.name = tool::ToolName::new(format!("s.{}", definition["name"].as_str().unwrap())).unwrap();
    tool_offer(tool, executor)
}

pub(crate) fn prompt_offer(definition: &Value) -> Offer {
    prompt_offer_of("s", definition)
}

/// A prompt of this source.
pub(crate) fn prompt_offer_of(source: &str, definition: &Value) -> Offer {
    let name = format!("{source}.{}", definition["name"].as_str().unwrap());
    let name = tool::ToolName::new(name).unwrap();
    let prompt = tool::Prompt { name, raw_definition: Json::encode(definition) };
    Offer { item: CatalogItem::Prompt(prompt), executor: echo_executor() }
}

/// An event type of this source.
pub(crate) fn event_offer(source: &str, definition: &Value) -> Offer {
    let name = format!("{source}.{}", definition["name"].as_str().unwrap());
    let has = |mode: &str| definition["delivery"].as_array().unwrap().iter().any(|it| it == mode);
    let event = tool::EventType {
        name: tool::ToolName::new(name).unwrap(),
        delivery: tool::EventDelivery { has_poll: has("poll"), has_push: has("push") },
        raw_definition: Json::encode(definition),
    };
    Offer { item: CatalogItem::Event(event), executor: echo_executor() }
}

/// A skill with these files, besides its `SKILL.md`, whose content is its name.
pub(crate) fn skill_offer(directory: &str, description: &str, files: &[&str]) -> Offer {
    let uri = format!("{directory}/SKILL.md");
    let name = directory.rsplit('/').next().unwrap();
    let uris = files.iter().map(|file| format!("{directory}/{file}"));
    let file = |uri: String| {
        let digest = tool::Digest([u8::try_from(description.len()).unwrap(); 32]);
        tool::SkillFile { uri, digest, size: 1 }
    };
    let files: Vec<_> = std::iter::once(uri.clone()).chain(uris).map(file).collect();
    let listed: Vec<_> = files
        .iter()
        .map(|it| json!({"uri": it.uri, "digest": it.digest.to_string(), "size": it.size}))
        .collect();
    let entry = json!({"uri": uri, "frontmatter": {"name": name, "description": description},
        "resources": listed});
    let skill = tool::Skill { uri, files: Some(files), raw_definition: Json::encode(&entry) };
    Offer { item: CatalogItem::Skill(skill), executor: echo_executor() }
}

pub(crate) fn resource_offer(definition: &Value) -> Offer {
    let template = definition.get("uriTemplate").is_some();
    let uri = definition[if template { "uriTemplate" } else { "uri" }].as_str().unwrap().to_owned();
    let resource =
        tool::Resource { uri, is_template: template, raw_definition: Json::encode(definition) };
    Offer { item: CatalogItem::Resource(resource), executor: echo_executor() }
}
