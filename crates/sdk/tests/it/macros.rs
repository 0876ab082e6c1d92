//! Tests of the expansion of `#[tool]`.

#![expect(
    clippy::needless_pass_by_value,
    clippy::unused_async,
    reason = "tools are written as their authors write them"
)]

use bytes::Bytes;
use sdk::{AddToolError, Call, Failure, Node, NodeOptions, Tool, ToolSet, call_tool, tool};
use serde_json::{Value, json};

/// Reverses a given string input
///
/// and says so.
#[tool(metadata = json!({ "version": "1.0.0" }))]
fn reverse_text(text: String) -> Value {
    json!({ "result": text.chars().rev().collect::<String>() })
}

#[tool(name = "reverse.bytes", description = "Raw bytes", input_spec = json!({ "text": "string" }))]
fn reverse(input: Bytes) -> Bytes {
    input.iter().rev().copied().collect()
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Sum {
    of: Vec<i64>,
}

#[tool]
async fn sum(input: Sum) -> Result<i64, String> {
    tokio::task::yield_now().await;
    input.of.into_iter().try_fold(0_i64, i64::checked_add).ok_or_else(|| "too large".to_owned())
}

#[tool]
async fn told(
    /// How often.
    times: u8,
    call: Call,
    #[serde(default)] with: Option<String>,
) -> Result<String, Failure> {
    for time in 0..times {
        call.report_progress(f64::from(time), Some(f64::from(times)), "more");
    }
    Ok(format!("{times} {}", with.unwrap_or_default()))
}

#[tool]
fn nothing() -> u8 {
    7
}

fn all() -> [Tool; 5] {
    [reverse_text(), reverse(), sum(), told(), nothing()]
}

#[tokio::test]
async fn a_function_is_a_tool_by_its_attribute() {
    let mut tools = ToolSet::default();
    for tool in all() {
        tools.add_tool(tool).unwrap();
    }
    let node = Node::start(tools, NodeOptions::default().port(0)).await.unwrap();
    let port = node.address().port();
    let called = async |name: &str, input: Value| {
        let called = call_tool(name, &input, "127.0.0.1", port).await;
        if called.success { Ok(called.output) } else { Err(called.error) }
    };
    let said = called("reverse_text", json!({"text": "hello"})).await;
    assert_eq!(said, Ok(json!({"result": "olleh"})));
    assert_eq!(called("reverse.bytes", json!(12)).await, Ok(json!(21)));
    assert_eq!(called("sum", json!({"of": [1, 2, 3]})).await, Ok(json!(6)));
    let large = called("sum", json!({"of": [i64::MAX, 1]})).await;
    assert_eq!(large, Err("too large".to_owned()));
    assert_eq!(called("told", json!({"times": 2})).await, Ok(json!("2 ")));
    assert_eq!(called("told", json!({"times": 2, "with": "x"})).await, Ok(json!("2 x")));
    assert_eq!(called("nothing", json!({})).await, Ok(json!(7)));
    let unfit = called("told", json!({"times": "many"})).await.unwrap_err();
    assert!(unfit.starts_with("invalid input: "), "{unfit}");
    node.stop().await;
}

#[test]
fn name_description_and_schema_are_made_of_the_function() {
    let shown = |tool: &Tool| (tool.name().to_owned(), tool.about().to_owned());
    let pairs = all().each_ref().map(shown);
    let pair = |name: &str, about: &str| (name.to_owned(), about.to_owned());
    assert_eq!(pairs[0], pair("reverse_text", "Reverses a given string input\n\nand says so."));
    assert_eq!(pairs[1], pair("reverse.bytes", "Raw bytes"));
    assert_eq!(pairs[2], pair("sum", ""));
    let spec = told().spec().clone();
    assert_eq!(spec["properties"]["times"]["description"], "How often.");
    assert_eq!(spec["properties"]["times"]["maximum"], 255);
    assert_eq!(spec["required"], json!(["times"]));
    assert_eq!(reverse().spec(), &json!({ "text": "string" }));
}

#[test]
fn a_name_is_taken_once_with_the_cluster_tools_text() {
    let mut tools = ToolSet::default();
    tools.add_tool(sum()).unwrap();
    let twice = tools.add_tool(sum()).unwrap_err();
    assert_eq!(twice, AddToolError::NameTaken("sum".to_owned()));
    assert_eq!(twice.to_string(), "Tool 'sum' is already registered.");
}
