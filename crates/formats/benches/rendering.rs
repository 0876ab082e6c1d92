//! Time to render 1,000 tools in each provider's format: `cargo bench -p formats`.
//!
//! `cold` renders every tool and joins the list, as after a change of the catalog. `warm` joins rendered tools, as for callers with other rights. A
//! cached list costs neither.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a bench that cannot measure has nothing else to do"
)]

use divan::Bencher;
use divan::counter::BytesCount;
use formats::{AliasMap, ProviderFormat, RenderedTool, join_tools, render_tool};
use tool::{Json, JsonLimits, Tool, ToolName, ToolTraits};

/// Number of tools in the list.
const TOOL_COUNT: usize = 1_000;

/// Schemas as MCP servers write them, from the plain to the hard.
const SCHEMA_SHAPES: &[&str] = &[
    r#"{"type":"object","properties":{"path":{"type":"string","description":"The file to read."},"head":{"type":"number","description":"So many lines of its beginning."}},"required":["path"],"additionalProperties":false,"$schema":"http://json-schema.org/draft-07/schema#"}"#,
    r#"{"type":"object","title":"searchArguments","properties":{"query":{"type":"string","title":"Query"},"limit":{"type":"integer","title":"Limit","default":10,"minimum":1,"maximum":100},"since":{"anyOf":[{"type":"string","format":"date-time"},{"type":"null"}],"title":"Since","default":null}},"required":["query"]}"#,
    r##"{"type":"object","properties":{"issue":{"$ref":"#/$defs/Issue"},"labels":{"type":"array","items":{"type":"string"}}},"required":["issue"],"$defs":{"Issue":{"type":"object","properties":{"title":{"type":"string","minLength":1},"state":{"enum":["open","closed"]},"parent":{"anyOf":[{"type":"integer"},{"type":"null"}]}},"required":["title"]}}}"##,
    r#"{"type":"object","properties":{}}"#,
];

fn main() {
    divan::main();
}

#[divan::bench(args = ProviderFormat::ALL)]
fn cold(bencher: Bencher<'_, '_>, format: ProviderFormat) {
    let tools: Vec<Tool> = (0..TOOL_COUNT).map(sample_tool).collect();
    let aliases = AliasMap::with_safe_aliases(tools.iter().map(|tool| tool.name.as_str()));
    let size = join_rendered(format, &render_all(format, &tools, &aliases)).bytes().len();
    bencher
        .counter(BytesCount::new(size))
        .bench(|| join_rendered(format, &render_all(format, &tools, &aliases)));
}

#[divan::bench(args = ProviderFormat::ALL)]
fn warm(bencher: Bencher<'_, '_>, format: ProviderFormat) {
    let tools: Vec<Tool> = (0..TOOL_COUNT).map(sample_tool).collect();
    let aliases = AliasMap::with_safe_aliases(tools.iter().map(|tool| tool.name.as_str()));
    let rendered = render_all(format, &tools, &aliases);
    bencher
        .counter(BytesCount::new(join_rendered(format, &rendered).bytes().len()))
        .bench(|| join_rendered(format, &rendered));
}

fn render_all(format: ProviderFormat, tools: &[Tool], aliases: &AliasMap) -> Vec<RenderedTool> {
    let render = |tool: &Tool| {
        let name = tool.name.as_str();
        render_tool(format, tool, aliases.alias_of(name).unwrap_or(name))
    };
    tools.iter().map(render).collect()
}

fn join_rendered(format: ProviderFormat, rendered: &[RenderedTool]) -> Json {
    join_tools(format, rendered.iter().filter_map(|tool| tool.json.as_ref()))
}

fn sample_tool(number: usize) -> Tool {
    let schema = SCHEMA_SHAPES[number % SCHEMA_SHAPES.len()];
    Tool {
        name: ToolName::new(format!("server.tool_{number}")).unwrap(),
        title: None,
        description: "Does one thing, and says in two lines which, so that a model may choose it."
            .to_owned(),
        input_schema: Json::parse(schema, JsonLimits::DEFINITION).unwrap(),
        output_schema: None,
        traits: ToolTraits::default(),
        raw_definition: Json::empty_object(),
    }
}
