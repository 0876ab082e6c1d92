//! Observations of one principal by REST, a built-in tool, a program and the command line.

use http::Method;
use serde_json::{Value, json};

use super::matrix_fixture::{MATRIX_TOOLS, MatrixFixture, Person};
use crate::real_support::{CommandOutput, expect_ok, toolkeep};
use crate::support::rest_client::{Client, Reply};

/// A result and the result of REST.
#[derive(Debug)]
pub(super) struct InterfaceOutcome {
    pub(super) interface: &'static str,
    pub(super) what: String,
    pub(super) came: String,
    pub(super) by_rest: String,
}

/// Tools that read or change what the server has; each is compared with its route.
pub(super) const STATE_TOOLS: [&str; 10] = [
    "list_plugins",
    "reload_plugins",
    "run_program",
    "program_status",
    "get_chainable_tools",
    "read_artefact",
    "search_artefact",
    "what_is_there",
    "how_are_sources",
    "what_happened",
];

fn joined(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names.join(" ")
}

/// The field of each of a list.
fn named(list: &Value, field: &str) -> String {
    let all = list.as_array().unwrap_or_else(|| panic!("no list: {list}")).iter();
    joined(all.map(|one| one[field].as_str().unwrap().to_owned()))
}

/// Let through, refused, or not there.
fn class(reply: &Reply) -> &'static str {
    match reply.status {
        200..=299 => "allowed",
        403 => "forbidden",
        404 => "hidden",
        _ => "unfit",
    }
}

/// Previews the decision on a call.
async fn decided(client: &Client, tool: &str, chain: bool) -> String {
    let told = client.post("/v1/explain", &json!({ "tool": tool, "chain": chain })).await;
    expect_ok(told)["decision"].as_str().unwrap().to_owned()
}

/// All names of the tools that are listed.
async fn listed(client: &Client) -> String {
    let (mut names, mut path) = (Vec::new(), "/v1/tools".to_owned());
    loop {
        let page = expect_ok(client.get(&path).await);
        names.extend(named(&page["tools"], "name").split(' ').map(str::to_owned));
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/v1/tools?cursor={cursor}"),
            None => return joined(names.into_iter().filter(|name| !name.is_empty())),
        }
    }
}

/// The visible plugins with their tools.
fn of_plugins(plugins: impl Iterator<Item = (String, Vec<String>)>) -> String {
    joined(plugins.map(|(name, tools)| format!("{name}({})", joined(tools.into_iter()))))
}

/// A built-in tool and the route with the same result.
async fn by_tool(world: &MatrixFixture, client: &Client, tool: &str) -> (String, String) {
    match tool {
        "list_plugins" => plugins(client).await,
        "get_chainable_tools" | "what_is_there" | "how_are_sources" => lists(client, tool).await,
        _ => classes(world, client, tool).await,
    }
}

/// Both lists of plugins.
async fn plugins(client: &Client) -> (String, String) {
    let texts = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect()
    };
    let told = expect_ok(client.call("list_plugins", &json!({ "enabled_only": false })).await);
    let of_tool = told["result"]["plugins"].as_object().unwrap().iter();
    let of_tool = of_tool.map(|(name, it)| (name.clone(), texts(&it["tools"])));
    let rest = expect_ok(client.get("/v1/plugins").await);
    let of_rest = rest["plugins"].as_array().unwrap().iter().map(|it| {
        let tools = it["tools"].as_array().unwrap().iter();
        let tools = tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
        (it["name"].as_str().unwrap().to_owned(), tools)
    });
    (of_plugins(of_tool), of_plugins(of_rest))
}

/// Names that a tool and a route list.
async fn lists(client: &Client, tool: &str) -> (String, String) {
    let limit = if tool == "what_is_there" { json!({ "limit": 1_000 }) } else { json!({}) };
    let told = expect_ok(client.call(tool, &limit).await)["result"].take();
    match tool {
        "get_chainable_tools" => {
            let rest = expect_ok(client.get("/v1/programs/tools").await);
            (named(&told["tools"], "tool"), named(&rest["tools"], "tool"))
        }
        "how_are_sources" => {
            let rest = expect_ok(client.get("/v1/sources").await);
            (named(&told["sources"], "name"), named(&rest["sources"], "name"))
        }
        _ => (named(&told["tools"], "name"), listed(client).await),
    }
}

/// Whether a tool and a route let this principal through.
async fn classes(world: &MatrixFixture, client: &Client, tool: &str) -> (String, String) {
    let of_artefact = json!({ "id": world.artefact, "query": "x" });
    let artefact = format!("/v1/artefacts/{}", world.artefact);
    let program = format!("/v1/programs/{}", world.program);
    let (args, rest) = match tool {
        "reload_plugins" => (json!({}), client.post("/v1/plugins/reload", &json!({})).await),
        "program_status" => (json!({ "program": world.program }), client.get(&program).await),
        "what_happened" => (json!({ "limit": 1 }), client.get("/v1/records?limit=1").await),
        "read_artefact" | "search_artefact" => (of_artefact, client.get(&artefact).await),
        other => panic!("{other} is compared with nothing"),
    };
    let told = client.call(tool, &args).await;
    // A tool may report in its result that an object does not exist.
    let missing = told.status == 200 && told.body["is_error"] == true;
    let of_tool = if missing { "hidden" } else { class(&told) };
    (of_tool.to_owned(), class(&rest).to_owned())
}

/// Each tool that this principal may call directly.
pub(super) async fn tools(world: &MatrixFixture, person: &Person) -> Vec<InterfaceOutcome> {
    let mut seen = Vec::new();
    // Programs are run apart.
    for tool in STATE_TOOLS.into_iter().filter(|tool| *tool != "run_program") {
        if decided(&person.client, tool, false).await != "allow" {
            continue;
        }
        let (came, by_rest) = by_tool(world, &person.client, tool).await;
        seen.push(InterfaceOutcome {
            interface: "built-in tools",
            what: tool.to_owned(),
            came,
            by_rest,
        });
    }
    seen
}

/// Result of a program's only call.
fn of_program(reply: &Reply) -> String {
    let told = reply.body.get("result").filter(|it| it.get("status").is_some());
    let told = told.unwrap_or(&reply.body);
    match told["status"].as_str() {
        Some("succeeded") => "allow".to_owned(),
        Some("pending_approval") => "hold".to_owned(),
        Some("failed") => "hidden".to_owned(),
        _ => format!("{}: {}", reply.status, reply.body),
    }
}

/// A call of one tool by a program, as steps and as a script; and REST's result of a program's
/// call.
pub(super) async fn programs(
    person: &Person,
    (tool, script): (usize, bool),
) -> Vec<InterfaceOutcome> {
    let client = &person.client;
    if decided(client, "run_program", false).await != "allow" {
        return Vec::new();
    }
    let tool = MATRIX_TOOLS[tool];
    let by_rest = decided(client, tool, true).await;
    let steps = json!({ "steps": [{ "id": "a", "tool": tool }] });
    let mut came = vec![
        ("programs", of_program(&client.post("/v1/programs", &steps).await)),
        ("programs by a tool", of_program(&client.call("run_program", &steps).await)),
    ];
    if script {
        let code = json!({ "code": format!("CALL('{tool}')") });
        came.push(("scripts", of_program(&client.post("/v1/programs", &code).await)));
    }
    let outcome = |(interface, came)| {
        let (what, by_rest) = (tool.to_owned(), by_rest.clone());
        InterfaceOutcome { interface, what, came, by_rest }
    };
    came.into_iter().map(outcome).collect()
}

/// Commands with the equivalent request. `{n}` is the number of the principal.
pub(super) const COMMANDS: &[(&str, &str, &str, &str)] = &[
    ("tool list", "GET", "/v1/tools", ""),
    ("tool show pass_admin", "GET", "/v1/tools/pass_admin", ""),
    (
        "tool call pass_admin --args {}",
        "POST",
        "/v1/calls",
        r#"{"tool":"pass_admin","arguments":{}}"#,
    ),
    ("source list", "GET", "/v1/sources", ""),
    ("source refresh local", "POST", "/v1/sources/refresh", r#"{"source":"local"}"#),
    ("pin list", "GET", "/v1/pins", ""),
    ("module list", "GET", "/api/modules", ""),
    ("module refresh", "POST", "/refresh-tools", "{}"),
    ("plugin list", "GET", "/v1/plugins", ""),
    ("plugin reload p", "POST", "/v1/plugins/reload", r#"{"plugin":"p"}"#),
    ("plugin settings p", "GET", "/v1/plugins/p/settings", ""),
    ("persona list", "GET", "/v1/personas", ""),
    ("role list", "GET", "/v1/roles", ""),
    ("role set plain", "PUT", "/v1/roles/plain", "{}"),
    ("org list", "GET", "/v1/orgs", ""),
    ("org tools default", "GET", "/v1/orgs/default/tools", ""),
    ("user list", "GET", "/v1/users", ""),
    ("user promote ward --level user", "POST", "/v1/users/ward/level", r#"{"level":"user"}"#),
    ("user enable ward", "POST", "/v1/users/ward/enable", "{}"),
    ("node list", "GET", "/v1/nodes", ""),
    ("node show n1", "GET", "/v1/nodes/n1", ""),
    ("node invite n1", "POST", "/v1/nodes/n1/invite", "{}"),
    ("approval list", "GET", "/v1/approvals", ""),
    ("approval show {denied}", "GET", "/v1/approvals/{denied}", ""),
    ("approval approve {denied}", "POST", "/v1/approvals/{denied}/approve", "{}"),
    ("approval deny {denied}", "POST", "/v1/approvals/{denied}/deny", "{}"),
    ("program list", "GET", "/v1/programs", ""),
    ("program show {program}", "GET", "/v1/programs/{program}", ""),
    ("program cancel {program}", "POST", "/v1/programs/{program}/cancel", "{}"),
    ("program tools", "GET", "/v1/programs/tools", ""),
    ("record list", "GET", "/v1/records", ""),
    ("record show {call}", "GET", "/v1/calls/{call}", ""),
    ("key list", "GET", "/v1/keys", ""),
    (
        "key create --subject new-{n} --level admin --module local",
        "POST",
        "/v1/keys",
        r#"{"subject":"next-{n}","level":"admin","persona_modules":["local"]}"#,
    ),
    ("key create --delegate --level admin", "POST", "/v1/keys/delegate", r#"{"level":"admin"}"#),
    ("key revoke {revoked}", "DELETE", "/v1/keys/{revoked}", ""),
    ("policy explain --tool pass_admin", "POST", "/v1/explain", r#"{"tool":"pass_admin"}"#),
];

/// Converts a command's exit status to the status of its request.
fn of_exit(ran: &CommandOutput) -> String {
    match ran.code {
        Some(0) => "done".to_owned(),
        Some(3) => "refused".to_owned(),
        Some(1) => "failed".to_owned(),
        _ => format!("{:?}: {}", ran.code, ran.err),
    }
}

/// One command with this principal's key, and the same request by REST.
pub(super) async fn command(
    world: &MatrixFixture,
    person: &Person,
    number: usize,
) -> InterfaceOutcome {
    let (line, method, path, body) = COMMANDS[number % COMMANDS.len()];
    let filled = |text: &str| {
        text.replace("{n}", &number.to_string())
            .replace("{denied}", &world.denied)
            .replace("{program}", &world.program)
            .replace("{call}", &world.call)
            .replace("{revoked}", &world.revoked)
    };
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let rest = person.client.try_send(method, &filled(path), filled(body)).await.unwrap();
    let by_rest = match rest.status {
        200..=299 => "done",
        401 | 403 | 404 => "refused",
        _ => "failed",
    };
    let line = filled(line);
    let folder = world.server.data.with_file_name("elsewhere");
    let mut command = toolkeep();
    command.args(line.split(' ')).args(["--url", &world.server.url, "--data"]).arg(folder);
    let ran = CommandOutput::run_command(command.env("TOOLKEEP_KEY", &person.key));
    let (came, by_rest) = (of_exit(&ran), by_rest.to_owned());
    let what = COMMANDS[number % COMMANDS.len()].0.to_owned();
    InterfaceOutcome { interface: "commands", what, came, by_rest }
}
