//! `bench formats`: time to render a catalog in each provider's format, without network.
//!
//! Cold renders every tool and joins the list, as after a change of the catalog. Warm joins already
//! rendered tools, as for callers with other rights. A cached list costs neither.

use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use formats::{AliasMap, ProviderFormat, join_tools, render_tool};
use tool::{Json, JsonLimits, Tool, ToolName, ToolTraits};

const USAGE: &str = "usage: cargo xtask bench formats [FILE]

  FILE   one definition a line, {\"name\", \"description\", \"parameters\"}; made-up ones where absent";

/// Number of tools in the list.
const TOOL_COUNT: usize = 1_000;
/// Number of rounds; the report shows the median.
const ROUNDS: usize = 31;

/// Schemas as MCP servers write them, from the plain to the hard.
const SCHEMA_SHAPES: &[&str] = &[
    r#"{"type":"object","properties":{"path":{"type":"string","description":"The file to read."},"head":{"type":"number","description":"So many lines of its beginning."}},"required":["path"],"additionalProperties":false,"$schema":"http://json-schema.org/draft-07/schema#"}"#,
    r#"{"type":"object","title":"searchArguments","properties":{"query":{"type":"string","title":"Query"},"limit":{"type":"integer","title":"Limit","default":10,"minimum":1,"maximum":100},"since":{"anyOf":[{"type":"string","format":"date-time"},{"type":"null"}],"title":"Since","default":null}},"required":["query"]}"#,
    r##"{"type":"object","properties":{"issue":{"$ref":"#/$defs/Issue"},"labels":{"type":"array","items":{"type":"string"}}},"required":["issue"],"$defs":{"Issue":{"type":"object","properties":{"title":{"type":"string","minLength":1},"state":{"enum":["open","closed"]},"parent":{"anyOf":[{"type":"integer"},{"type":"null"}]}},"required":["title"]}}}"##,
    r#"{"type":"object","properties":{}}"#,
];

/// Runs the benchmark and prints the table.
pub(crate) fn run_format_bench(flags: &[&str]) -> Result<(), String> {
    let tools = match flags {
        [] => (0..TOOL_COUNT).map(sample_tool).collect::<Result<Vec<_>, _>>()?,
        [file] if !file.starts_with('-') => read_definitions(file)?,
        _ => return Err(USAGE.to_owned()),
    };
    let names = AliasMap::with_safe_aliases(tools.iter().map(|tool| tool.name.as_str()));
    println!("{} tools\n", tools.len());
    println!("| format | cold, ms | warm, µs | KiB | with losses | left out |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for format in ProviderFormat::ALL {
        let all = || {
            let one = |tool: &Tool| {
                let name = tool.name.as_str();
                render_tool(*format, tool, names.alias_of(name).unwrap_or(name))
            };
            tools.iter().map(one).collect::<Vec<_>>()
        };
        let joined = |rendered: &[formats::RenderedTool]| {
            join_tools(*format, rendered.iter().filter_map(|tool| tool.json.as_ref()))
        };
        let cold = median_time(|| drop(black_box(joined(&all()))));
        let rendered = all();
        let warm = median_time(|| drop(black_box(joined(black_box(&rendered)))));
        let size = joined(&rendered).bytes().len() / 1024;
        let lossy = rendered.iter().filter(|tool| !tool.losses.is_empty()).count();
        let left_out = rendered.iter().filter(|tool| tool.json.is_none()).count();
        let (cold, warm) = (cold.as_secs_f64() * 1e3, warm.as_secs_f64() * 1e6);
        println!("| {format} | {cold:.1} | {warm:.0} | {size} | {lossy} | {left_out} |");
    }
    Ok(())
}

fn median_time(work: impl Fn()) -> Duration {
    let mut times: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let begun = Instant::now();
            work();
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    times.get(ROUNDS / 2).copied().unwrap_or_default()
}

fn sample_tool(at: usize) -> Result<Tool, String> {
    let schema = SCHEMA_SHAPES.get(at % SCHEMA_SHAPES.len()).copied().unwrap_or_default();
    let input = Json::parse(schema, JsonLimits::DEFINITION).map_err(|error| error.to_string())?;
    let description = "Does one thing, and says in two lines which, so that a model may choose it.";
    build_tool(at, description.to_owned(), input)
}

fn build_tool(at: usize, description: String, input: Json) -> Result<Tool, String> {
    let name = ToolName::new(format!("server.tool_{at}")).map_err(|error| error.to_string())?;
    let (traits, received) = (ToolTraits::default(), Json::empty_object());
    Ok(Tool {
        name,
        title: None,
        description,
        input_schema: input,
        output_schema: None,
        traits,
        raw_definition: received,
    })
}

/// Reads the first definitions of a file that have a schema.
fn read_definitions(file: &str) -> Result<Vec<Tool>, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("`{file}`: {error}"))?;
    let line = |(at, line): (usize, &str)| {
        let row = Json::parse(line.to_owned(), JsonLimits::DEFINITION).ok()?;
        let description = row.get("description")?.decode().unwrap_or_default();
        let input = row.get("parameters").filter(|schema| schema.kind() == "object")?;
        Some(build_tool(at, description, input))
    };
    text.lines().enumerate().filter_map(line).take(TOOL_COUNT).collect()
}
