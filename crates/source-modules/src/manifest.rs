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
    CallerType, CatalogItem, Executor, Json, JsonLimits, Offer, PermissionLevel, Problem,
    SideEffects, Tool, ToolName, ToolTraits,
};

use super::{HttpModuleOptions, parameter_schema};

/// Maximum tools of one module; the rest is ignored.
pub(super) const MAX_TOOLS: usize = 1_000;
/// Maximum reported problems of one module.
const MAX_PROBLEMS: usize = 100;
/// Margin of the pipeline's limit over the module's own, so that the module's limit ends a call
/// with the module API's text.
const PIPELINE_TIMEOUT_MARGIN: Duration = Duration::from_secs(2);

/// Offers and problems of a manifest. The location of a problem is the tool's name.
pub(super) struct ParsedManifest {
    pub(super) offers: Vec<Offer>,
    pub(super) problems: Vec<Problem>,
}

/// Parses a manifest into offers and problems.
///
/// An error describes why the whole manifest is invalid.
pub(super) fn parse_manifest(
    body: &Bytes,
    options: &HttpModuleOptions,
    executor: Arc<dyn Executor>,
) -> Result<ParsedManifest, String> {
    let manifest = Json::parse(body.clone(), JsonLimits::DOCUMENT).and_then(Json::require_object);
    let manifest = manifest.map_err(|error| format!("cannot parse the manifest: {error}"))?;
    let tools = manifest.get("tools").filter(|tools| tools.kind() == "array");
    let tools = tools.ok_or("the manifest has no list `tools`")?.elements();
    let mut parser = ManifestParser { options, offers: Vec::new(), problems: Vec::new(), executor };
    parser.check_module_name(&manifest);
    let mut names = HashSet::new();
    for entry in tools.iter().take(MAX_TOOLS) {
        match parser.parse_tool(entry) {
            Err(problem) => parser.add_problem(problem),
            Ok(tool) if names.insert(tool.name.clone()) => {
                let executor = Arc::clone(&parser.executor);
                parser.offers.push(Offer { item: CatalogItem::Tool(Arc::new(tool)), executor });
            }
            Ok(tool) => parser.add_problem(
                Problem::new(
                    tool.name.as_str(),
                    "the manifest lists this tool twice; the first one is used",
                )
                .with_help("rename one of the two"),
            ),
        }
    }
    if tools.len() > MAX_TOOLS {
        let message = format!("{} tools; only the first {MAX_TOOLS} are read", tools.len());
        parser.add_problem(Problem::new("", message).with_help("split the module into several"));
    }
    Ok(ParsedManifest { offers: parser.offers, problems: parser.problems })
}

struct ManifestParser<'a> {
    options: &'a HttpModuleOptions,
    offers: Vec<Offer>,
    problems: Vec<Problem>,
    executor: Arc<dyn Executor>,
}

impl ManifestParser<'_> {
    fn add_problem(&mut self, problem: Problem) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    /// Reports a manifest whose module name differs; the name has no other effect.
    fn check_module_name(&mut self, manifest: &Json) {
        let declared_name =
            manifest.get("module_name").and_then(|name| name.decode::<String>().ok());
        let name = &self.options.name;
        if declared_name.as_deref() != Some(name.as_str()) {
            let message = match declared_name {
                None => format!("the manifest has no string `module_name`; expected `{name}`"),
                Some(own) => {
                    format!(
                        "the manifest's `module_name` is `{}`; expected `{name}`",
                        escape_for_display(&own)
                    )
                }
            };
            self.add_problem(Problem::new("", message).with_help(
                "set it to the name of the \
                source",
            ));
        }
    }

    fn parse_tool(&self, entry: &Json) -> Result<Tool, Problem> {
        let name = entry.get("name").and_then(|name| name.decode::<String>().ok());
        let name = name.ok_or_else(|| Problem::new("", "a tool has no string `name`"))?;
        let place = escape_for_display(&name);
        let tool_problem = |message: String| Problem::new(place.as_str(), message);
        let prefix = &self.options.name;
        let local_name = name.strip_prefix(prefix.as_str()).and_then(|rest| rest.strip_prefix('.'));
        if local_name == Some("") {
            let message = format!("the tool has no name after `{prefix}.`");
            return Err(tool_problem(message).with_help("add a name, or remove the tool"));
        }
        if local_name.is_none() {
            return Err(tool_problem(format!(
                "the tool's name does not begin with `{prefix}.`, so the tool is omitted"
            ))
            .with_help("a module may only offer tools with its own prefix"));
        }
        let name = ToolName::new(&name).map_err(|error| tool_problem(error.to_string()))?;
        Json::parse(entry.bytes().clone(), JsonLimits::DEFINITION)
            .map_err(|error| tool_problem(format!("the definition is too large: {error}")))?;
        let description = entry.get("description").and_then(|text| text.decode::<String>().ok());
        let description = description
            .ok_or_else(|| tool_problem("the tool has no string `description`".into()))?;
        let parameters = entry
            .get("parameters")
            .ok_or_else(|| tool_problem("the tool has no `parameters`".into()))?;
        Ok(Tool {
            name,
            title: None,
            description,
            input_schema: parameter_schema::schema_from_parameters(&parameters)
                .map_err(tool_problem)?,
            output_schema: None,
            traits: self.tool_traits(&place, parse_level(entry).map_err(tool_problem)?),
            raw_definition: entry.clone(),
        })
    }

    fn tool_traits(&self, name: &str, level: PermissionLevel) -> ToolTraits {
        let read_only = self.options.read_only.contains(name);
        let mut callers = vec![CallerType::Direct];
        callers
            .extend(self.options.callable_by_programs.contains(name).then_some(CallerType::Chain));
        ToolTraits {
            min_level: level,
            allowed_callers: callers,
            effects: if read_only { SideEffects::read_only() } else { SideEffects::Unknown },
            is_idempotent: self.options.idempotent.contains(name) || read_only,
            timeout: Some(self.options.call_timeout() + PIPELINE_TIMEOUT_MARGIN),
            ..ToolTraits::default()
        }
    }
}

fn parse_level(entry: &Json) -> Result<PermissionLevel, String> {
    let Some(level) = entry.get("required_permission") else { return Ok(PermissionLevel::Guest) };
    let value: String = level
        .decode()
        .map_err(|_| format!("`required_permission` is {}; expected a string", level.kind()))?;
    value.parse().map_err(|error: tool::tool_traits::UnknownValueError| {
        let error = tool::tool_traits::UnknownValueError {
            value: escape_for_display(&error.value),
            ..error
        };
        format!("{error}; the tool is omitted")
    })
}

/// Escapes and truncates a text of the module for display.
fn escape_for_display(text: &str) -> String {
    text.chars().take(64).collect::<String>().escape_debug().to_string()
}
