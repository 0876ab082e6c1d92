//! Observations of one action at each interface that offers it.

use bytes::Bytes;
use hyper::Method;
use proto::client::GrpcChannel;
use proto::node::call_event::Event;
use proto::node::{CallRequest, ListRequest};
use serde_json::{Value, json};

use super::model::{Action, METHODS, MODEL_TOOLS, dangerous};
use super::requests::REQUESTS;
use super::{Fixture, Interfaces};
use crate::grpc::{call_with_claims, with_key};
use crate::support::client::{message, modern_message};
use crate::support::{Client, Reply};

/// Result of an action at one interface.
pub(super) type InterfaceResult = (&'static str, String);

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

/// The sources of the servers in a page of the registry, by their addresses.
fn server_sources(page: &Value) -> impl Iterator<Item = &str> {
    let servers = page["servers"].as_array().unwrap().iter();
    let urls = servers.map(|entry| entry["server"]["remotes"][0]["url"].as_str().unwrap());
    urls.map(|url| url.rsplit_once("/mcp/").unwrap().1)
}

/// Class of a status. A conflict is visible only to authorised principals, after a decision was
/// made.
fn class(reply: &Reply, good: &str) -> String {
    match reply.status.as_u16() {
        200 | 409 => good.to_owned(),
        202 => "pending".to_owned(),
        403 => "forbidden".to_owned(),
        404 => "hidden".to_owned(),
        other => format!("{other}: {}", reply.text()),
    }
}

pub(super) async fn lists(client: &Client, line: &GrpcChannel) -> Vec<InterfaceResult> {
    let rest = client.get("/v1/tools").await.expect_ok();
    let formatted = client.get("/v1/tools?format=mcp").await.expect_ok();
    let queries = MODEL_TOOLS.map(|tool| tool.name).join("&q=");
    let searched = client.get(&format!("/v1/search?k=100&q={queries}")).await.expect_ok();
    let modules = client.get("/tools").await.expect_ok();
    let legacy = client.legacy_request(&message("tools/list", json!({}))).await.expect_ok();
    let modern = client.modern_request("tools/list", json!({})).await.expect_ok();
    let grpc = line.node_client().list(with_key(ListRequest {}, &client.bearer())).await.unwrap();
    let grpc = grpc.into_inner().tools;
    vec![
        ("rest", joined(named(&rest["tools"], "name"))),
        ("rest as mcp", joined(named(&formatted["tools"], "name"))),
        ("search", joined(named(&searched["results"], "name"))),
        ("modules", joined(named(&modules["tools"], "name"))),
        ("mcp 2025-11-25", joined(named(&legacy["result"]["tools"], "name"))),
        ("mcp 2026-07-28", joined(named(&modern["result"]["tools"], "name"))),
        ("grpc", joined(grpc.iter().map(|tool| tool.name.as_str()))),
    ]
}

/// The tools of one source, at its own endpoint of MCP.
async fn lists_of_source(client: &Client) -> Vec<InterfaceResult> {
    let of_source = client.with_endpoint("/mcp/s");
    let listed = |reply: Reply| match reply.json()["result"].get("tools") {
        Some(tools) => joined(named(tools, "name")),
        None => "hidden".to_owned(),
    };
    vec![
        (
            "mcp 2025-11-25",
            listed(of_source.legacy_request(&message("tools/list", json!({}))).await),
        ),
        ("mcp 2026-07-28", listed(of_source.modern_request("tools/list", json!({})).await)),
    ]
}

/// A call by every interface.
pub(super) async fn calls(
    client: &Client,
    line: &GrpcChannel,
    tool: usize,
) -> Vec<InterfaceResult> {
    let (tool, source) = (MODEL_TOOLS[tool].name, MODEL_TOOLS[tool].source);
    let call = json!({"name": tool, "arguments": {}});
    let execute = json!({"tool_name": tool, "arguments": {}});
    let mut all = vec![
        ("rest", class(&client.call_tool(tool, json!({})).await, "allowed")),
        ("modules", of_modules(&client.post("/execute", &execute).await.expect_ok())),
        (
            "mcp 2025-11-25",
            of_mcp(&client.legacy_request(&message("tools/call", call.clone())).await),
        ),
        ("mcp 2026-07-28", of_mcp(&client.modern_request("tools/call", call.clone()).await)),
        ("grpc", of_grpc(call_with_claims(line, &client.bearer(), (tool, &json!({})), &[]).await)),
        ("grpc node", of_grpc(streamed(client, line, tool).await)),
    ];
    let of_nodes = json!({"tool_name": tool, "input": {}});
    if source == "s" {
        let own = client.post("/api/modules/s/execute", &execute).await.expect_ok();
        let at_source = client.with_endpoint("/mcp/s");
        all.extend([
            ("one module", of_modules(&own)),
            ("one source", of_mcp(&at_source.modern_request("tools/call", call).await)),
        ]);
    } else {
        let executed = client.post("/cluster-tools/execute", &of_nodes).await;
        all.push(("cluster", class(&executed, "allowed")));
    }
    all
}

/// A call of the gRPC service of nodes, to its end.
async fn streamed(client: &Client, line: &GrpcChannel, tool: &str) -> (bool, String) {
    let (call_id, tool_name) = ("c".to_owned(), tool.to_owned());
    let call = CallRequest { call_id, tool_name, input: Bytes::from_static(b"{}") };
    let call = line.node_client().call(with_key(call, &client.bearer())).await;
    let mut events = call.unwrap().into_inner();
    loop {
        let event = events.message().await.unwrap().expect("a call has a result").event;
        if let Some(Event::Result(said)) = event {
            return (said.success, said.error);
        }
    }
}

/// A method of a source's, by both eras.
async fn methods(client: &Client) -> Vec<(Action, InterfaceResult)> {
    let of_source = client.with_endpoint("/mcp/s");
    let reference = json!({"type": "ref/prompt", "name": "p"});
    let complete = json!({"ref": reference, "argument": {"name": "a", "value": ""}});
    let asked = [
        ("mcp.prompts.get", "prompts/list", json!({})),
        ("mcp.prompts.get", "prompts/get", json!({"name": "p"})),
        ("mcp.resources.read", "resources/list", json!({})),
        ("mcp.resources.read", "resources/templates/list", json!({})),
        ("mcp.resources.read", "resources/read", json!({"uri": "test:///r"})),
        ("mcp.resources.read", "skills/list", json!({})),
        ("mcp.completion.complete", "completion/complete", complete),
        ("mcp.resources.directory.read", "resources/directory/read", json!({"uri": "test:///d"})),
    ];
    let mut seen = Vec::new();
    for (behind, method, params) in asked {
        let action = METHODS.iter().position(|it| *it == behind).map(Action::Method).unwrap();
        let legacy = of_source.legacy_request(&message(method, params.clone())).await;
        seen.push((action, ("mcp 2025-11-25", of_method(&legacy))));
        let modern = of_source.modern_request(method, params).await;
        seen.push((action, ("mcp 2026-07-28", of_method(&modern))));
    }
    seen
}

fn of_method(reply: &Reply) -> String {
    let body = reply.messages().pop().unwrap();
    match body["error"]["code"].as_i64() {
        None => "visible".to_owned(),
        // Unknown source, or unknown method of it.
        Some(-32_600 | -32_601) => "hidden".to_owned(),
        Some(_) => body.to_string(),
    }
}

fn of_modules(reply: &Value) -> String {
    let error = reply["error"].as_str().unwrap_or_default();
    match reply["result"]["status"].as_str() {
        Some("pending_approval") => "pending".to_owned(),
        _ if reply["success"] == true => "allowed".to_owned(),
        // A principal that sees no tool of a module does not see the module.
        _ if error.starts_with("Unknown") => "hidden".to_owned(),
        // Nor a name without a module, where no such tool is there.
        _ if error.starts_with("Invalid tool name format") => "hidden".to_owned(),
        _ => error.to_owned(),
    }
}

fn of_mcp(reply: &Reply) -> String {
    let body = reply.messages().pop().unwrap();
    // No such tool, or no such source.
    if body["error"]["code"] == -32_602 || reply.status == 404 {
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

async fn explained(client: &Client, tool: &str, chain: bool) -> String {
    let told =
        client.post("/v1/explain", &json!({ "tool": tool, "chain": chain })).await.expect_ok();
    match told["decision"].as_str().unwrap() {
        "hold" => "pending".to_owned(),
        "allow" => "allowed".to_owned(),
        other => other.to_owned(),
    }
}

/// Lists, tools and calls.
pub(super) async fn tools(
    interfaces: &Interfaces,
    client: &Client,
    tools: &[usize],
) -> Vec<(Action, InterfaceResult)> {
    let line = &interfaces.line;
    let mut seen = Vec::new();
    let lists = lists(client, line).await;
    seen.extend(lists.into_iter().map(|came| (Action::List, came)));
    let lists = lists_of_source(client).await;
    seen.extend(lists.into_iter().map(|came| (Action::ListOfSource, came)));
    for &tool in tools {
        let name = MODEL_TOOLS[tool].name;
        let shown = client.get(&format!("/v1/tools/{name}")).await;
        seen.push((Action::Show(tool), ("rest", class(&shown, "visible"))));
        seen.push((Action::Explain(tool), ("rest", explained(client, name, false).await)));
        seen.push((Action::ExplainChain(tool), ("rest", explained(client, name, true).await)));
        let calls = calls(client, line, tool).await;
        seen.extend(calls.into_iter().map(|came| (Action::Call(tool), came)));
    }
    seen.extend(methods(client).await);
    seen
}

/// Pending calls: others', and its own of one tool.
pub(super) async fn decisions(
    fixture: &Fixture,
    client: &Client,
    own_tool: usize,
) -> Vec<(Action, InterfaceResult)> {
    let mut seen = approvals(fixture, client).await;
    seen.extend(own(client, own_tool).await);
    seen.extend(confirmed(client, own_tool).await.map(|came| (Action::ApproveOwn, came)));
    seen.push((Action::ResumeOther, ("mcp 2026-07-28", resumed(fixture, client).await)));
    seen
}

/// A client of MCP that declares that it asks its person, and answers that the person agrees to its own call.
/// Nothing where no call is pending.
async fn confirmed(client: &Client, tool: usize) -> Option<InterfaceResult> {
    let mut params = json!({"name": MODEL_TOOLS[tool].name, "arguments": {"n": 5}});
    let first = asking(client, &params).await;
    let state = first["result"].get("requestState")?;
    params["requestState"] = state.clone();
    let yes = json!({"action": "accept", "content": {"approve": true}});
    params["inputResponses"] = json!({ "approval": yes });
    let again = asking(client, &params).await;
    let came = match again["result"]["resultType"].as_str() {
        Some("input_required") => "forbidden".to_owned(),
        Some("complete") if again["result"]["isError"] != true => "allowed".to_owned(),
        _ => again.to_string(),
    };
    Some(("mcp 2026-07-28, own", came))
}

/// A call whose client supports form elicitation.
async fn asking(client: &Client, params: &Value) -> Value {
    let mut message = modern_message("tools/call", params.clone());
    let can = json!({"elicitation": {"form": {}}});
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = can;
    client.modern_message(&message).await.messages().pop().unwrap()
}

/// The same with the request state of another client.
async fn resumed(fixture: &Fixture, client: &Client) -> String {
    let again = asking(client, &fixture.resumed_by_bot).await;
    if again["error"]["code"] == -32_602 { "hidden".to_owned() } else { again.to_string() }
}

/// Decided calls of others: authorised principals get a conflict.
async fn approvals(fixture: &Fixture, client: &Client) -> Vec<(Action, InterfaceResult)> {
    let mut seen = Vec::new();
    let list = client.get("/v1/approvals?state=all&limit=200").await.expect_ok();
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
            // A principal that cannot see a call gets not found; one that may not decide gets
            // forbidden.
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

/// A pending call of its own, if any.
async fn own(client: &Client, tool: usize) -> Vec<(Action, InterfaceResult)> {
    let mut seen = Vec::new();
    let name = MODEL_TOOLS[tool].name;
    let called = client.call_tool(name, json!({"n": 2})).await.json()["approval"]["id"].clone();
    let body = json!({"tool_name": name, "arguments": {"n": 4}});
    let executed = client.post("/execute", &body).await.expect_ok();
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
    seen
}

/// Each of the requests, by REST.
pub(super) async fn requests(
    fixture: &Fixture,
    client: &Client,
    number: usize,
) -> Vec<(Action, InterfaceResult)> {
    let mut seen = Vec::new();
    for (index, request) in REQUESTS.iter().enumerate() {
        let (method, _) = request.route.split_once(' ').unwrap();
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let (path, body) =
            (fixture.filled(request.path, number), fixture.filled(request.body, number));
        let reply = client.send(method, &path, body.into()).await;
        let came = match reply.status.as_u16() {
            201 => "allowed".to_owned(),
            status if status == request.incomplete => "allowed".to_owned(),
            200 if reply.text().contains("third-party") => {
                "shows another organisation's".to_owned()
            }
            _ => class(&reply, "allowed"),
        };
        seen.push((Action::Request(index), ("rest", came)));
    }
    seen
}

/// Actions that do not concern a single tool.
pub(super) async fn managed(client: &Client) -> Vec<(Action, InterfaceResult)> {
    let mut seen = listed(client).await;
    let refresh = client.post("/v1/sources/refresh", &json!({"source": "s"})).await;
    let pins = client.get("/v1/pins").await;
    let pins = match pins.status.as_u16() {
        200 if pins.json()["pins"] == json!([]) => "hidden".to_owned(),
        _ => class(&pins, "visible"),
    };
    let pin = json!({ "definition": DEFINITION });
    let pin = client.post("/v1/pins/s/s.look/approve", &pin).await;
    let settings = "/v1/plugins/notes/settings";
    let set = client.post(settings, &json!({"enabled": true})).await;
    seen.extend([
        (Action::RefreshSource, class(&refresh, "allowed")),
        (Action::Pins, pins),
        (Action::DecidePin, class(&pin, "allowed")),
        (Action::PluginSettings, class(&client.get(settings).await, "visible")),
        (Action::SetPluginSettings, class(&set, "allowed")),
        (Action::Records, class(&client.get("/v1/records?limit=1").await, "allowed")),
        (Action::Keys, class(&client.get("/v1/keys?limit=1").await, "allowed")),
        (Action::Artefact, class(&client.get("/v1/artefacts/a1").await, "visible")),
    ]);
    seen.into_iter().map(|(action, came)| (action, ("rest", came))).collect()
}

/// Lists that everybody gets, of what is there for him.
async fn listed(client: &Client) -> Vec<(Action, String)> {
    let sources = client.get("/v1/sources").await.expect_ok();
    let servers = client.get("/v0.1/servers").await.expect_ok();
    let modules = client.get("/api/modules").await.expect_ok();
    let nodes = client.get("/v1/nodes").await.expect_ok();
    let of_node = client.get("/tools/n1").await.expect_ok();
    let plugins = client.get("/v1/plugins").await.expect_ok();
    let changed = plugins["changed"].as_array().unwrap().iter().map(|it| it.as_str().unwrap());
    let seen = if plugins["plugins"] == json!([]) { "hidden" } else { "visible" };
    vec![
        (Action::Sources, joined(named(&sources["sources"], "name"))),
        (Action::Servers, joined(server_sources(&servers))),
        (Action::Modules, joined(named(&modules["modules"], "name"))),
        (Action::Nodes, joined(named(&nodes["nodes"], "node_id"))),
        (Action::NodeTools, joined(named(&of_node, "name"))),
        (Action::Plugins, seen.to_owned()),
        (Action::ChangedPlugins, joined(changed)),
    ]
}
