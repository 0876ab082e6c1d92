//! The steps of a scenario, run through Toolkeep.

use serde_json::{Map, Value, json};

use super::door::Door;
use super::mirror;

/// Maximum number of input rounds per call.
const ROUNDS: usize = 8;
/// The tool that is called between two rounds of another, if it exists.
const UNRELATED: &str = "test_mrtr_unrelated";

/// Uses everything that the server offers: lists, calls every tool, reads every resource, gets
/// every prompt, with the arguments of the scenario if there are any.
///
/// # Errors
/// Returns an error if the tools cannot be listed or the call that the scenario tests fails.
pub(super) async fn take(door: &Door, scenario: &str, context: &Value) -> Result<(), String> {
    let tools = list(door, "tools/list", "tools").await?;
    match scenario {
        "json-schema-ref-no-deref" | "request-metadata" => return Ok(()),
        "json-schema-2020-12-preservation" => return echo(door, &tools).await,
        "tools_call" => {
            return Calls::of(door, &tools)
                .call("add_numbers", json!({ "a": 5, "b": 3 }))
                .await
                .map(drop);
        }
        _ => {}
    }
    let calls = Calls::of(door, &tools);
    let given = context["toolCalls"].as_array().cloned().unwrap_or_default();
    for it in &given {
        let name = it["name"].as_str().unwrap_or_default();
        let mut done = calls.call(name, it["arguments"].clone()).await;
        if done.as_ref().is_ok_and(|result| result["isError"] == true) {
            // A gateway that validates arguments rejects null for a boolean: nulls are then
            // omitted, as its error suggests.
            done = calls.call(name, without_nulls(&it["arguments"])).await;
        }
        note(done);
    }
    for tool in tools.iter().filter(|tool| given.is_empty() && tool["name"] != UNRELATED) {
        let name = tool["name"].as_str().unwrap_or_default();
        note(calls.call(name, arguments(&tool["inputSchema"])).await);
    }
    // Not every server supports these.
    for resource in list(door, "resources/list", "resources").await.unwrap_or_default() {
        note(door.ask("resources/read", json!({ "uri": resource["uri"] })).await);
    }
    for prompt in list(door, "prompts/list", "prompts").await.unwrap_or_default() {
        let names = prompt["arguments"].as_array().into_iter().flatten();
        let texts = names.filter_map(|it| Some((it["name"].as_str()?.to_owned(), json!("x"))));
        let params = json!({ "name": prompt["name"], "arguments": texts.collect::<Map<_, _>>() });
        note(door.ask("prompts/get", params).await);
    }
    Ok(())
}

/// Lists and calls every tool; returns all output.
///
/// # Errors
/// Returns an error if the tools cannot be listed.
pub(super) async fn called(door: &Door) -> Result<String, String> {
    let tools = list(door, "tools/list", "tools").await?;
    let calls = Calls::of(door, &tools);
    let mut said = String::new();
    for tool in &tools {
        let name = tool["name"].as_str().unwrap_or_default();
        match calls.call(name, arguments(&tool["inputSchema"])).await {
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
fn note(done: Result<Value, String>) {
    match done {
        Ok(result) => println!("{result}"),
        Err(error) => println!("{error}"),
    }
}

async fn list(door: &Door, method: &str, key: &str) -> Result<Vec<Value>, String> {
    let mut all = Vec::new();
    let mut params = json!({});
    for _ in 0..ROUNDS {
        let mut page = door.ask(method, params).await?;
        all.extend(page[key].as_array().cloned().unwrap_or_default());
        match page["nextCursor"].take() {
            Value::Null => break,
            cursor => params = json!({ "cursor": cursor }),
        }
    }
    Ok(all)
}

async fn echo(door: &Door, tools: &[Value]) -> Result<(), String> {
    let focal = tools.iter().find(|tool| tool["name"] == "json_schema_2020_12_tool");
    let schema = focal.map(|tool| tool["inputSchema"].clone()).ok_or("the tool is not listed")?;
    let echo = json!({ "schema": schema });
    Calls::of(door, tools).call("json_schema_echo", echo).await.map(drop)
}

/// Calls of the listed tools.
struct Calls<'a> {
    door: &'a Door,
    tools: &'a [Value],
}

impl<'a> Calls<'a> {
    fn of(door: &'a Door, tools: &'a [Value]) -> Self {
        Self { door, tools }
    }

    fn schema(&self, name: &str) -> Option<&Value> {
        self.tools.iter().find(|tool| tool["name"] == name).map(|tool| &tool["inputSchema"])
    }

    /// Calls a tool and answers its input requests.
    async fn call(&self, name: &str, arguments: Value) -> Result<Value, String> {
        let schema = self.schema(name).cloned().unwrap_or_default();
        let headers = mirror::headers(&schema, &arguments);
        let mut params = json!({ "name": name, "arguments": arguments });
        for _ in 0..ROUNDS {
            let asked = self.door.ask_with("tools/call", params.clone(), headers.clone());
            let result = asked.await?;
            if result["resultType"] != "input_required" {
                return Ok(result);
            }
            if self.schema(UNRELATED).is_some() {
                let other = json!({ "name": UNRELATED, "arguments": {} });
                note(self.door.ask("tools/call", other).await);
            }
            let questions = result["inputRequests"].as_object().cloned().unwrap_or_default();
            let answers = questions.iter().map(|(key, question)| (key.clone(), reply(question)));
            params["inputResponses"] = Value::Object(answers.collect());
            match result.get("requestState") {
                Some(state) => params["requestState"] = state.clone(),
                None => drop(params.as_object_mut().map(|it| it.remove("requestState"))),
            }
        }
        Err(format!("`{name}` asks too often"))
    }
}

fn reply(question: &Value) -> Value {
    match question["method"].as_str() {
        Some("elicitation/create") => {
            json!({ "action": "accept", "content": arguments(&question["params"]["requestedSchema"]) })
        }
        Some("sampling/createMessage") => json!({ "role": "assistant", "model": "none",
            "content": { "type": "text", "text": "An answer." }, "stopReason": "endTurn" }),
        _ => json!({ "roots": [] }),
    }
}

/// Creates arguments for a schema: defaults where present, else placeholders for required members.
fn arguments(schema: &Value) -> Value {
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
