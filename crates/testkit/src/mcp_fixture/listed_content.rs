//! The content of the fixture: lists, prompts, resources, completions.

use std::sync::LazyLock;
use std::sync::atomic::Ordering;

use serde_json::{Map, Value, json};

use super::fixture_state::FixtureState;
use super::json_rpc::{FixtureRequest, RpcError};

fn parse_static(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON of our own")
}

static TOOLS: LazyLock<Value> = LazyLock::new(|| parse_static(include_str!("tools.json")));
static PROMPTS: LazyLock<Value> = LazyLock::new(|| parse_static(include_str!("prompts.json")));
static RESOURCES: LazyLock<Value> = LazyLock::new(|| parse_static(include_str!("resources.json")));

/// Returns a page of a list.
///
/// # Errors
/// Returns an error for an unknown cursor.
pub(super) fn list_page(
    fixture: &FixtureState,
    request: &FixtureRequest,
) -> Result<Value, RpcError> {
    let (key, mut all) = match request.method.as_str() {
        "tools/list" => ("tools", visible_tools(fixture)),
        "prompts/list" => ("prompts", visible_prompts(fixture)),
        "resources/list" => ("resources", list_entries(&RESOURCES["resources"])),
        _ => ("resourceTemplates", list_entries(&RESOURCES["templates"])),
    };
    let from = match request.params.get("cursor") {
        None => 0,
        Some(cursor) => {
            cursor.as_str().and_then(|cursor| cursor.parse().ok()).unwrap_or(usize::MAX)
        }
    };
    if from > all.len() {
        return Err(RpcError::invalid_params("`cursor` is none that was given"));
    }
    let mut rest = all.split_off(from);
    let page = fixture.options.page_size;
    let more = page > 0 && rest.len() > page;
    if more {
        rest.truncate(page);
    }
    let mut answer = json!({ key: rest });
    if more {
        answer["nextCursor"] = json!((from + page).to_string());
    }
    Ok(answer)
}

fn list_entries(list: &Value) -> Vec<Value> {
    list.as_array().cloned().unwrap_or_default()
}

fn visible_tools(fixture: &FixtureState) -> Vec<Value> {
    let mut tools = list_entries(&TOOLS);
    if fixture.more_tools.load(Ordering::SeqCst) {
        let (name, description) = ("test_dynamic_tool", "Comes and goes.");
        let schema = json!({ "type": "object", "properties": {} });
        tools.push(json!({ "name": name, "description": description, "inputSchema": schema }));
    }
    tools
}

fn visible_prompts(fixture: &FixtureState) -> Vec<Value> {
    let mut prompts = list_entries(&PROMPTS);
    if fixture.more_prompts.load(Ordering::SeqCst) {
        prompts.push(json!({ "name": "test_dynamic_prompt", "description": "Comes and goes." }));
    }
    prompts
}

/// Finds a currently listed tool by name.
pub(super) fn find_tool(fixture: &FixtureState, name: &str) -> Option<Value> {
    visible_tools(fixture).into_iter().find(|tool| tool["name"] == name)
}

/// Reads the resource that a request names.
///
/// # Errors
/// Returns an error if the resource does not exist.
pub(super) fn read_resource(
    fixture: &FixtureState,
    request: &FixtureRequest,
) -> Result<Value, RpcError> {
    let uri = request.text_param("uri")?;
    let of = |kind: &str, key: &str, content: Value| json!({ "contents": [{ "uri": uri, "mimeType": kind, key: content }] });
    let version = fixture.watched_changes.load(Ordering::SeqCst);
    let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
    Ok(match (uri, id) {
        ("test://static-text", _) => {
            of("text/plain", "text", json!("This is the content of the static text resource."))
        }
        ("test://static-binary", _) => of("image/png", "blob", RESOURCES["image"].clone()),
        ("test://watched-resource", _) => {
            of("text/plain", "text", json!(format!("Watched resource content {version}")))
        }
        (_, Some(id)) if !id.is_empty() => {
            let data =
                json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
            of("application/json", "text", json!(data.to_string()))
        }
        _ => {
            return Err(
                RpcError::invalid_params("Resource not found").with_data(json!({ "uri": uri }))
            );
        }
    })
}

/// Whether clients can subscribe to a resource.
pub(super) fn is_resource(uri: &str) -> bool {
    RESOURCES["resources"].as_array().is_some_and(|all| all.iter().any(|it| it["uri"] == uri))
}

/// Renders a prompt from its arguments only.
///
/// # Errors
/// Returns an error if the prompt does not exist or an argument is missing.
pub(super) fn render_prompt(
    fixture: &FixtureState,
    request: &FixtureRequest,
) -> Result<Value, RpcError> {
    let name = request.text_param("name")?;
    let known = visible_prompts(fixture).into_iter().find(|prompt| prompt["name"] == name);
    let known =
        known.ok_or_else(|| RpcError::invalid_params(format!("there is no prompt `{name}`")))?;
    let none = Map::new();
    let arguments = request.params.get("arguments").and_then(Value::as_object).unwrap_or(&none);
    for argument in list_entries(&known["arguments"]) {
        let wanted = argument["name"].as_str().unwrap_or_default();
        if !arguments.get(wanted).is_some_and(Value::is_string) {
            return Err(RpcError::invalid_params(format!(
                "the prompt needs the argument `{wanted}`"
            )));
        }
    }
    let given = |key: &str| arguments.get(key).and_then(Value::as_str).unwrap_or_default();
    let text = |text: String| json!({ "type": "text", "text": text });
    let contents = match name {
        "test_prompt_with_arguments" => {
            let (one, two) = (given("arg1"), given("arg2"));
            vec![text(format!("Prompt with arguments: arg1='{one}', arg2='{two}'"))]
        }
        "test_prompt_with_embedded_resource" => {
            let resource = json!({ "uri": given("resourceUri"), "mimeType": "text/plain",
                "text": "Embedded resource content for testing." });
            let last = text("Please process the embedded resource above.".to_owned());
            vec![json!({ "type": "resource", "resource": resource }), last]
        }
        "test_prompt_with_image" => {
            let image =
                json!({ "type": "image", "data": RESOURCES["image"], "mimeType": "image/png" });
            vec![image, text("Please analyze the image above.".to_owned())]
        }
        _ => vec![text("This is a simple prompt for testing.".to_owned())],
    };
    let messages: Vec<Value> =
        contents.into_iter().map(|content| json!({ "role": "user", "content": content })).collect();
    Ok(json!({ "description": known["description"], "messages": messages }))
}

/// Completes the first argument of a prompt, and the ids of the resource template.
///
/// # Errors
/// Returns an error for an unknown completion reference.
pub(super) fn complete_argument(request: &FixtureRequest) -> Result<Value, RpcError> {
    let param = |path: &str| {
        let value = request.params.get(path.split('/').next()?)?;
        value.get(path.split('/').nth(1)?)?.as_str()
    };
    let missing = || RpcError::invalid_params("`ref` or `argument` is missing");
    let start = param("argument/value").ok_or_else(missing)?;
    let words: &[&str] = match param("ref/type").ok_or_else(missing)? {
        "ref/prompt" if param("ref/name") == Some("test_prompt_with_arguments") => {
            &["paris", "park", "party", "test", "testing"]
        }
        "ref/resource" if param("ref/uri") == Some("test://template/{id}/data") => {
            &["1", "12", "123"]
        }
        "ref/prompt" | "ref/resource" => &[],
        other => return Err(RpcError::invalid_params(format!("`{other}` cannot be completed"))),
    };
    let values: Vec<&&str> = words.iter().filter(|word| word.starts_with(start)).collect();
    Ok(json!({ "completion": { "total": values.len(), "hasMore": false, "values": values } }))
}
