//! The installed programs and how to start them.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};
use testkit::installed_programs::installed_file;

use crate::real_support::child_program::Program;
use crate::real_support::{files, test_command};

/// A file of what was installed, as text: it goes into configurations and on command lines.
pub(super) fn file(path: &str) -> String {
    installed_file(path).into_os_string().into_string().unwrap()
}

/// A server that speaks over its pipes: program and arguments.
pub(super) fn stdio(server: &str, args: &[&str]) -> Vec<String> {
    let mut words = match server {
        "time" => vec![file("venv-time/bin/mcp-server-time")],
        name => vec![file("bin/node"), package(name)],
    };
    words.extend(args.iter().map(|&word| word.to_owned()));
    words
}

fn package(name: &str) -> String {
    file(&format!("npm/node_modules/@modelcontextprotocol/server-{name}/dist/index.js"))
}

/// `server-everything` over streamable HTTP, on the loopback alone, and its address.
pub(super) fn everything_over_http() -> (Program, String) {
    let mut node = test_command(file("bin/node"));
    let loopback = files().join("loopback.cjs");
    node.arg(package("everything")).arg("streamableHttp").env("PORT", "0");
    node.env("NODE_OPTIONS", format!("--require \"{}\"", loopback.display()));
    let program = Program::start(node.stderr(Stdio::null()));
    let port = program.json()["port"].as_u64().unwrap();
    (program, format!("http://127.0.0.1:{port}/mcp"))
}

/// The module that keeps notes, and its address.
pub(super) fn notes() -> (Program, String) {
    let mut python = test_command(file("venv-mcp/bin/python"));
    let program = Program::start(python.arg(files().join("module.py")));
    let port = program.json()["port"].as_u64().unwrap();
    (program, format!("http://127.0.0.1:{port}"))
}

/// View that the Python client has of a server.
#[derive(Debug)]
pub(super) struct ClientReport {
    pub(super) protocol: String,
    /// All pages as one.
    pub(super) tools: Vec<Value>,
    /// One line for each call, in their order.
    pub(super) calls: Vec<Value>,
}

impl ClientReport {
    /// The names, in the order of the list.
    pub(super) fn names(&self) -> Vec<String> {
        self.tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }
}

/// Runs the Python client: `http URL MODE`, or `stdio PROGRAM …`.
pub(super) fn client(words: &[&str], key: Option<&str>, calls: &[(&str, Value)]) -> ClientReport {
    let mut python = test_command(file("venv-mcp/bin/python"));
    python.arg(files().join("client.py")).args(words).current_dir(std::env::temp_dir());
    python.envs(key.map(|key| ("TOOLKEEP_KEY", key)));
    python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = python.spawn().unwrap();
    let calls = json!(calls).to_string();
    child.stdin.take().unwrap().write_all(calls.as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{words:?}: {said}");
    let mut seen = ClientReport { protocol: String::new(), tools: Vec::new(), calls: Vec::new() };
    for line in String::from_utf8(ended.stdout).unwrap().lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if let Some(protocol) = line["protocol"].as_str() {
            seen.protocol = protocol.to_owned();
        } else if let Value::Array(tools) = line["tools"].take() {
            seen.tools.extend(tools);
        } else {
            seen.calls.push(line);
        }
    }
    seen
}
