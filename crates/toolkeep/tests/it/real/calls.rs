//! Calls at every interface, and the comparison of two results.

use serde_json::{Map, Value, json};

/// Tells its progress at each step.
pub(super) const LONG: &str = "everything.trigger-long-running-operation";

/// One of each source at least: with text, with an image, with structured content, with an effect,
/// and one that the tool itself fails.
pub(super) fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("calculator", json!({ "expression": "2^10 + 1" })),
        ("office_hours", json!({})),
        ("everything.echo", json!({ "message": "grüße, \u{1f600} \"quoted\"\n" })),
        ("everything.get-sum", json!({ "a": 2, "b": 40.5 })),
        ("everything.get-tiny-image", json!({})),
        (
            "everything.get-annotated-message",
            json!({ "messageType": "error", "includeImage": true }),
        ),
        ("everything.get-structured-content", json!({ "location": "New York" })),
        ("everything.get-resource-links", json!({ "count": 3 })),
        ("everything.get-env", json!({})),
        (LONG, json!({ "duration": 1, "steps": 4 })),
        ("remote.echo", json!({ "message": "over HTTP" })),
        ("remote.get-structured-content", json!({ "location": "Chicago" })),
        ("files.read_text_file", json!({ "path": "a.txt" })),
        ("files.write_file", json!({ "path": "b.txt", "content": "written by a call\n" })),
        ("files.list_directory", json!({ "path": "." })),
        ("files.read_text_file", json!({ "path": "/etc/hostname" })),
        ("time.convert_time", convert()),
        ("time.get_current_time", json!({ "timezone": "Nowhere/At_All" })),
        ("notes.count_words", json!({ "text": "three small words" })),
        ("notes.read", json!({ "number": 1 })),
        ("notes.read", json!({ "number": 1_000 })),
    ]
}

fn convert() -> Value {
    json!({ "source_timezone": "Etc/UTC", "time": "12:30", "target_timezone": "Asia/Tokyo" })
}

/// Text that some results must contain, at every interface.
pub(super) fn expected(tool: &str, arguments: &Value) -> Option<Value> {
    match (tool, arguments["path"].as_str()) {
        ("calculator", _) => Some(json!({ "expression": "2^10 + 1", "result": 1025 })),
        ("office_hours", _) => Some(json!({ "monday_to_friday": "9 to 17" })),
        ("everything.echo", _) => Some(json!("Echo: grüße, \u{1f600} \"quoted\"\n")),
        ("everything.get-sum", _) => Some(json!("The sum of 2 and 40.5 is 42.5.")),
        ("remote.echo", _) => Some(json!("Echo: over HTTP")),
        ("files.read_text_file", Some("a.txt")) => Some(json!({ "content": "first\n" })),
        ("time.convert_time", _) => Some(json!("+9.0h")),
        ("notes.count_words", _) => Some(json!({ "words": 3, "characters": 17 })),
        ("notes.read", _) if arguments["number"] == 1 => Some(json!("the first note")),
        _ => None,
    }
}

/// Calls that the tool itself fails.
pub(super) fn fails(tool: &str, arguments: &Value) -> bool {
    tool == "time.get_current_time"
        || arguments["path"] == "/etc/hostname"
        || arguments["number"] == 1_000
}

/// An answer as every door has it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    is_error: bool,
    /// Structured content, else the text, else the content blocks.
    value: Value,
    /// The blocks; of a tool that is no MCP server's only the MCP door has any.
    content: Option<Value>,
}

impl Answer {
    /// The same without the date, which may change between two interfaces.
    pub(super) fn without_day(self) -> Self {
        Self { value: self.value["time_difference"].clone(), content: None, ..self }
    }

    /// From the REST door, and from the command line, which passes that on.
    pub(super) fn of_rest(reply: &Value) -> Self {
        let content = reply.get("content").cloned();
        let is_error = reply["is_error"].as_bool().unwrap();
        Self { is_error, value: even(reply["result"].clone()), content: content.map(even) }
    }

    /// From the MCP client.
    pub(super) fn of_mcp(line: &Value) -> Self {
        let answer = &line["answer"];
        let content = answer["content"].clone();
        let is_error = answer["isError"].as_bool().unwrap_or(false);
        let text = match content.as_array().map(Vec::as_slice) {
            Some([block]) if block["type"] == "text" => Some(block["text"].clone()),
            _ => None,
        };
        let structured = answer.get("structuredContent").filter(|it| !it.is_null()).cloned();
        let value = structured.or(text).unwrap_or_else(|| content.clone());
        Self { is_error, value: even(value), content: Some(even(content)) }
    }

    pub(super) fn value(&self) -> &Value {
        &self.value
    }

    pub(super) fn says(&self, expected: &Value) -> bool {
        self.value == even(expected.clone())
    }

    pub(super) fn is_error(&self) -> bool {
        self.is_error
    }

    /// Returns whether the results are equal. If one has no blocks, the values decide.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        let blocks = match (&self.content, &other.content) {
            (Some(own), Some(others)) => own == others,
            _ => true,
        };
        self.is_error == other.is_error && self.value == other.value && blocks
    }
}

/// Normalises numbers, `1` for `1.0`, because Python and JavaScript write them differently.
fn even(value: Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.into_iter().map(even).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(key, value)| (key, even(value))).collect::<Map<_, _>>().into()
        }
        other => other,
    }
}

#[test]
fn answers_differ_where_anything_that_counts_differs() {
    let rest = |result: Value, content: Option<Value>| {
        let mut reply = json!({ "is_error": false, "result": result });
        reply.as_object_mut().unwrap().extend(content.map(|it| ("content".to_owned(), it)));
        Answer::of_rest(&reply)
    };
    let mcp = |answer: Value| Answer::of_mcp(&json!({ "answer": answer }));
    let text = |text: &str| json!([{ "type": "text", "text": text }]);
    let plain = mcp(json!({ "content": text("a") }));
    assert!(plain.agrees(&rest(json!("a"), Some(text("a")))));
    assert!(plain.agrees(&rest(json!("a"), None)));
    assert!(!plain.agrees(&rest(json!("b"), Some(text("b")))));
    assert!(!plain.agrees(&mcp(json!({ "content": text("a"), "isError": true }))));
    let both = mcp(json!({ "content": text("a"), "structuredContent": { "n": 1.0 } }));
    assert!(both.agrees(&rest(json!({ "n": 1 }), Some(text("a")))));
    assert!(!both.agrees(&rest(json!({ "n": 2 }), Some(text("a")))));
    assert!(!both.agrees(&rest(json!({ "n": 1 }), Some(text("b")))));
}
