//! Tests of nodes written in Python with the package in `python/`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::installed_programs::file;
use crate::nodes::node_serve::waiting;
use crate::real_support::child_program::Program;
use crate::real_support::{CommandOutput, run_cli, test_command, toolkeep};
use crate::support::installation::Installation;
use crate::support::rest_client::Client;
use crate::support::server_process::{READY_LIMIT, Server};

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python")
}

#[test]
fn the_python_packages_own_tests_pass() {
    let mut python = test_command(file("venv-node/bin/python"));
    python.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]).current_dir(package());
    python.env("PYTHONPATH", package().join("src")).env("PYTHONDONTWRITEBYTECODE", "1");
    for name in ["ORG_SYSTEM_TOOLS_REGISTRY_URL", "TOOLKEEP_NODE_ID", "TOOLKEEP_NODE_HOST"] {
        python.env_remove(name);
    }
    let said = CommandOutput::run_command(&mut python).expect_success();
    let passed = said.lines().last().unwrap_or_default();
    assert!(passed.contains(" passed") && !passed.contains("skipped"), "{said}");
}

/// A node with the tools of `node.py`, registered with this server.
pub(super) fn node(url: &str, id: &str, key: &str) -> (Program, Value) {
    node_with(url, id, key, None)
}

/// The same with the folder of a joined node.
fn node_with(url: &str, id: &str, key: &str, tls: Option<&Path>) -> (Program, Value) {
    started(python_node(url, id, key, tls))
}

fn started(mut python: Command) -> (Program, Value) {
    let program = Program::start(&mut python);
    let said = program.json();
    (program, said)
}

fn python_node(url: &str, id: &str, key: &str, tls: Option<&Path>) -> Command {
    let mut python = test_command(file("venv-node/bin/python"));
    python.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/node.py"));
    python.env("PYTHONPATH", package().join("src")).env("PYTHONDONTWRITEBYTECODE", "1");
    python.env("ORG_SYSTEM_TOOLS_REGISTRY_URL", url).env("TOOLKEEP_NODE_ID", id);
    python.env("TOOLKEEP_KEY", key).stderr(Stdio::null()).env_remove("TOOLKEEP_NODE_TLS");
    if let Some(folder) = tls {
        python.env("TOOLKEEP_NODE_TLS", folder);
    }
    python
}

/// The folder of a node that joined this server, and its key.
fn joined(server: &Server, home: &Installation, id: &str) -> (PathBuf, String) {
    let invited = run_cli(server, &["node", "invite", id, "-o", "json"]).json();
    let folder = home.path(&format!("tls-{id}"));
    let mut join = toolkeep();
    join.args(["node", "join", id, "--url", &server.url, "--dir"]).arg(&folder);
    CommandOutput::run_command(join.env("TOOLKEEP_KEY", invited["key"].as_str().unwrap()))
        .expect_success();
    let key = std::fs::read_to_string(folder.join("registry.key")).unwrap();
    (folder, key.trim().to_owned())
}

pub(super) async fn key_of(owner: &Client, id: &str) -> String {
    let body = json!({ "subject": id, "rights": ["nodes:register"] });
    let made = owner.post("/v1/keys", &body).await;
    made.body["key"].as_str().unwrap_or_else(|| panic!("{}", made.body)).to_owned()
}

/// An answer that comes once the server has seen what changed.
pub(super) async fn once(client: &Client, path: &str, body: &Value, status: u16) -> Value {
    let mut last = Value::Null;
    for _ in 0..READY_LIMIT.as_millis() / 50 {
        let reply = client.post(path, body).await;
        if reply.status == status {
            return reply.body;
        }
        last = reply.body;
        sleep(Duration::from_millis(50)).await;
    }
    panic!("never {status} at {path}: {last}")
}

#[tokio::test]
async fn a_python_node_registers_and_its_tools_are_called_through_every_door() {
    let home = Installation::new("version: 1\n");
    let server = crate::support::server_process::start_server(&home).await;
    let (owner, agent) = (server.owner(), server.agent());
    let key = key_of(&owner, "node-py").await;
    let (node, said) = node(&server.url, "node-py", &key);
    assert_eq!(said["failed"], json!({}));

    // It is known, but has no address.
    let call = json!({ "tool_name": "reverse_text", "input": { "text": "hello world" } });
    let unplaced = "`nodes.addresses` does not list the node `node-py`";
    while once(&agent, "/cluster-tools/execute", &call, 404).await["error"] != unplaced {
        sleep(Duration::from_millis(50)).await;
    }
    home.write(
        "toolkeep.yaml",
        &format!(
            "version: 1\nnodes: {{ addresses: {{ node-py: 'http://127.0.0.1:{}' }} }}\n",
            said["port"]
        ),
    );
    let answer = once(&agent, "/cluster-tools/execute", &call, 200).await;
    let metadata = json!({ "version": "1", "node_id": "node-py" });
    let output = json!({ "result": "dlrow olleh" });
    assert_eq!(
        answer,
        json!({ "success": true, "output": output, "error": "", "metadata": metadata })
    );
    let failed = json!({ "tool_name": "broken", "input": {} });
    let answer = once(&agent, "/cluster-tools/execute", &failed, 200).await;
    assert_eq!((&answer["success"], &answer["error"]), (&json!(false), &json!("the disk is full")));
    let endpoint = owner.post("/cluster-tools/resolve", &json!({ "tool_name": "add" })).await;
    assert_eq!(endpoint.body["endpoint"], format!("127.0.0.1:{}", said["port"]));
    assert_eq!(agent.post("/cluster-tools/resolve", &call).await.status, 403);

    // The other doors.
    let rest = json!({ "tool": "add", "arguments": { "a": 2, "b": 3 } });
    let answer = agent.post("/v1/calls", &rest).await;
    assert!(answer.body.to_string().contains("\"sum\":5"), "{}", answer.body);
    let bad = json!({ "tool": "add", "arguments": { "a": "2", "b": 3 } });
    assert_eq!(agent.post("/v1/calls", &bad).await.code(), "invalid_arguments");
    let listed = run_cli(&server, &["tool", "list"]).expect_success();
    assert!(listed.contains("reverse_text") && listed.contains("node.node-py"), "{listed}");

    // Its end takes its tools back.
    node.stop_program();
    let gone = once(&agent, "/cluster-tools/execute", &call, 404).await;
    assert_eq!(gone["error"], "Tool 'reverse_text' not found on any node");
}

#[tokio::test]
async fn a_python_node_with_anothers_key_registers_nothing() {
    let home = Installation::new("version: 1\n");
    let server = crate::support::server_process::start_server(&home).await;
    let key = key_of(&server.owner(), "node-a").await;
    let (_node, said) = node(&server.url, "node-b", &key);
    let failed = said["failed"].as_object().unwrap();
    assert_eq!(failed.len(), 3, "{said}");
    assert!(failed.values().all(|told| told.as_str().unwrap().contains("(403)")), "{said}");
    // The control: with its own it does.
    let (_node, said) = self::node(&server.url, "node-a", &key);
    assert_eq!(said["failed"], json!({}));
}

/// Joins by the command line, and serves with what that wrote.
#[tokio::test]
async fn a_python_node_that_joined_is_called_over_tls() {
    let home = Installation::new("version: 1\n");
    let server = crate::support::server_process::start_server(&home).await;
    let (folder, key) = joined(&server, &home, "node-py");
    let (_node, said) = node_with(&server.url, "node-py", &key, Some(&folder));
    assert_eq!(said["failed"], json!({}));
    let at = |scheme: &str| {
        let addresses = format!("node-py: '{scheme}://127.0.0.1:{}'", said["port"]);
        format!("version: 1\nnodes: {{ addresses: {{ {addresses} }} }}\n")
    };
    home.write("toolkeep.yaml", &at("https"));
    let call = json!({ "tool_name": "reverse_text", "input": { "text": "hello world" } });
    let answer = once(&server.agent(), "/cluster-tools/execute", &call, 200).await;
    assert_eq!(answer["output"], json!({ "result": "dlrow olleh" }));
    // Control: in plaintext it is not called.
    home.write("toolkeep.yaml", &at("http"));
    let lost = once(&server.agent(), "/cluster-tools/execute", &call, 502).await;
    assert_eq!(lost["success"], false);
}

/// It has no port: the server calls it over the connection that it made, and again after it was killed.
#[tokio::test]
async fn a_python_node_that_connects_is_called_over_its_own_connection_and_as_nobody_else() {
    let home = Installation::new("version: 1\n");
    let (server, at) = waiting(&home).await;
    let connecting = |id: &str, (folder, key): &(PathBuf, String)| {
        let mut python = python_node(&server.url, id, key, Some(folder));
        python.env("TOOLKEEP_NODE_CONNECT", at.to_string());
        started(python)
    };
    let own = joined(&server, &home, "node-py");
    let call = json!({ "tool_name": "reverse_text", "input": { "text": "hello world" } });
    // A node with another's certificate claims to be this node, and is not called.
    let (foreign, _) = joined(&server, &home, "node-evil");
    let (evil, said) = connecting("node-py", &(foreign, own.1.clone()));
    assert_eq!((&said["port"], &said["failed"]), (&json!(0), &json!({})));
    let lost = once(&server.agent(), "/cluster-tools/execute", &call, 404).await;
    assert_eq!(lost["success"], false);
    evil.stop_program();
    for _ in 0..2 {
        let (node, said) = connecting("node-py", &own);
        assert_eq!((&said["port"], &said["failed"]), (&json!(0), &json!({})));
        let answer = once(&server.agent(), "/cluster-tools/execute", &call, 200).await;
        assert_eq!(answer["output"], json!({ "result": "dlrow olleh" }));
        drop(node);
    }
    assert!(server.stop().await.success());
}

/// All of the cluster tools' layers: a subject, the server, the forwarder, and a runtime in Python
/// on a socket.
#[tokio::test]
async fn a_call_goes_through_server_and_forwarder_to_a_runtime_in_python() {
    let home = Installation::new("version: 1\n");
    let server = crate::support::server_process::start_server(&home).await;
    let (socket, functions) = (home.path("runtime.sock"), home.path("functions.yaml"));
    let mut python = test_command(file("venv-node/bin/python"));
    python.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/node_on_socket.py"));
    python.env("PYTHONPATH", package().join("src")).env("PYTHONDONTWRITEBYTECODE", "1");
    python.env("TOOLKEEP_NODE_SOCKET", &socket).env_remove("ORG_SYSTEM_TOOLS_REGISTRY_URL");
    let runtime = Program::start(python.stderr(Stdio::null()));
    assert!(runtime.has_line("ready"));
    home.write(
        "functions.yaml",
        "version: 1\nrules: [{ allow: [reverse_text] }]\ndefinitions:\n  reverse_text:\n    description: Reverses a given string input\n    input_spec: { text: string }\n",
    );
    let key = key_of(&server.owner(), "node-p").await;
    let mut forward = toolkeep();
    forward.args(["node", "forward", "node-p", "--listen", "127.0.0.1:0", "--url", &server.url]);
    forward.arg("--registry").arg(functions).arg("--socket").arg(&socket);
    let forwarder = Program::start(forward.env("TOOLKEEP_KEY", key).stderr(Stdio::null()));
    let line = forwarder.find_line(" listens at ").unwrap();
    let at = line.split(" listens at ").nth(1).unwrap().split(' ').next().unwrap();
    let text = format!("version: 1\nnodes: {{ addresses: {{ node-p: 'http://{at}' }} }}\n");
    home.write("toolkeep.yaml", &text);
    let agent = server.agent();
    let body = json!({ "tool_name": "reverse_text", "input": { "text": "hello world" } });
    let said = once(&agent, "/cluster-tools/execute", &body, 200).await;
    assert_eq!(said["output"], json!({ "result": "dlrow olleh" }), "{said}");
    // The record has each step of the call: caller, decision, node, result.
    let calls = server.owner().get("/v1/records?limit=20").await.body.to_string();
    assert!(calls.contains("reverse_text") && calls.contains("node.node-p"), "{calls}");
    let unfit = json!({ "tool_name": "reverse_text", "input": { "text": 5 } });
    let refused = agent.post("/cluster-tools/execute", &unfit).await.body;
    assert_eq!(refused["success"], false, "{refused}");
    forwarder.stop_program();
    runtime.stop_program();
    assert!(server.stop().await.success());
}
