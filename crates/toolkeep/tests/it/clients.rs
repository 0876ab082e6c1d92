//! Tests with third-party MCP clients: list, call, progress, error, large result, elicitation,
//! sampling, cancellation. The SDKs also fetch prompts and read resources.
//!
//! They require the programs of `cargo xtask provision` and fail without them.

mod all_sources;
mod apps_host;
mod client_approvals;
mod large_results;
mod search_mode;
mod skills;

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::installed_programs::installed_file;
use testkit::key_proxy;
use testkit::mcp_fixture::{self, FixtureEra, FixtureOptions};
use tokio::process::Command;
use tokio::time::timeout;

use crate::real_support::{files, test_command};
use crate::support::installation::Installation;
use crate::support::server_process::start_server;

/// The longest that one client may take.
const LONG: Duration = Duration::from_mins(2);

/// A client, and its mode if it has several.
#[derive(Debug, Clone, Copy)]
enum Client {
    /// The Python SDK.
    Python(&'static str),
    /// fastmcp.
    Fast,
    /// The TypeScript SDK.
    Node,
}

/// A script of these tests.
fn script(name: &str) -> std::path::PathBuf {
    files().with_file_name("clients").join(name)
}

impl Client {
    fn command(self, url: &str) -> Command {
        self.script_command(if matches!(self, Self::Fast) { "fast" } else { "sdk" }, url)
    }

    /// Runs its script of this name, with pipes, until it is dropped.
    fn script_command(self, name: &str, url: &str) -> Command {
        let (program, extension) = match self {
            Self::Python(_) => ("venv-mcp/bin/python", "py"),
            Self::Fast => ("venv-fastmcp/bin/python", "py"),
            Self::Node => ("bin/node", "mjs"),
        };
        let mut command: Command = test_command(installed_file(program)).into();
        command.arg(script(&format!("{name}.{extension}")));
        if matches!(self, Self::Node) {
            command.arg(installed_file("npm-sdk/node_modules"));
        }
        command.arg(url);
        if let Self::Python(mode) = self {
            command.arg(mode);
        }
        command.current_dir(std::env::temp_dir()).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The revision that it must negotiate with a server of `era`.
    fn revision(self, era: FixtureEra) -> Option<&'static str> {
        match (self, era) {
            (Self::Fast, _) => None,
            (Self::Python("legacy") | Self::Node, _) | (_, FixtureEra::Legacy) => {
                Some("2025-11-25")
            }
            _ => Some("2026-07-28"),
        }
    }
}

async fn output(mut command: Command) -> (bool, String, String) {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let ended = timeout(LONG, command.output()).await.expect("the client takes too long").unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (ended.status.success(), text(&ended.stdout), text(&ended.stderr))
}

/// Runs a client and compares all that it saw.
async fn sees_all(client: Client, url: &str, era: FixtureEra) {
    let (good, out, err) = output(client.command(url)).await;
    assert!(good, "{client:?}: {out}\n{err}");
    let seen: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{client:?}: {out}"));
    let tools = seen["tools"].as_array().unwrap();
    assert!(tools.contains(&json!("json_schema_2020_12_tool")), "{client:?}: {tools:?}");
    let steps = json!([[0.0, 100.0], [50.0, 100.0], [100.0, 100.0]]);
    let told: Vec<Vec<f64>> = serde_json::from_value(seen["progress"].clone()).unwrap();
    assert_eq!(json!(told), steps, "{client:?}");
    for (key, expected) in [
        ("text", json!("This is a simple text response for testing.")),
        ("error", json!(true)),
        ("large", json!(1_000_000)),
        ("sampled", json!("LLM response: \"an answer of the model\"")),
        ("cancelled", json!(1)),
    ] {
        assert_eq!(seen[key], expected, "{client:?}: `{key}`");
    }
    let elicited = seen["elicited"].as_str().unwrap();
    assert!(elicited.contains("ada@example.com"), "{client:?}: {elicited}");
    if let Some(revision) = client.revision(era) {
        assert_eq!(seen["protocol"], revision, "{client:?}");
        reads_all(client, &seen, revision);
    }
    println!("{client:?}: all of {} tools, {}", tools.len(), seen["protocol"]);
}

/// Compares what a client saw of prompts and resources.
fn reads_all(client: Client, seen: &Value, revision: &str) {
    let template = json!({"id": "7", "templateTest": true, "data": "Data for ID: 7"}).to_string();
    let nowhere = if revision == "2025-11-25" { -32_002 } else { -32_602 };
    for (key, expected) in [
        ("prompt", json!("Prompt with arguments: arg1='one', arg2='two'")),
        ("resource", json!("This is the content of the static text resource.")),
        ("template", json!(template)),
        ("nowhere", json!(nowhere)),
    ] {
        assert_eq!(seen[key], expected, "{client:?}: `{key}`");
    }
    for (key, one) in [("prompts", "test_prompt_with_image"), ("resources", "test://static-binary")]
    {
        let all = seen[key].as_array().unwrap();
        assert!(all.contains(&json!(one)), "{client:?}: {all:?}");
    }
}

/// The inspector's command line knows lists and calls.
async fn inspector(url: &str) {
    let launcher = "npm-inspector/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js";
    let run = async |words: &[&str]| {
        let mut node: Command = test_command(installed_file("bin/node")).into();
        node.arg(installed_file(launcher)).args(["--cli", url, "--transport", "http"]).args(words);
        output(node).await
    };
    let (good, out, err) = run(&["--method", "tools/list"]).await;
    assert!(good, "{out}\n{err}");
    let listed: Value = serde_json::from_str(&out).unwrap();
    let tools = listed["tools"].as_array().unwrap();
    assert!(tools.iter().any(|it| it["inputSchema"]["$defs"].is_object()), "{out}");
    let call = ["--method", "tools/call", "--tool-name"];
    let (good, out, err) = run(&[&call[..], &["test_simple_text"]].concat()).await;
    assert!(good && out.contains("simple text response"), "{out}\n{err}");
    let words = ["test_large_result", "--tool-arg", "bytes=100000"];
    let (good, out, err) = run(&[&call[..], &words].concat()).await;
    assert!(good && out.len() > 100_000, "{} bytes\n{err}", out.len());
    let (_, out, err) = run(&[&call[..], &["test_error_handling"]].concat()).await;
    assert!(out.contains("\"isError\": true"), "{out}\n{err}");
    println!("inspector: {} tools, three calls", tools.len());
}

const ALL: [Client; 5] = [
    Client::Python("auto"),
    Client::Python("legacy"),
    Client::Python("2026-07-28"),
    Client::Fast,
    Client::Node,
];

#[tokio::test(flavor = "multi_thread")]
async fn every_client_sees_all_of_the_fixture() {
    let fixture = mcp_fixture::start_fixture(FixtureOptions::default()).await.unwrap();
    for client in ALL {
        sees_all(client, &fixture.url, FixtureEra::Both).await;
    }
    inspector(&fixture.url).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_two_eras_find_the_one_that_the_fixture_speaks() {
    for era in [FixtureEra::Legacy, FixtureEra::Modern] {
        let fixture =
            mcp_fixture::start_fixture(FixtureOptions { era, page_size: 7 }).await.unwrap();
        for client in [Client::Python("auto"), Client::Fast] {
            sees_all(client, &fixture.url, era).await;
        }
    }
}

/// Toolkeep between them, with a server of either era behind it.
#[tokio::test(flavor = "multi_thread")]
async fn every_client_sees_all_of_the_fixture_through_toolkeep() {
    for era in [FixtureEra::Both, FixtureEra::Legacy, FixtureEra::Modern] {
        let fixture =
            mcp_fixture::start_fixture(FixtureOptions { era, page_size: 7 }).await.unwrap();
        let url = &fixture.url;
        let source =
            format!("{{ name: fixture, mcp: {{ url: '{url}' }}, trust_annotations: true }}");
        let home = Installation::new(&format!("version: 1\nsources: [{source}]\n"));
        let server = start_server(&home).await;
        let key = std::fs::read_to_string(server.data.join("agent.key")).unwrap();
        let door = key_proxy::start_proxy(&format!("{}/mcp/fixture", server.url), key.trim())
            .await
            .unwrap();
        for client in ALL {
            sees_all(client, &door.url, FixtureEra::Both).await;
        }
        inspector(&door.url).await;
        assert!(server.stop().await.success());
    }
}
