//! The steps of a scenario, run through Toolkeep.

use serde_json::{Map, Value, json};

use super::argument_headers;
use super::toolkeep_client::ToolkeepClient;

/// Maximum number of input rounds per call.
const MAX_ROUNDS: usize = 8;
/// The tool that is called between two rounds of another, if it exists.
const UNRELATED_TOOL: &str = "test_mrtr_unrelated";

/// Uses everything that the server offers: lists, calls every tool, reads every resource, gets
/// every prompt, with the arguments of the scenario if there are any.
///
/// # Errors
/// Returns an error if the tools cannot be listed or the call that the scenario tests fails.
pub(super) async fn run_steps(
    client: &ToolkeepClient,
    scenario: &str,
    context: &Value,
) -> Result<(), String> {
    let tools = list_entries(client, "tools/list", "tools").await?;
    match scenario {
        "json-schema-ref-no-deref" | "request-metadata" => return Ok(()),
        "json-schema-2020-12-preservation" => return call_echo(client, &tools).await,
        "tools_call" => {
            return ToolCalls::new(client, &tools)
                .call_tool("add_numbers", json!({ "a": 5, "b": 3 }))
                .await
                .map(drop);
        }
        _ => {}
    }
    let calls = ToolCalls::new(client, &tools);
    let given = context["toolCalls"].as_array().cloned().unwrap_or_default();
    for it in &given {
        let name = it["name"].as_str().unwrap_or_default();
        let mut done = calls.call_tool(name, it["arguments"].clone()).await;
        if done.as_ref().is_ok_and(|result| result["isError"] == true) {
            // A gateway that validates arguments rejects null for a boolean: nulls are then
            // omitted, as its error suggests.
            done = calls.call_tool(name, without_nulls(&it["arguments"])).await;
        }
        report_result(done);
    }
    for tool in tools.iter().filter(|tool| given.is_empty() && tool["name"] != UNRELATED_TOOL) {
        let name = tool["name"].as_str().unwrap_or_default();
        report_result(calls.call_tool(name, sample_arguments(&tool["inputSchema"])).await);
    }
    // Not every server supports these.
    for resource in list_entries(client, "resources/list", "resources").await.unwrap_or_default() {
        report_result(
            client.call_method("resources/read", json!({ "uri": resource["uri"] })).await,
        );
    }
    for prompt in list_entries(client, "prompts/list", "prompts").await.unwrap_or_default() {
        let names = prompt["arguments"].as_array().into_iter().flatten();
        let texts = names.filter_map(|it| Some((it["name"].as_str()?.to_owned(), json!("x"))));
        let params = json!({ "name": prompt["name"], "arguments": texts.collect::<Map<_, _>>() });
        report_result(client.call_method("prompts/get", params).await);
    }
    Ok(())
}

/// Lists and calls every tool; returns all output.
///
/// # Errors
/// Returns an error if the tools cannot be listed.
pub(super) async fn call_all_tools(client: &ToolkeepClient) -> Result<String, String> {
    let tools = list_entries(client, "tools/list", "tools").await?;
    let calls = ToolCalls::new(client, &tools);
    let mut said = String::new();
    for tool in &tools {
        let name = tool["name"].as_str().unwrap_or_default();
        match calls.call_tool(name, sample_arguments(&tool["inputSchema"])).await {
            Ok(result) => said.push_str(&result.to_string()),
            Err(error) => said.push_str(&error),
        }
        said.push('\n');
    }
    println!("{said}");
    Ok(said)
}

fn without_nulls(arguments: &Value) -> Value {
    let mut arguments = arguments.clone();
    if let Some(members) = arguments.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    arguments
}

/// Reports the result of one step; the suite evaluates what its server received.
fn report_result(done: Result<Value, String>) {
    match done {
        Ok(result) => println!("{result}"),
        Err(error) => println!("{error}"),
    }
}

async fn list_entries(
    client: &ToolkeepClient,
    method: &str,
    key: &str,
) -> Result<Vec<Value>, String> {
    let mut all = Vec::new();
    let mut params = json!({});
    for _ in 0..MAX_ROUNDS {
        let mut page = client.call_method(method, params).await?;
        all.extend(page[key].as_array().cloned().unwrap_or_default());
        match page["nextCursor"].take() {
            Value::Null => break,
            cursor => params = json!({ "cursor": cursor }),
        }
    }
    Ok(all)
}

async fn call_echo(client: &ToolkeepClient, tools: &[Value]) -> Result<(), String> {
    let focal = tools.iter().find(|tool| tool["name"] == "json_schema_2020_12_tool");
    let schema = focal.map(|tool| tool["inputSchema"].clone()).ok_or("the tool is not listed")?;
    let echo = json!({ "schema": schema });
    ToolCalls::new(client, tools).call_tool("json_schema_echo", echo).await.map(drop)
}

/// Calls of the listed tools.
struct ToolCalls<'a> {
    client: &'a ToolkeepClient,
    tools: &'a [Value],
}

impl<'a> ToolCalls<'a> {
    fn new(client: &'a ToolkeepClient, tools: &'a [Value]) -> Self {
        Self { client, tools }
    }

    fn input_schema(&self, name: &str) -> Option<&Value> {
        self.tools.iter().find(|tool| tool["name"] == name).map(|tool| &tool["inputSchema"])
    }

    /// Calls a tool and answers its input requests.
    async fn call_tool(&self, name: &str, arguments: Value) -> Result<Value, String> {
        let schema = self.input_schema(name).cloned().unwrap_or_default();
        let headers = argument_headers::mirrored_headers(&schema, &arguments);
        let mut params = json!({ "name": name, "arguments": arguments });
        for _ in 0..MAX_ROUNDS {
            let response =
                self.client.call_method_with("tools/call", params.clone(), headers.clone());
            let result = response.await?;
            if result["resultType"] != "input_required" {
                return Ok(result);
            }
            if self.input_schema(UNRELATED_TOOL).is_some() {
                let other = json!({ "name": UNRELATED_TOOL, "arguments": {} });
                report_result(self.client.call_method("tools/call", other).await);
            }
            let questions = result["inputRequests"].as_object().cloned().unwrap_or_default();
            let answers =
                questions.iter().map(|(key, question)| (key.clone(), answer_question(question)));
            params["inputResponses"] = Value::Object(answers.collect());
            match result.get("requestState") {
                Some(state) => params["requestState"] = state.clone(),
                None => drop(params.as_object_mut().map(|it| it.remove("requestState"))),
            }
        }
        Err(format!("`{name}` asks too often"))
    }
}

fn answer_question(question: &Value) -> Value {
    match question["method"].as_str() {
        Some("elicitation/create") => {
            json!({ "action": "accept", "content": sample_arguments(&question["params"]["requestedSchema"]) })
        }
        Some("sampling/createMessage") => json!({ "role": "assistant", "model": "none",
            "content": { "type": "text", "text": "An answer." }, "stopReason": "endTurn" }),
        _ => json!({ "roots": [] }),
    }
}

/// Creates arguments for a schema: defaults where present, else placeholders for required members.
fn sample_arguments(schema: &Value) -> Value {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let mut object = Map::new();
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let needed = required.iter().any(|it| it == key);
        let value = match (property.get("default"), property["type"].as_str()) {
            (Some(default), _) => default.clone(),
            (None, _) if !needed => continue,
            (None, Some("boolean")) => json!(true),
            (None, Some("number" | "integer")) => json!(1),
            (None, Some("array")) => json!([]),
            (None, Some("object")) => json!({}),
            (None, _) => property["enum"].get(0).cloned().unwrap_or_else(|| json!("x")),
        };
        object.insert(key.clone(), value);
    }
    Value::Object(object)
}
