//! Tests that recorded model calls are parsed in each provider's format and checked against their
//! tools.

use catalog::CatalogEntry;
use formats::{ProviderFormat, ToolCallRequest, parse_calls, render_calls};
use serde_json::{Map, Value, json};
use testkit::shared_data::read_rows;
use tool::{Json, Org, SourceName};

/// The types of these sets, which are those of Python and of Java, as JSON Schema has them.
fn schema(found: &Value) -> Value {
    match found {
        Value::Object(map) => {
            let mut out: Map<_, _> =
                map.iter().map(|(key, value)| (key.clone(), schema(value))).collect();
            let kind = match map.get("type").and_then(Value::as_str) {
                Some("dict" | "HashMap" | "Hashtable") => "object",
                Some("float" | "double") => "number",
                Some("tuple" | "ArrayList" | "Array" | "array") => "array",
                Some("String" | "char") => "string",
                Some("Boolean") => "boolean",
                Some("long") => "integer",
                Some(known @ ("object" | "string" | "integer" | "number" | "boolean")) => known,
                _ => {
                    if map.get("type").is_some_and(Value::is_string) {
                        out.remove("type");
                    }
                    return Value::Object(out);
                }
            };
            out.insert("type".to_owned(), json!(kind));
            Value::Object(out)
        }
        Value::Array(list) => list.iter().map(schema).collect(),
        other => other.clone(),
    }
}

fn entry(function: &Value) -> Option<CatalogEntry> {
    let tool = testkit::read_only_tool("t", "d", &schema(&function["parameters"]));
    let source = SourceName::new("s").unwrap();
    CatalogEntry::new(Org::default(), source, tool.into(), testkit::executor::echo_executor()).ok()
}

/// The call as every provider writes it, read again and checked.
fn checked(entry: &CatalogEntry, arguments: &Value) -> Result<(), String> {
    let call = ToolCallRequest {
        id: Some("call_1".to_owned()),
        name: "t".to_owned(),
        namespace: None,
        arguments_text: arguments.to_string().into(),
    };
    for format in ProviderFormat::ALL {
        let message = render_calls(*format, std::slice::from_ref(&call));
        let message = Json::parse(message.bytes().clone(), tool::JsonLimits::DOCUMENT).unwrap();
        let read = parse_calls(*format, &message).unwrap();
        assert_eq!(read.len(), 1, "{format}");
        let args = read[0].parse_arguments().unwrap();
        assert_eq!(args.as_value(), arguments, "{format}");
        entry.validate_arguments(args).map(drop).map_err(|faults| faults[0].to_string())?;
    }
    Ok(())
}

/// Of each parameter the first value that is accepted, unless it may be left out.
fn gold(of: &Value, schema: &Value) -> Value {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let chosen = of.as_object().unwrap().iter().filter_map(|(name, accepted)| {
        let accepted = accepted.as_array()?;
        let needed = required.contains(&json!(name));
        let optional = !needed && accepted.iter().any(|value| value == "");
        let first = accepted.iter().find(|value| *value != "").filter(|_| !optional)?;
        Some((name.clone(), plain(first, &schema["properties"][name])))
    });
    Value::Object(chosen.collect())
}

/// Inside an object, too, each member has a list of what is accepted.
fn plain(value: &Value, schema: &Value) -> Value {
    match value {
        Value::Object(map) if map.values().all(Value::is_array) => gold(value, schema),
        Value::Array(list) => list.iter().map(|value| plain(value, &schema["items"])).collect(),
        other => other.clone(),
    }
}

#[test]
fn gold_calls_are_taken_as_every_provider_writes_them() {
    let rows = read_rows("calls/bfcl_gold.jsonl.gz");
    // The Java and JavaScript sets write values of their languages as texts.
    let rows = rows.iter().filter(|row| {
        let id = row["id"].as_str().unwrap();
        !id.starts_with("simple_java")
    });
    let (mut good, mut bad, mut missing, mut caught) = (0, Vec::new(), 0, 0);
    for row in rows {
        let functions = row["functions"].as_array().unwrap();
        for call in row["ground_truth"].as_array().unwrap() {
            let (name, parameters) = call.as_object().unwrap().iter().next().unwrap();
            let function = functions.iter().find(|function| function["name"] == *name).unwrap();
            let Some(entry) = entry(function) else { continue };
            let arguments = gold(parameters, &function["parameters"]);
            if let Err(fault) = checked(&entry, &arguments) {
                bad.push(format!("{name} {arguments}: {fault}"));
                continue;
            }
            good += 1;
            // Without a required argument the error names it.
            let required = function["parameters"]["required"].as_array();
            let required = required.into_iter().flatten().filter_map(Value::as_str);
            if let Some(needed) = required.into_iter().find(|name| arguments.get(*name).is_some()) {
                let mut faulty = arguments.clone();
                faulty.as_object_mut().unwrap().remove(needed);
                missing += 1;
                let told = checked(&entry, &faulty).unwrap_err();
                caught +=
                    usize::from(told.contains(&format!("\"{needed}\" is a required property")));
            }
        }
    }
    println!("{good} gold calls taken, {} not: {:#?}", bad.len(), &bad[..bad.len().min(12)]);
    println!("{caught} of {missing} calls without a required argument told by its name");
    assert!(good > 2_500 && bad.len() * 50 < good, "{good} and {}", bad.len());
    assert_eq!(caught, missing);
}

/// Requests that lack required arguments of the tool.
#[test]
fn missing_arguments_of_unfinished_questions_are_named() {
    let rows = read_rows("calls/acebench_special.jsonl.gz");
    let mut calls = 0;
    for row in rows.iter().filter(|row| row["id"].as_str().unwrap().contains("incomplete")) {
        for (name, missing) in row["ground_truth"].as_object().unwrap() {
            let functions = row["functions"].as_array().unwrap();
            let Some(function) = functions.iter().find(|it| it["name"] == *name) else { continue };
            let Some(entry) = entry(function) else { continue };
            // Only what a schema requires can be missed.
            let required = function["parameters"]["required"].as_array();
            let missing = missing.as_array().unwrap();
            if !required.is_some_and(|required| missing.iter().any(|it| required.contains(it))) {
                continue;
            }
            let told = checked(&entry, &json!({})).unwrap_err();
            assert!(told.ends_with("is a required property"), "{name}: {told}");
            calls += 1;
        }
    }
    println!("{calls} unfinished calls are told what is missing");
    assert!(calls > 60, "{calls}");
}

/// Calls that a model really made at a provider, arguments as texts.
#[test]
fn real_calls_read_as_they_were_written() {
    let rows = read_rows("calls/livemcpbench_tool_calls.jsonl.gz");
    let mut read = 0;
    for chunk in rows.chunks(8) {
        let calls: Value = chunk
            .iter()
            .map(|row| {
                json!({"id": row["id"], "type": "function",
                "function": {"name": row["name"], "arguments": row["arguments"]}})
            })
            .collect();
        let message =
            Json::encode(&json!({"role": "assistant", "content": null, "tool_calls": calls}));
        let calls = parse_calls(ProviderFormat::OpenaiChat, &message).unwrap();
        for (call, row) in calls.iter().zip(chunk) {
            assert_eq!(call.id.as_deref(), row["id"].as_str());
            assert_eq!(call.arguments_text, row["arguments"].as_str().unwrap().as_bytes());
            call.parse_arguments().unwrap();
            read += 1;
        }
        // And at another provider, byte for byte.
        let moved = render_calls(ProviderFormat::Anthropic, &calls);
        let moved = Json::parse(moved.bytes().clone(), tool::JsonLimits::DOCUMENT).unwrap();
        assert_eq!(parse_calls(ProviderFormat::Anthropic, &moved).unwrap(), calls);
    }
    assert!(read > 500, "{read}");
}
