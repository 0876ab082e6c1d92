//! The arguments of each tool that are repeated in HTTP headers, read once from the tool list.

use std::collections::HashMap;

use mcp::header::Mirror;
use tool::Json;

/// The argument headers by tool name, only of tools that use them.
#[derive(Debug, Default)]
pub(super) struct Mirrors(HashMap<String, Mirror>);

impl Mirrors {
    /// Adds a page of the tool list; returns the cursor of the next.
    pub(super) fn add(&mut self, page: &Json) -> Option<String> {
        for tool in page.get("tools").map(|tools| tools.elements()).unwrap_or_default() {
            let [name, schema] = tool.pick(["name", "inputSchema"]);
            let name = name.and_then(|name| name.read::<String>().ok());
            let mirror = schema.and_then(|schema| Mirror::of(&schema.value()).ok());
            if let (Some(name), Some(mirror)) = (name, mirror)
                && !mirror.is_empty()
            {
                self.0.insert(name, mirror);
            }
        }
        page.get("nextCursor")?.read().ok()
    }

    /// Returns the headers of a call with these params.
    pub(super) fn headers(&self, params: &Json) -> Vec<(String, String)> {
        let [name, args] = params.pick(["name", "arguments"]);
        let mirror = name.and_then(|name| self.0.get(&name.read::<String>().ok()?));
        let args = args.unwrap_or_else(Json::empty);
        mirror.map(|mirror| mirror.headers(&args.value())).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::Json;

    use super::Mirrors;

    #[test]
    fn only_what_is_annotated_is_mirrored() {
        let mut mirrors = Mirrors::default();
        let next = mirrors.add(&Json::of(&json!({
            "tools": [
                {"name": "a", "inputSchema": {"type": "object", "properties": {
                    "r": {"type": "string", "x-mcp-header": "R"}}}},
                {"name": "b", "inputSchema": {"type": "object"}}, 7],
            "nextCursor": "b",
        })));
        assert_eq!(next.as_deref(), Some("b"));
        let headers = |name: &str| {
            mirrors.headers(&Json::of(&json!({"name": name, "arguments": {"r": "eu"}})))
        };
        assert_eq!(headers("a"), [("mcp-param-r".to_owned(), "eu".to_owned())]);
        assert_eq!(headers("b"), []);
    }
}
