//! What comes of one action at each interface that has it.

use proto::connect::Line;
use proto::node::ListRequest;
use serde_json::{Value, json};

use super::model::{Action, THINGS, dangerous};
use super::{Fixture, Interfaces};
use crate::grpc::{claiming, with_key};
use crate::support::client::message;
use crate::support::{Client, Reply};

/// What came of an action at one interface.
pub(super) type Came = (&'static str, String);

/// A wrong hash of a definition.
const DEFINITION: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// Names in order, as one text.
fn joined<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names.dedup();
    names.join(" ")
}

fn named<'a>(list: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    let field = field.to_owned();
    list.as_array().unwrap().iter().map(move |one| one[field.as_str()].as_str().unwrap())
}

/// The class of a status. A conflict is told to who may, and is what is left of a decision that was made.
fn class(reply: &Reply, good: &str) -> String {
    match reply.status.as_u16() {
        200 | 409 => good.to_owned(),
        202 => "pending".to_owned(),
        403 => "forbidden".to_owned(),
        404 => "hidden".to_owned(),
        other => format!("{other}: {}", reply.text()),
    }
}

pub(super) async fn lists(client: &Client, line: &Line) -> Vec<Came> {
    let rest = client.get("/v1/tools").await.good();
    let formatted = client.get("/v1/tools?format=mcp").await.good();
    let modules = client.get("/tools").await.good();
    let legacy = client.legacy(&message("tools/list", json!({}))).await.good();
    let modern = client.modern("tools/list", json!({})).await.good();
    let grpc = line.node().list(with_key(ListRequest {}, &client.bearer())).await.unwrap();
    let grpc = grpc.into_inner().tools;
    vec![
        ("rest", joined(named(&rest["tools"], "name"))),
        ("rest as mcp", joined(named(&formatted["tools"], "name"))),
        ("modules", joined(named(&modules["tools"], "name"))),
        ("mcp 2025-11-25", joined(named(&legacy["result"]["tools"], "name"))),
        ("mcp 2026-07-28", joined(named(&modern["result"]["tools"], "name"))),
        ("grpc", joined(grpc.iter().map(|tool| tool.name.as_str()))),
    ]
}

/// A call by every interface; with the ids of those that are pending.
pub(super) async fn calls(client: &Client, line: &Line, tool: &str) -> Vec<Came> {
    let call = json!({"name": tool, "arguments": {}});
    let execute = json!({"tool_name": tool, "arguments": {}});
    vec![
        ("rest", class(&client.call(tool, json!({})).await, "allowed")),
        ("modules", of_modules(&client.post("/execute", &execute).await.good())),
        ("mcp 2025-11-25", of_mcp(&client.legacy(&message("tools/call", call.clone())).await)),
        ("mcp 2026-07-28", of_mcp(&client.modern("tools/call", call).await)),
        ("grpc", of_grpc(claiming(line, &client.bearer(), (tool, &json!({})), &[]).await)),
    ]
}

fn of_modules(reply: &Value) -> String {
    let error = reply["error"].as_str().unwrap_or_default();
    match reply["result"]["status"].as_str() {
        Some("pending_approval") => "pending".to_owned(),
        _ if reply["success"] == true => "allowed".to_owned(),
        // Whose view has nothing of a module has no such module.
        _ if error.starts_with("Unknown") => "hidden".to_owned(),
        _ => error.to_owned(),
    }
}

fn of_mcp(reply: &Reply) -> String {
    let body = reply.messages().pop().unwrap();
    if body["error"]["code"] == -32_602 {
        return "hidden".to_owned();
    }
    let result = &body["result"];
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    if result["resultType"] == "input_required" || text.contains("waits for a person's approval") {
        return "pending".to_owned();
    }
    if result["isError"] == true { text.to_owned() } else { "allowed".to_owned() }
}

fn of_grpc((ran, told): (bool, String)) -> String {
    match told.as_str() {
        _ if ran => "allowed".to_owned(),
        told if told.contains("waits for a person's approval") => "pending".to_owned(),
        told if told.starts_with("Tool '") && told.ends_with("' not found.") => "hidden".to_owned(),
        told => told.to_owned(),
    }
}

async fn explained(client: &Client, tool: &str) -> String {
    let told = client.post("/v1/explain", &json!({ "tool": tool })).await.good();
    match told["decision"].as_str().unwrap() {
        "hold" => "pending".to_owned(),
        "allow" => "allowed".to_owned(),
        other => other.to_owned(),
    }
}

/// Everything that one principal tries.
pub(super) async fn all(
    (fixture, interfaces): (&Fixture, &Interfaces),
    client: &Client,
    tools: &[usize],
) -> Vec<(Action, Came)> {
    let line = &interfaces.line;
    let mut seen = Vec::new();
    let lists = lists(client, line).await;
    seen.extend(lists.into_iter().map(|came| (Action::List, came)));
    seen.extend(approvals(fixture, client).await);
    for &tool in tools {
        let name = THINGS[tool].name;
        let shown = client.get(&format!("/v1/tools/{name}")).await;
        seen.push((Action::Show(tool), ("rest", class(&shown, "visible"))));
        seen.push((Action::Explain(tool), ("rest", explained(client, name).await)));
        let calls = calls(client, line, name).await;
        seen.extend(calls.into_iter().map(|came| (Action::Call(tool), came)));
    }
    seen.extend(own(client, tools).await);
    seen.extend(managed(client).await.map(|(action, came)| (action, ("rest", came))));
    seen
}

/// Others' pending calls, which were decided before: whoever may decide is told so.
async fn approvals(fixture: &Fixture, client: &Client) -> Vec<(Action, Came)> {
    let mut seen = Vec::new();
    let list = client.get("/v1/approvals?state=all&limit=200").await.good();
    let tools = list["approvals"].as_array().unwrap().iter();
    let tools = tools.filter(|one| one["asked_by"]["subject"] == "bot");
    let tools = joined(tools.map(|one| one["tool"].as_str().unwrap()));
    seen.push((Action::Approvals, ("rest", tools)));
    let mut note = |action, came: String| seen.push((action, ("rest", came)));
    for (tool, id) in dangerous().zip(&fixture.decided) {
        let path = format!("/v1/approvals/{id}");
        note(Action::Approval(tool), class(&client.get(&path).await, "visible"));
        let decide = async |how: &str, body: Value| {
            let reply = client.post(&format!("{path}/{how}"), &body).await;
            // Who sees nothing of a call is told that it is not there; who may not decide, so.
            class(&reply, "allowed")
        };
        note(Action::Approve(tool), decide("approve", json!({})).await);
        note(Action::Deny(tool), decide("deny", json!({})).await);
        note(Action::Edit(tool), decide("edit", json!({"arguments": {"n": 1}})).await);
    }
    if let Some(id) = fixture.decided.first() {
        let resume = client.post(&format!("/v1/calls/{id}/resume"), &json!({})).await;
        note(Action::ResumeOther, class(&resume, "visible"));
    }
    seen
}

/// A call of its own that is pending, where it has one.
async fn own(client: &Client, tools: &[usize]) -> Vec<(Action, Came)> {
    let mut seen = Vec::new();
    for tool in tools.iter().filter(|tool| THINGS[**tool].dangerous) {
        let name = THINGS[*tool].name;
        let called = client.call(name, json!({"n": 2})).await.json()["approval"]["id"].clone();
        let body = json!({"tool_name": name, "arguments": {"n": 4}});
        let executed = client.post("/execute", &body).await.good();
        let executed = executed["result"]["metadata"]["approval_id"].clone();
        // Both are approved by REST: by the interface that the call came by, and by another.
        for (interface, id) in [("rest, own", called), ("modules, own", executed)] {
            // Where the call was refused, nothing is pending.
            let Some(id) = id.as_str() else { continue };
            let path = format!("/v1/approvals/{id}");
            let shown = client.get(&path).await;
            seen.push((Action::OwnPending, (interface, class(&shown, "visible"))));
            let approved = client.post(&format!("{path}/approve"), &json!({})).await;
            seen.push((Action::ApproveOwn, (interface, class(&approved, "allowed"))));
        }
    }
    seen
}

/// What is not about one tool.
async fn managed(client: &Client) -> impl Iterator<Item = (Action, String)> {
    let sources = client.get("/v1/sources").await.good();
    let sources = joined(named(&sources["sources"], "name"));
    let refresh = client.post("/v1/sources/refresh", &json!({"source": "s"})).await;
    let pins = client.get("/v1/pins").await;
    let pins = match pins.status.as_u16() {
        200 if pins.json()["pins"] == json!([]) => "hidden".to_owned(),
        _ => class(&pins, "visible"),
    };
    let pin = json!({ "definition": DEFINITION });
    let pin = client.post("/v1/pins/s/s.look/approve", &pin).await;
    let plugins = client.get("/v1/plugins").await.good();
    let plugins = if plugins["plugins"] == json!([]) { "hidden" } else { "visible" };
    let settings = "/v1/plugins/notes/settings";
    let set = client.post(settings, &json!({"enabled": true})).await;
    [
        (Action::Sources, sources),
        (Action::RefreshSource, class(&refresh, "allowed")),
        (Action::Pins, pins),
        (Action::DecidePin, class(&pin, "allowed")),
        (Action::Plugins, plugins.to_owned()),
        (Action::PluginSettings, class(&client.get(settings).await, "visible")),
        (Action::SetPluginSettings, class(&set, "allowed")),
        (Action::Records, class(&client.get("/v1/records?limit=1").await, "allowed")),
        (Action::Keys, class(&client.get("/v1/keys").await, "allowed")),
        (Action::Artefact, class(&client.get("/v1/artefacts/a1").await, "visible")),
    ]
    .into_iter()
}
