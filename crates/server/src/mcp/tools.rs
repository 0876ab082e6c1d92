//! Definitions in rmcp's types: read from the same fragments that the other door lists, once per
//! catalog and way of naming.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use formats::Format;
use gateway::View;
use rmcp::model::Tool;
use tool::Json;

use crate::lists::{Lists, Names};

/// What rmcp may fail to read, and a tool can be called without.
const OPTIONAL: [&str; 5] = ["title", "outputSchema", "annotations", "icons", "_meta"];

/// By the tools' own names.
type Tools = HashMap<String, Tool>;

/// The newest catalog's tools, with its number.
#[derive(Debug, Default)]
pub(super) struct Typed(Mutex<HashMap<Names, (u64, Arc<Tools>)>>);

impl Typed {
    pub(super) fn of(&self, lists: &Lists, view: &View, names: Names) -> Arc<Tools> {
        let catalog = view.catalog();
        {
            let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, found)) = cached.get(&names).filter(|(of, _)| *of == catalog.number) {
                return Arc::clone(found);
            }
        }
        // Read outside the lock: two callers may do it at once after a change, and agree.
        let rendered = lists.rendered(catalog, Format::Mcp, names);
        let entries = catalog.tools().iter().map(|entry| entry.key.name.as_str());
        let read = |name: &str| Some((name.to_owned(), typed(rendered.fragment(name)?)?));
        let tools: Arc<Tools> = Arc::new(entries.filter_map(read).collect());
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.insert(names, (catalog.number, Arc::clone(&tools)));
        tools
    }
}

/// A tool that has a member in a form rmcp does not know is listed without that member: what is
/// listed is what can be called.
fn typed(fragment: &Json) -> Option<Tool> {
    let whole = fragment.read::<Tool>();
    if let Ok(tool) = whole {
        return Some(tool);
    }
    let member = |key: &'static str| fragment.get(key).map(|value| (key, value));
    let needed = ["name", "description", "inputSchema"].into_iter().filter_map(member).collect();
    let read = |members: &Vec<(&'static str, Json)>| {
        Json::fields(members.iter().map(|(key, value)| (*key, value))).read::<Tool>()
    };
    let mut members: Vec<_> = needed;
    for optional in OPTIONAL.into_iter().filter_map(member) {
        members.push(optional);
        if read(&members).is_err() {
            members.pop();
        }
    }
    match read(&members) {
        Ok(tool) => Some(tool),
        Err(error) => {
            tracing::error!(%error, "a tool cannot be listed through MCP");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tool::Json;

    use super::typed;

    fn round(definition: &Value) -> Value {
        serde_json::to_value(typed(&Json::of(definition)).unwrap()).unwrap()
    }

    #[test]
    fn a_definition_passes() {
        let definition = json!({
            "name": "a.b", "title": "A", "description": "d",
            "inputSchema": {"type": "object", "properties": {"z": {}, "a": {"$ref": "#/$defs/x"}},
                "$defs": {"x": {"const": 1.5}}, "x-vendor": [null]},
            "outputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true, "openWorldHint": false},
            "icons": [{"src": "https://example.com/a.png"}], "_meta": {"a/b": {"c": 1}},
        });
        assert_eq!(round(&definition).to_string(), definition.to_string());
    }

    #[test]
    fn a_member_that_cannot_be_read_does_not_hide_its_tool() {
        let mut definition = json!({
            "name": "a", "description": "d", "inputSchema": {"type": "object"},
            "title": 5, "annotations": {"readOnlyHint": "yes"}, "_meta": {"a": 1},
        });
        let read = round(&definition);
        let members = definition.as_object_mut().unwrap();
        members.remove("title");
        members.remove("annotations");
        assert_eq!(read, definition);
    }

    /// Until the door has a lane of its own, this is what the typed round trip loses.
    #[test]
    fn unknown_members_are_lost() {
        let definition = json!({
            "name": "a", "description": "d", "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true, "vendorHint": 1},
            "execution": {"taskSupport": "optional"}, "vendor": true,
        });
        let read = round(&definition);
        assert_eq!(read["annotations"], json!({"readOnlyHint": true}));
        assert!(read.get("execution").is_none() && read.get("vendor").is_none());
    }
}
