//! Text output of toolsets and of the items that wait to be accepted.

use serde_json::Value;

use cli_core::json_fields;
use cli_core::printer::format_table;

use crate::pin::format_change;

/// Formats a table of toolsets.
pub(super) fn format_toolsets(toolsets: &[Value]) -> String {
    let row = |toolset: &Value| {
        let owner = toolset.get("owner").unwrap_or(&Value::Null);
        [
            json_fields::field_line(toolset, "name", 64),
            json_fields::field_line(toolset, "tools", 8),
            json_fields::field_line(owner, "waiting", 8),
            json_fields::field_line(owner, "roles", 60),
            json_fields::field_line(toolset, "path", 80),
        ]
    };
    let rows: Vec<_> = toolsets.iter().map(row).collect();
    format_table(["TOOLSET", "TOOLS", "WAITING", "ROLES", "PATH"], &rows)
}

/// Formats a toolset with its items, the changes that wait, and the command to accept them.
pub(super) fn format_detail(toolset: &Value) -> String {
    let mut lines = vec![format_toolsets(std::slice::from_ref(toolset))];
    let items = json_fields::field_items(toolset, "items");
    if items.is_empty() {
        return lines.join("\n");
    }
    let row = |item: &Value| {
        [
            json_fields::field_line(item, "state", 12),
            json_fields::field_line(item, "kind", 12),
            json_fields::field_line(item, "source", 64),
            json_fields::field_line(item, "item", 120),
            json_fields::field_line(item, "pattern", 80),
        ]
    };
    let rows: Vec<_> = items.iter().map(row).collect();
    lines
        .push(format!("\n{}", format_table(["STATE", "KIND", "SOURCE", "ITEM", "PATTERN"], &rows)));
    for item in items {
        let changes = json_fields::field_items(item, "changes");
        if !changes.is_empty() {
            let (source, name) = (
                json_fields::field_line(item, "source", 64),
                json_fields::field_line(item, "item", 120),
            );
            lines.push(format!("\n{source}: {name}"));
            lines.extend(changes.iter().map(format_change));
        }
    }
    let waits = items.iter().any(|item| item.get("state").is_some_and(|state| state != "accepted"));
    if waits {
        let name = json_fields::field_line(toolset, "name", 128);
        let revision = json_fields::field_line(toolset, "revision", 80);
        lines.push(format!("\ntoolkeep toolset accept {name} --revision {revision}"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::format_detail;

    #[test]
    fn waiting_items_are_shown_with_what_to_type() {
        let toolset = json!({"name": "support", "tools": 1, "path": "/mcp/support", "revision": "sha256:aa",
            "owner": {"waiting": 1, "roles": ["support"]}, "items": [
            {"kind": "tool", "source": "docs", "item": "docs.search", "pattern": "docs.*", "state": "changed",
             "changes": [{"at": "/description", "before": "Finds.", "after": "Sends."}]}]});
        let expected = "\
TOOLSET  TOOLS  WAITING  ROLES    PATH
support  1      1        support  /mcp/support

STATE    KIND  SOURCE  ITEM         PATTERN
changed  tool  docs    docs.search  docs.*

docs: docs.search

/description
- Finds.
+ Sends.

toolkeep toolset accept support --revision sha256:aa";
        assert_eq!(format_detail(&toolset), expected);
    }
}
