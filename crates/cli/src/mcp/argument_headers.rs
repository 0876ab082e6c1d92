//! The arguments of each tool that are repeated in HTTP headers, read once from the tool list.

use std::collections::HashMap;

use mcp::headers::ArgumentHeaders;
use tool::Json;

/// The argument headers by tool name, only of tools that use them.
#[derive(Debug, Default)]
pub(super) struct ToolArgumentHeaders(HashMap<String, ArgumentHeaders>);

impl ToolArgumentHeaders {
    /// Adds a page of the tool list; returns the cursor of the next.
    pub(super) fn add_page(&mut self, page: &Json) -> Option<String> {
        for tool in page.get("tools").map(|tools| tools.elements()).unwrap_or_default() {
            let [name, schema] = tool.pick(["name", "inputSchema"]);
            let name = name.and_then(|name| name.decode::<String>().ok());
            let mirror =
                schema.and_then(|schema| ArgumentHeaders::from_schema(&schema.to_value()).ok());
            if let (Some(name), Some(mirror)) = (name, mirror)
                && !mirror.is_empty()
            {
                self.0.insert(name, mirror);
            }
        }
        page.get("nextCursor")?.decode().ok()
    }

    /// Returns the headers of a call with these params.
    pub(super) fn call_headers(&self, params: &Json) -> Vec<(String, String)> {
        let [name, args] = params.pick(["name", "arguments"]);
        let mirror = name.and_then(|name| self.0.get(&name.decode::<String>().ok()?));
        let args = args.unwrap_or_else(Json::empty_object);
        mirror.map(|mirror| mirror.to_headers(&args.to_value())).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::Json;

    use super::ToolArgumentHeaders;

    #[test]
    fn only_what_is_annotated_is_mirrored() {
        let mut mirrors = ToolArgumentHeaders::default();
        let next = mirrors.add_page(&Json::encode(&json!({
            "tools": [
                {"name": "a", "inputSchema": {"type": "object", "properties": {
                    "r": {"type": "string", "x-mcp-header": "R"}}}},
                {"name": "b", "inputSchema": {"type": "object"}}, 7],
            "nextCursor": "b",
        })));
        assert_eq!(next.as_deref(), Some("b"));
        let headers = |name: &str| {
            mirrors.call_headers(&Json::encode(&json!({"name": name, "arguments": {"r": "eu"}})))
        };
        assert_eq!(headers("a"), [("mcp-param-r".to_owned(), "eu".to_owned())]);
        assert_eq!(headers("b"), []);
    }
}
