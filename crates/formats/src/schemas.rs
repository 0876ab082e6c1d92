//! Tools as the `tools` of a request, in one step: for programs that embed the library.

use std::collections::HashMap;

use bytes::Bytes;
use tool::{Json, Limits, Tool};

use crate::{AliasMap, Back, Format, Loss, RequestedCall, list, render};

/// Tools as a model's provider takes them, and the way back from what the model asks for.
#[derive(Debug, Clone)]
pub struct ToolSchemas {
    /// The `tools` of a request.
    pub tools: Json,
    /// The tools' names, and those that they have in the request.
    pub names: AliasMap,
    /// By tool: what the format does not say as the tool's schema does. Tools that it cannot say at all are in
    /// [`left_out`](Self::left_out) too.
    pub losses: HashMap<String, Vec<Loss>>,
    /// Tools that the format cannot say at all, in order.
    pub left_out: Vec<String>,
    arguments: HashMap<String, (Back, Limits)>,
}

/// Tools as `format` writes them, in their order.
///
/// Names are those that every provider takes, and for MCP the tools' own. They depend on the tools beside each other: call this once for
/// each request's set of tools, and read the model's calls with the same value.
pub fn tools_to_schema<'t>(
    format: Format,
    tools: impl IntoIterator<Item = &'t Tool>,
) -> ToolSchemas {
    let tools: Vec<_> = tools.into_iter().collect();
    let own = tools.iter().map(|tool| tool.name.as_str());
    let names = if format == Format::Mcp { AliasMap::native(own) } else { AliasMap::safe(own) };
    let (mut written, mut left_out) = (Vec::new(), Vec::new());
    let (mut losses, mut arguments) = (HashMap::new(), HashMap::new());
    for tool in tools {
        let name = tool.name.to_string();
        let rendered = render(format, tool, names.alias(&name).unwrap_or(&name));
        match rendered.json {
            Some(json) => written.push(json),
            None => left_out.push(name.clone()),
        }
        if !rendered.losses.is_empty() {
            losses.insert(name.clone(), rendered.losses);
        }
        arguments.insert(name, (rendered.back, tool.traits.limits()));
    }
    ToolSchemas { tools: list(format, &written), names, losses, left_out, arguments }
}

impl ToolSchemas {
    /// The tool's own name and its arguments, of a call as the model wrote it. What is no tool of these, and arguments that cannot be
    /// read, stay as they are: whoever runs the call says what is wrong with them.
    pub fn requested(&self, call: &RequestedCall) -> (String, Bytes) {
        let name = self.names.name(&call.name).unwrap_or(&call.name).to_owned();
        let known = self.arguments.get(&name).filter(|(back, _)| !back.is_empty());
        let restored = known.and_then(|(back, limits)| {
            call.args_within(*limits).ok().map(|args| back.restored(args.raw()).bytes().clone())
        });
        (name, restored.unwrap_or_else(|| call.text.clone()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::{Json, Tool, ToolName};

    use super::tools_to_schema;
    use crate::{Format, read_calls};

    fn tool(name: &str, input: &serde_json::Value) -> Tool {
        Tool::new(ToolName::new(name).unwrap(), name, Json::of(input))
    }

    /// What spec 1 calls `tools-to-schema`, and the way back.
    #[test]
    fn tools_are_written_and_calls_are_read_back_for_every_format() {
        let odd = json!({"type": "object", "required": ["filter[x]"],
            "properties": {"filter[x]": {"type": "string"}}});
        let tools = [tool("look.up", &json!({"type": "object"})), tool("odd", &odd)];
        for format in Format::ALL {
            let schemas = tools_to_schema(*format, &tools);
            assert_eq!(schemas.left_out, [""; 0], "{format}");
            let alias = schemas.names.alias("look.up").unwrap();
            assert_eq!(alias == "look.up", *format == Format::Mcp, "{format}");
            let text = schemas.tools.as_str();
            assert!(text.find(alias).unwrap() < text.find("odd").unwrap(), "{format}: {text}");
        }
        let schemas = tools_to_schema(Format::OpenaiChat, &tools);
        let expected = json!({"type": "function", "function": {"name": "look_up", "description": "look.up",
            "parameters": {"type": "object", "properties": {}}}});
        assert_eq!(schemas.tools.value()[0], expected);
        let schemas = tools_to_schema(Format::Anthropic, &tools);
        let shown = &schemas.tools.value()[1]["input_schema"]["required"][0];
        assert_ne!(shown, "filter[x]");
        let input = json!({shown.as_str().unwrap(): "open"});
        let message = json!([{"type": "tool_use", "id": "a", "name": "odd", "input": input},
            {"type": "tool_use", "id": "b", "name": "look_up", "input": {}},
            {"type": "tool_use", "id": "c", "name": "nothing", "input": {}}]);
        let calls = read_calls(Format::Anthropic, &Json::of(&message)).unwrap();
        let read = |at: usize| {
            let (name, args) = schemas.requested(&calls[at]);
            (name, String::from_utf8(args.to_vec()).unwrap())
        };
        assert_eq!(read(0), ("odd".to_owned(), r#"{"filter[x]":"open"}"#.to_owned()));
        assert_eq!(read(1).0, "look.up");
        assert_eq!(read(2).0, "nothing");
    }
}
