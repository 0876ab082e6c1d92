//! Parser from a manifest to catalog items. A tool that breaks a rule is reported and ignored; the
//! others stay.
//!
//! The rules stop hostile or mistaken modules. A name outside the module's prefix would take
//! another module's place and permission; an unknown permission would count as guest.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tool::{
    CallerType, Effects, Executor, Item, Json, Level, Limits, Offer, Problem, Tool, ToolName,
    Traits,
};

use super::{ModuleOptions, schema};

/// Maximum tools of one module; the rest is ignored.
pub(super) const MAX_TOOLS: usize = 1_000;
/// Maximum reported problems of one module.
const MAX_PROBLEMS: usize = 100;
/// Margin of the pipeline's limit over the module's own, so that the module's limit ends a call
/// with spec 0's text.
const GRACE: Duration = Duration::from_secs(2);

/// Parses a manifest into offers and problems, whose place is the tool's name.
///
/// An error describes why the whole manifest is invalid.
pub(super) fn read(
    body: &Bytes,
    options: &ModuleOptions,
    executor: Arc<dyn Executor>,
) -> Result<(Vec<Offer>, Vec<Problem>), String> {
    let manifest = Json::check(body.clone(), Limits::DOCUMENT).and_then(Json::object);
    let manifest = manifest.map_err(|error| format!("the manifest cannot be read: {error}"))?;
    let tools = manifest.get("tools").filter(|tools| tools.kind() == "array");
    let tools = tools.ok_or("the manifest has no list `tools`")?.elements();
    let mut reader = Reader { options, offers: Vec::new(), problems: Vec::new(), executor };
    reader.check_name(&manifest);
    let mut names = HashSet::new();
    for entry in tools.iter().take(MAX_TOOLS) {
        match reader.tool(entry) {
            Err(problem) => reader.tell(problem),
            Ok(tool) if names.insert(tool.name.clone()) => {
                let executor = Arc::clone(&reader.executor);
                reader.offers.push(Offer { item: Item::Tool(Arc::new(tool)), executor });
            }
            Ok(tool) => reader.tell(
                Problem::new(
                    tool.name.as_str(),
                    "the manifest has this tool twice; the first stays",
                )
                .fix("rename one of the two"),
            ),
        }
    }
    if tools.len() > MAX_TOOLS {
        let message = format!("{} tools; only the first {MAX_TOOLS} are read", tools.len());
        reader.tell(Problem::new("", message).fix("split the module"));
    }
    Ok((reader.offers, reader.problems))
}

struct Reader<'a> {
    options: &'a ModuleOptions,
    offers: Vec<Offer>,
    problems: Vec<Problem>,
    executor: Arc<dyn Executor>,
}

impl Reader<'_> {
    fn tell(&mut self, problem: Problem) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    /// Reports a manifest whose module name differs; the name has no other effect.
    fn check_name(&mut self, manifest: &Json) {
        let own = manifest.get("module_name").and_then(|name| name.read::<String>().ok());
        let name = &self.options.name;
        if own.as_deref() != Some(name.as_str()) {
            let message = match own {
                None => format!("the manifest has no text `module_name`; expected `{name}`"),
                Some(own) => {
                    format!("the manifest's `module_name` is `{}`; expected `{name}`", shown(&own))
                }
            };
            self.tell(Problem::new("", message).fix("make it the name of the source"));
        }
    }

    fn tool(&self, entry: &Json) -> Result<Tool, Problem> {
        let name = entry.get("name").and_then(|name| name.read::<String>().ok());
        let name = name.ok_or_else(|| Problem::new("", "a tool has no text `name`"))?;
        let place = shown(&name);
        let wrong = |message: String| Problem::new(place.as_str(), message);
        let prefix = &self.options.name;
        let own = name.strip_prefix(prefix.as_str()).and_then(|rest| rest.strip_prefix('.'));
        if own == Some("") {
            let message = format!("the tool has no name after `{prefix}.`");
            return Err(wrong(message).fix("add a name, or take the tool out"));
        }
        if own.is_none() {
            return Err(wrong(format!("the tool stands outside of `{prefix}.` and is dropped"))
                .fix("a module may only offer tools under its own name"));
        }
        let name = ToolName::new(&name).map_err(|error| wrong(error.to_string()))?;
        Json::check(entry.bytes().clone(), Limits::DEFINITION)
            .map_err(|error| wrong(format!("the definition is too large: {error}")))?;
        let description = entry.get("description").and_then(|text| text.read::<String>().ok());
        let description =
            description.ok_or_else(|| wrong("the tool has no text `description`".into()))?;
        let parameters =
            entry.get("parameters").ok_or_else(|| wrong("the tool has no `parameters`".into()))?;
        Ok(Tool {
            name,
            title: None,
            description,
            input: schema::of_parameters(&parameters).map_err(wrong)?,
            output: None,
            traits: self.traits(&place, level(entry).map_err(wrong)?),
            received: entry.clone(),
        })
    }

    fn traits(&self, name: &str, level: Level) -> Traits {
        let read_only = self.options.read_only.holds(name);
        let mut callers = vec![CallerType::Direct];
        callers.extend(self.options.chain.holds(name).then_some(CallerType::Chain));
        Traits {
            level,
            callers,
            effects: if read_only { Effects::read_only() } else { Effects::Unknown },
            idempotent: self.options.idempotent.holds(name) || read_only,
            timeout: Some(self.options.limit() + GRACE),
            ..Traits::default()
        }
    }
}

fn level(entry: &Json) -> Result<Level, String> {
    let Some(level) = entry.get("required_permission") else { return Ok(Level::Guest) };
    let word: String = level
        .read()
        .map_err(|_| format!("`required_permission` is {}; expected a text", level.kind()))?;
    word.parse().map_err(|error: tool::traits::UnknownWord| {
        let error = tool::traits::UnknownWord { word: shown(&error.word), ..error };
        format!("{error}; the tool is dropped")
    })
}

/// Escapes and truncates a text of the module for display.
fn shown(text: &str) -> String {
    text.chars().take(64).collect::<String>().escape_debug().to_string()
}
