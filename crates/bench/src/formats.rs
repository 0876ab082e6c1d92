//! `bench formats`: what it costs to write a catalog as a provider wants it, within the program: there is
//! no network in these figures.
//!
//! Cold is every tool rendered and the list joined, as after a change of the catalog; warm is the list
//! joined from tools that are rendered, as for callers of other rights. A list that was asked for before
//! is kept and costs neither.

use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use formats::{AliasMap, Format, list, render};
use tool::{Json, Limits, Tool, ToolName, Traits};

const USAGE: &str = "usage: cargo xtask bench formats [FILE]

  FILE   one definition a line, {\"name\", \"description\", \"parameters\"}; made-up ones where absent";

/// Tools in the list.
const TOOLS: usize = 1_000;
/// Times that each is done; the median counts.
const ROUNDS: usize = 31;

/// Schemas as MCP servers write them, from the plain to the hard.
const SHAPES: &[&str] = &[
    r#"{"type":"object","properties":{"path":{"type":"string","description":"The file to read."},"head":{"type":"number","description":"So many lines of its beginning."}},"required":["path"],"additionalProperties":false,"$schema":"http://json-schema.org/draft-07/schema#"}"#,
    r#"{"type":"object","title":"searchArguments","properties":{"query":{"type":"string","title":"Query"},"limit":{"type":"integer","title":"Limit","default":10,"minimum":1,"maximum":100},"since":{"anyOf":[{"type":"string","format":"date-time"},{"type":"null"}],"title":"Since","default":null}},"required":["query"]}"#,
    r##"{"type":"object","properties":{"issue":{"$ref":"#/$defs/Issue"},"labels":{"type":"array","items":{"type":"string"}}},"required":["issue"],"$defs":{"Issue":{"type":"object","properties":{"title":{"type":"string","minLength":1},"state":{"enum":["open","closed"]},"parent":{"anyOf":[{"type":"integer"},{"type":"null"}]}},"required":["title"]}}}"##,
    r#"{"type":"object","properties":{}}"#,
];

/// Measures, and prints.
pub(crate) fn run(flags: &[&str]) -> Result<(), String> {
    let tools = match flags {
        [] => (0..TOOLS).map(made_up).collect::<Result<Vec<_>, _>>()?,
        [file] if !file.starts_with('-') => read(file)?,
        _ => return Err(USAGE.to_owned()),
    };
    let names = AliasMap::safe(tools.iter().map(|tool| tool.name.as_str()));
    println!("{} tools\n", tools.len());
    println!("| format | cold, ms | warm, µs | KiB | with losses | left out |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for format in Format::ALL {
        let all = || {
            let one = |tool: &Tool| {
                let name = tool.name.as_str();
                render(*format, tool, names.alias(name).unwrap_or(name))
            };
            tools.iter().map(one).collect::<Vec<_>>()
        };
        let joined = |rendered: &[formats::Rendered]| {
            list(*format, rendered.iter().filter_map(|tool| tool.json.as_ref()))
        };
        let cold = median(|| drop(black_box(joined(&all()))));
        let rendered = all();
        let warm = median(|| drop(black_box(joined(black_box(&rendered)))));
        let size = joined(&rendered).bytes().len() / 1024;
        let lossy = rendered.iter().filter(|tool| !tool.losses.is_empty()).count();
        let left_out = rendered.iter().filter(|tool| tool.json.is_none()).count();
        let (cold, warm) = (cold.as_secs_f64() * 1e3, warm.as_secs_f64() * 1e6);
        println!("| {format} | {cold:.1} | {warm:.0} | {size} | {lossy} | {left_out} |");
    }
    Ok(())
}

fn median(work: impl Fn()) -> Duration {
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

fn made_up(at: usize) -> Result<Tool, String> {
    let schema = SHAPES.get(at % SHAPES.len()).copied().unwrap_or_default();
    let input = Json::check(schema, Limits::DEFINITION).map_err(|error| error.to_string())?;
    let description = "Does one thing, and says in two lines which, so that a model may choose it.";
    named(at, description.to_owned(), input)
}

fn named(at: usize, description: String, input: Json) -> Result<Tool, String> {
    let name = ToolName::new(format!("server.tool_{at}")).map_err(|error| error.to_string())?;
    let (traits, received) = (Traits::default(), Json::empty());
    Ok(Tool { name, title: None, description, input, output: None, traits, received })
}

/// The first definitions of a file that have a schema.
fn read(file: &str) -> Result<Vec<Tool>, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("`{file}`: {error}"))?;
    let line = |(at, line): (usize, &str)| {
        let row = Json::check(line.to_owned(), Limits::DEFINITION).ok()?;
        let description = row.get("description")?.read().unwrap_or_default();
        let input = row.get("parameters").filter(|schema| schema.kind() == "object")?;
        Some(named(at, description, input))
    };
    text.lines().enumerate().filter_map(line).take(TOOLS).collect()
}
