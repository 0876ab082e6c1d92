//! Every definition, at every provider: nothing is lost in silence.

use std::collections::BTreeMap;

use formats::{LossKind, ProviderFormat, SchemaLoss, render_tool};
use serde_json::{Map, Value};
use testkit::shared_data::read_rows;

use super::tool;
use crate::oracle;

const MCP: [&str; 4] =
    ["mcp_mcpm_registry", "mcp_livemcpbench", "mcp_github_server", "mcp_docker_registry"];
const OTHER: [&str; 4] = ["fc_bfcl_raw", "fc_acebench_raw", "fc_nestful_raw", "openapi_operations"];

fn definitions(files: &[&str]) -> Vec<Value> {
    let mut all = Vec::new();
    for file in files {
        all.extend(read_rows(&format!("tools/{file}.jsonl.gz")));
    }
    all
}

/// Whether a loss tells of `keyword` at `place`, or of something that `place` is inside of.
fn is_told(losses: &[SchemaLoss], place: &str, keyword: &str) -> bool {
    losses.iter().any(|loss| {
        let inside = format!("{}/{}", loss.pointer, loss.keyword);
        let whole = matches!(
            loss.keyword.as_str(),
            "$ref" | "allOf" | "anyOf" | "oneOf" | "type" | "items" | "prefixItems" | "properties"
        );
        (loss.pointer == place && (loss.keyword == keyword || whole))
            || place == inside
            || place.starts_with(&format!("{inside}/"))
            || (whole
                && place.starts_with(&format!("{}/", loss.pointer))
                && !loss.pointer.is_empty())
            || (loss.pointer.is_empty()
                && ["$ref", "allOf", "anyOf", "oneOf"].contains(&loss.keyword.as_str()))
    })
}

/// Every keyword of `before` that is not in `after` as it was, and of which no loss tells.
fn silent(
    before: &Value,
    after: &Value,
    place: &str,
    losses: &[SchemaLoss],
    found: &mut Vec<String>,
) {
    let Value::Object(map) = before else {
        if before != after {
            found.push(place.to_owned());
        }
        return;
    };
    let empty = Map::new();
    let other = after.as_object().unwrap_or(&empty);
    for (keyword, value) in map {
        if is_told(losses, place, keyword) {
            continue;
        }
        let at = format!("{place}/{keyword}");
        match (keyword.as_str(), value, other.get(keyword)) {
            (_, value, Some(same)) if value == same => {}
            (
                "properties" | "$defs" | "definitions" | "patternProperties",
                Value::Object(all),
                Some(shown),
            ) => {
                for (name, value) in all {
                    let name_at = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
                    match shown.get(name) {
                        Some(shown) => silent(value, shown, &name_at, losses, found),
                        None if losses.iter().any(|loss| loss.pointer == name_at) => {}
                        None => found.push(name_at),
                    }
                }
            }
            (
                "anyOf" | "oneOf" | "allOf" | "prefixItems",
                Value::Array(all),
                Some(Value::Array(shown)),
            ) if all.len() == shown.len() => {
                for (index, (value, shown)) in all.iter().zip(shown).enumerate() {
                    silent(value, shown, &format!("{at}/{index}"), losses, found);
                }
            }
            ("description", Value::String(value), Some(Value::String(shown)))
                if shown.starts_with(value.trim_end()) => {}
            ("required", Value::Array(value), Some(Value::Array(shown)))
                if value.len() == shown.len()
                    && losses.iter().any(|l| l.change == LossKind::Renamed) => {}
            (
                "items"
                | "additionalProperties"
                | "not"
                | "if"
                | "then"
                | "else"
                | "contains"
                | "propertyNames",
                value,
                Some(shown),
            ) => {
                silent(value, shown, &at, losses, found);
            }
            _ => found.push(at),
        }
    }
}

/// How many are left out, for which reasons; and changes by keyword.
type Found = (usize, BTreeMap<String, usize>, BTreeMap<(String, &'static str), usize>);

/// One format over all definitions: how many it leaves out, and why.
fn over(format: ProviderFormat, all: &[Value]) -> Found {
    let (mut out, mut reasons, mut changes) = (0, BTreeMap::new(), BTreeMap::new());
    for (index, row) in all.iter().enumerate() {
        let tool = tool(row, index);
        let rendered = render_tool(format, &tool, tool.name.as_str());
        for loss in &rendered.losses {
            *changes.entry((loss.keyword.clone(), loss.change.as_str())).or_insert(0) += 1;
        }
        let Some(json) = rendered.json else {
            let [loss] = rendered.losses.as_slice() else { panic!("{row}") };
            assert_eq!(loss.change, LossKind::ToolOmitted);
            out += 1;
            *reasons.entry(format!("`{}`: {}", loss.keyword, loss.reason)).or_insert(0) += 1;
            continue;
        };
        let json = json.to_value();
        let (before, nothing) =
            (tool.input_schema.to_value(), serde_json::json!({"type": "object", "properties": {}}));
        oracle::accepts(format, &json).unwrap_or_else(|why| panic!("{format}: {why}: {row}"));
        let after = oracle::schema(format, &json).unwrap_or(&nothing);
        let mut found = Vec::new();
        silent(&before, after, "", &rendered.losses, &mut found);
        assert!(found.is_empty(), "{format}: {found:?}\n{before}\n{after}\n{:?}", rendered.losses);
    }
    (out, reasons, changes)
}

#[test]
fn every_mcp_definition_at_every_provider() {
    let all = definitions(&MCP);
    assert!(all.len() > 2_500, "{}", all.len());
    for format in ProviderFormat::ALL {
        let (out, reasons, changes) = over(*format, &all);
        println!("{format}: {} of {} left out {reasons:?}", out, all.len());
        let mut changes: Vec<_> = changes.into_iter().collect();
        changes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        println!("  {:?}", &changes[..changes.len().min(14)]);
        assert!(out * 100 <= all.len(), "{format}: more than 1 % left out");
    }
}

/// Definitions of other origins, many of them no JSON Schema: they spoil nothing, and say why.
#[test]
#[expect(clippy::disallowed_methods, reason = "whether to ask for full counts")]
fn every_other_definition_at_every_provider() {
    let all = definitions(&OTHER);
    let deep = std::env::var("TOOLKEEP_DEEP").is_ok_and(|word| word == "1");
    let all: Vec<_> = all.into_iter().step_by(if deep { 1 } else { 5 }).collect();
    for format in ProviderFormat::ALL {
        let (out, reasons, _) = over(*format, &all);
        println!("{format}: {} of {} left out {reasons:?}", out, all.len());
    }
}
