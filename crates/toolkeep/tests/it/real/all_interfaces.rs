//! Tests of tools from every kind of source, listed and called at every interface.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::calls::{self, Answer};
use super::installed_programs::{self, ClientReport, client, stdio};
use super::record;
use crate::real_support::child_program::Program;
use crate::real_support::{expect_ok, run_cli, wait_for_sources};
use crate::support::installation::Installation;
use crate::support::process_marks::{self, MARK_VARIABLE, marked_processes};
use crate::support::rest_client::Client;
use crate::support::server_process::{Server, spawn_under};

/// In Toolkeep's own environment, and in that of no server.
const SECRET: &str = "a secret of the operator";

/// The servers that are not Toolkeep's children.
struct SourceServers {
    _programs: [Program; 2],
    remote: String,
    notes: String,
}

impl SourceServers {
    fn start() -> Self {
        let (everything, remote) = installed_programs::everything_over_http();
        let (module, notes) = installed_programs::notes();
        Self { _programs: [everything, module], remote, notes }
    }
}

/// Tools that `server-everything` lists only for clients with these capabilities, which Toolkeep
/// has on behalf of its callers.
const QUESTIONS: [&str; 4] = [
    "get-roots-list",
    "trigger-elicitation-request",
    "trigger-url-elicitation",
    "trigger-sampling-request",
];

const TOOLS: &str = "\
version: 1
tools:
  - name: office_hours
    description: When the office is open.
    parameters: { type: object, properties: {}, additionalProperties: false }
    side_effects: [read_only]
    implementation:
      type: mock
      mock_response: { monday_to_friday: \"9 to 17\" }
";

/// All kinds of sources there are. The configuration is JSON, which YAML is too.
fn home(around: &SourceServers, mark: &str) -> Installation {
    let home = Installation::new("");
    std::fs::create_dir(home.path("work")).unwrap();
    home.write("work/a.txt", "first\n");
    home.write("tools.yaml", TOOLS);
    let mcp = |words: Vec<String>| json!({ "command": words[0], "args": words[1..], "env": { MARK_VARIABLE: mark } });
    let of_mcp = |name: &str, mcp: Value| json!({ "name": name, "mcp": mcp, "trust_annotations": true, "destructive": false });
    let sources = json!([
        { "name": "local", "tools": "./tools.yaml" },
        { "name": "notes", "module": around.notes },
        of_mcp("everything", mcp(stdio("everything", &["stdio"]))),
        of_mcp("files", mcp(stdio("filesystem", &["./work"]))),
        of_mcp("time", mcp(stdio("time", &[]))),
        of_mcp("remote", json!({ "url": around.remote })),
    ]);
    home.write("toolkeep.yaml", &json!({ "version": 1, "sources": sources }).to_string());
    home
}

#[tokio::test]
async fn every_source_is_listed_and_called_alike_through_every_door() {
    let (around, mark) = (SourceServers::start(), process_marks::new_mark());
    let home = home(&around, &mark);
    let variable = format!("OPERATORS_SECRET={SECRET}");
    let server = spawn_under(&home, &["env".into(), variable.into()]).wait_until_ready().await;
    all_sources_are_up(&server).await;
    let (supervisors, servers) = (process_marks::children(server.pid), marked_processes(&mark));
    assert_eq!(
        (supervisors.len(), servers.len()),
        (3, 3),
        "one server of each, and its supervisor"
    );

    let agent = server.agent();
    let noted = expect_ok(agent.call("notes.append", &json!({ "text": "the first note" })).await);
    assert_eq!(noted["result"], json!({ "number": 1 }));

    let calls = calls::all();
    let key = std::fs::read_to_string(server.data.join("agent.key")).unwrap();
    let url = format!("{}/mcp", server.url);
    let legacy = client(&["http", &url, "legacy"], Some(key.trim()), &calls);
    let modern = client(&["http", &url, "2026-07-28"], Some(key.trim()), &calls);
    assert_eq!(legacy.protocol, "2025-11-25");
    assert_eq!(modern.protocol, "2026-07-28");
    lists_agree(&server, &agent, &legacy, &modern).await;
    nothing_of_a_server_is_lost(&around, &home.path("work"), &legacy);
    let mut rest = Vec::new();
    for (tool, arguments) in &calls {
        rest.push(expect_ok(agent.call(tool, arguments).await));
    }
    let line: Vec<Value> =
        calls.iter().map(|(tool, args)| by_line(&server, key.trim(), tool, args)).collect();
    answers_agree(&calls, &rest, &line, [&legacy, &modern]);

    let ids = record::ids(rest.iter().chain(&line).chain([&noted]));
    let sound = run_cli(&server, &["record", "verify"]);
    assert_eq!(sound.code, Some(0), "while it runs: {}{}", sound.out, sound.err);
    let said = server.log_text();
    assert!(server.stop().await.success(), "{said}");
    assert_eq!(
        (process_marks::count_running(&supervisors), marked_processes(&mark)),
        (0, vec![]),
        "left behind"
    );
    record::holds(&home.records(), 4 * calls.len() + 1, &ids).await;
}

async fn all_sources_are_up(server: &Server) {
    let sources = wait_for_sources(&server.owner()).await;
    let states: Vec<_> =
        sources.iter().map(|it| (it["name"].clone(), it["state"].clone())).collect();
    let names = ["local", "notes", "everything", "files", "time", "remote", "builtin"];
    let expected: Vec<_> = names.iter().map(|name| (json!(name), json!("ok"))).collect();
    assert_eq!(states, expected, "{sources:#?}\n{}", server.log_text());
}

fn names(tools: &Value, name: impl Fn(&Value) -> &Value) -> Vec<String> {
    let tools = tools["tools"].as_array().unwrap();
    tools.iter().map(|tool| name(tool).as_str().unwrap().to_owned()).collect()
}

/// The same tools in the same order, at each interface and in each form.
async fn lists_agree(
    server: &Server,
    agent: &Client,
    legacy: &ClientReport,
    modern: &ClientReport,
) {
    let native = expect_ok(agent.get("/v1/tools").await);
    let plain = names(&native, |tool| &tool["name"]);
    let all: BTreeSet<_> = plain.iter().collect();
    assert_eq!(all.len(), plain.len(), "a name is listed twice");
    // Built-ins, tool file, module, then the servers.
    let own =
        builtin_manifests::tool_names().filter(|name| plain.iter().any(|it| it == name)).count();
    assert!(own >= 16, "{plain:?}");
    assert_eq!(plain.len(), own + 1 + 3 + 17 + 14 + 2 + 17, "{plain:?}");
    assert_eq!(legacy.names(), plain);
    assert_eq!(modern.names(), plain);
    let mcp = expect_ok(agent.get("/v1/tools?format=mcp").await);
    assert_eq!(names(&mcp, |tool| &tool["name"]), plain);
    let openai = expect_ok(agent.get("/v1/tools?format=openai_chat").await);
    let aliases = names(&native, |tool| &tool["alias"]);
    assert_eq!(names(&openai, |tool| &tool["function"]["name"]), aliases);
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let taken = |alias: &String| alias.len() <= 64 && alias.chars().all(fits);
    assert!(aliases.iter().all(taken), "{aliases:?}");
    assert_eq!(aliases.iter().collect::<BTreeSet<_>>().len(), plain.len());
    let listed = run_cli(server, &["tool", "list", "-o", "json"]).json();
    assert_eq!(names(&listed, |tool| &tool["name"]), plain);
    let shown = run_cli(server, &["tool", "show", "everything.get-sum", "-o", "json"]).json();
    assert_eq!(shown["alias"], "everything_get-sum");
}

/// Toolkeep's clients see the server's own tool definitions.
fn nothing_of_a_server_is_lost(around: &SourceServers, work: &Path, seen: &ClientReport) {
    let direct = |words: Vec<String>| {
        let words: Vec<_> = ["stdio"].into_iter().chain(words.iter().map(String::as_str)).collect();
        client(&words, None, &[])
    };
    for (source, own) in [
        ("everything", direct(stdio("everything", &["stdio"]))),
        ("files", direct(stdio("filesystem", &[work.to_str().unwrap()]))),
        ("time", direct(stdio("time", &[]))),
        ("remote", client(&["http", &around.remote, "legacy"], None, &[])),
    ] {
        let prefix = format!("{source}.");
        let offered = |tool: &&Value| {
            let own = tool["name"].as_str().unwrap().strip_prefix(&prefix);
            own.is_some_and(|own| !QUESTIONS.contains(&own))
        };
        let offered: Vec<_> = seen.tools.iter().filter(offered).collect();
        assert_eq!(offered.len(), own.tools.len(), "{source}");
        for (offered, own) in offered.into_iter().zip(&own.tools) {
            let name = format!("{prefix}{}", own["name"].as_str().unwrap());
            assert_eq!(offered["name"], name);
            for field in ["title", "description", "inputSchema", "outputSchema", "annotations"] {
                assert_eq!(offered.get(field), own.get(field), "`{field}` of {name}");
            }
        }
    }
}

fn by_line(server: &Server, key: &str, tool: &str, arguments: &Value) -> Value {
    let arguments = arguments.to_string();
    let words = ["tool", "call", tool, "--args", &arguments, "--key", key, "-o", "json"];
    let ran = run_cli(server, &words);
    let answer = ran.json();
    let failed = answer["is_error"] == true;
    assert_eq!(ran.code, Some(i32::from(failed)), "{tool}: {}{}", ran.out, ran.err);
    answer
}

/// A result at `/mcp` with the URIs of the source: `remote` has the templates of `everything`, so links
/// name their source there.
fn with_own_uris(report: &Value) -> Value {
    let text = report.to_string().replace("everything+demo://", "demo://");
    serde_json::from_str(&text).unwrap()
}

/// The same call has the same result at REST, on the command line, and in both MCP revisions.
fn answers_agree(calls: &[(&str, Value)], rest: &[Value], line: &[Value], mcp: [&ClientReport; 2]) {
    for seen in mcp {
        assert_eq!(seen.calls.len(), calls.len());
    }
    for (at, (tool, arguments)) in calls.iter().enumerate() {
        let dated = |answer: Answer| match *tool {
            "time.convert_time" => answer.without_day(),
            _ => answer,
        };
        let first = dated(Answer::of_rest(&rest[at]));
        let by_mcp = mcp.map(|seen| Answer::of_mcp(&with_own_uris(&seen.calls[at])));
        for other in [Answer::of_rest(&line[at])].into_iter().chain(by_mcp).map(dated) {
            assert!(first.agrees(&other), "{tool} {arguments}: {first:?}\n{other:?}");
        }
        assert_eq!(first.is_error(), calls::fails(tool, arguments), "{tool}: {first:?}");
        if let Some(expected) = calls::expected(tool, arguments) {
            assert!(first.says(&expected), "{tool}: {first:?}");
        }
        let steps = if *tool == calls::LONG { 4 } else { 0 };
        for seen in mcp {
            let told = seen.calls[at]["progress"].as_array().unwrap();
            assert_eq!(told.len(), steps, "{tool} by {}: {told:?}", seen.protocol);
        }
        if *tool == "everything.get-env" {
            let shown = first.value().to_string();
            assert!(shown.contains(MARK_VARIABLE) && !shown.contains(SECRET), "{shown}");
        }
    }
}
