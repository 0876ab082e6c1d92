//! Tool schemas of a request in one step, for programs that embed the library.

use std::collections::HashMap;

use bytes::Bytes;
use tool::{Json, JsonLimits, Tool};

use crate::{
    AliasMap, ArgumentMapping, ProviderFormat, SchemaLoss, ToolCallRequest, join_tools, render_tool,
};

/// Rendered tools of a request, with the mapping from the model's calls back to them.
#[derive(Debug, Clone)]
pub struct ToolSchemas {
    /// The `tools` of a request.
    pub tools: Json,
    /// Aliases of the tools in the request.
    pub aliases: AliasMap,
    /// Losses by tool. Tools that the format cannot express are also in
    /// [`omitted_tools`](Self::omitted_tools).
    pub losses: HashMap<String, Vec<SchemaLoss>>,
    /// Tools that the format cannot express, in order.
    pub omitted_tools: Vec<String>,
    argument_mappings: HashMap<String, (ArgumentMapping, JsonLimits)>,
}

/// Renders tools in `format`, in order.
///
/// Names are aliases that every provider accepts; MCP uses the tools' own names. Aliases depend on
/// the set of tools: call this once for each request, and resolve the model's calls with the same
/// value.
pub fn render_tool_schemas<'t>(
    format: ProviderFormat,
    tools: impl IntoIterator<Item = &'t Tool>,
) -> ToolSchemas {
    let tools: Vec<_> = tools.into_iter().collect();
    let original_names = tools.iter().map(|tool| tool.name.as_str());
    let names = if format == ProviderFormat::Mcp {
        AliasMap::with_native_names()
    } else {
        AliasMap::with_safe_aliases(original_names)
    };
    let (mut rendered_tools, mut omitted_tools) = (Vec::new(), Vec::new());
    let (mut losses, mut arguments) = (HashMap::new(), HashMap::new());
    for tool in tools {
        let name = tool.name.to_string();
        let rendered = render_tool(format, tool, names.alias_of(&name).unwrap_or(&name));
        match rendered.json {
            Some(json) => rendered_tools.push(json),
            None => omitted_tools.push(name.clone()),
        }
        if !rendered.losses.is_empty() {
            losses.insert(name.clone(), rendered.losses);
        }
        arguments.insert(name, (rendered.argument_mapping, tool.traits.argument_limits()));
    }
    ToolSchemas {
        tools: join_tools(format, &rendered_tools),
        aliases: names,
        losses,
        omitted_tools,
        argument_mappings: arguments,
    }
}

impl ToolSchemas {
    /// Returns the tool's own name and arguments for a model's call. Unknown tools and unparsable
    /// arguments are returned unchanged; the executor of the call reports their error.
    pub fn resolve_call(&self, call: &ToolCallRequest) -> (String, Bytes) {
        let name = self.aliases.name_of(&call.name).unwrap_or(&call.name).to_owned();
        let known = self.argument_mappings.get(&name).filter(|(back, _)| !back.is_identity());
        let restored = known.and_then(|(back, limits)| {
            call.parse_arguments_within(*limits)
                .ok()
                .map(|args| back.restore_arguments(args.as_json()).bytes().clone())
        });
        (name, restored.unwrap_or_else(|| call.arguments_text.clone()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::{Json, Tool, ToolName};

    use super::render_tool_schemas;
    use crate::{ProviderFormat, parse_calls};

    fn tool(name: &str, input: &serde_json::Value) -> Tool {
        Tool::new(ToolName::new(name).unwrap(), name, Json::encode(input))
    }

    /// Conversion as the safety-level library's `tools-to-schema`, and back.
    #[test]
    fn tools_are_written_and_calls_are_read_back_for_every_format() {
        let odd = json!({"type": "object", "required": ["filter[x]"],
            "properties": {"filter[x]": {"type": "string"}}});
        let tools = [tool("look.up", &json!({"type": "object"})), tool("odd", &odd)];
        for format in ProviderFormat::ALL {
            let schemas = render_tool_schemas(*format, &tools);
            assert_eq!(schemas.omitted_tools, [""; 0], "{format}");
            let alias = schemas.aliases.alias_of("look.up").unwrap();
            assert_eq!(alias == "look.up", *format == ProviderFormat::Mcp, "{format}");
            let text = schemas.tools.as_str();
            assert!(text.find(alias).unwrap() < text.find("odd").unwrap(), "{format}: {text}");
        }
        let schemas = render_tool_schemas(ProviderFormat::OpenaiChat, &tools);
        let expected = json!({"type": "function", "function": {"name": "look_up", "description": "look.up",
            "parameters": {"type": "object", "properties": {}}}});
        assert_eq!(schemas.tools.to_value()[0], expected);
        let schemas = render_tool_schemas(ProviderFormat::Anthropic, &tools);
        let shown = &schemas.tools.to_value()[1]["input_schema"]["required"][0];
        assert_ne!(shown, "filter[x]");
        let input = json!({shown.as_str().unwrap(): "open"});
        let message = json!([{"type": "tool_use", "id": "a", "name": "odd", "input": input},
            {"type": "tool_use", "id": "b", "name": "look_up", "input": {}},
            {"type": "tool_use", "id": "c", "name": "nothing", "input": {}}]);
        let calls = parse_calls(ProviderFormat::Anthropic, &Json::encode(&message)).unwrap();
        let read = |at: usize| {
            let (name, args) = schemas.resolve_call(&calls[at]);
            (name, String::from_utf8(args.to_vec()).unwrap())
        };
        assert_eq!(read(0), ("odd".to_owned(), r#"{"filter[x]":"open"}"#.to_owned()));
        assert_eq!(read(1).0, "look.up");
        assert_eq!(read(2).0, "nothing");
    }
}
