//! Tests of `toolkeep mcp`, MCP over standard input and output.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::command_runner::CommandHome;

/// One conversation.
pub(crate) struct StdioClient {
    pub(crate) child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl StdioClient {
    pub(crate) fn start(home: &CommandHome, flags: &[&str]) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "the binary under test is started as MCP clients start it"
        )]
        let mut child = Command::new(env!("CARGO_BIN_EXE_toolkeep"))
            .arg("mcp")
            .args(flags)
            .env_clear()
            .env("TOOLKEEP_DATA", home.data(""))
            .env("TOOLKEEP_CONFIG", home.path("toolkeep.yaml"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { input: child.stdin.take(), output, child }
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.say_text(&message.to_string());
    }

    fn say_text(&mut self, text: &str) {
        writeln!(self.input.as_mut().unwrap(), "{text}").unwrap();
    }

    pub(crate) fn receive(&mut self) -> Value {
        serde_json::from_str(&self.output.next().unwrap().unwrap()).unwrap()
    }

    pub(crate) fn ask(&mut self, message: &Value) -> Value {
        self.send(message);
        self.receive()
    }

    /// The same, skipping notifications.
    pub(crate) fn answer(&mut self, message: &Value) -> Value {
        self.send(message);
        loop {
            let said = self.receive();
            if said["id"] == message["id"] {
                return said;
            }
        }
    }

    /// Closes the input; returns the remaining output and the exit code.
    pub(crate) fn end(mut self) -> (Vec<String>, i32) {
        drop(self.input.take());
        let rest = self.output.by_ref().map(Result::unwrap).collect();
        (rest, self.child.wait().unwrap().code().unwrap())
    }

    pub(crate) fn initialize(&mut self) {
        let hello =
            self.ask(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"}}}));
        assert_eq!(hello["result"]["protocolVersion"], "2025-11-25");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }
}

/// A home, and the background server that runs in it: ended with it.
struct StoppedHome(CommandHome);

impl std::ops::Deref for StoppedHome {
    type Target = CommandHome;
    fn deref(&self) -> &CommandHome {
        &self.0
    }
}

impl Drop for StoppedHome {
    fn drop(&mut self) {
        self.0.run(&["stop"]);
    }
}

fn home() -> StoppedHome {
    let home = CommandHome::new();
    home.write("toolkeep.yaml", "version: 1\n");
    StoppedHome(home)
}

fn meta() -> Value {
    json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}})
}

pub(crate) fn names(list: &Value) -> Vec<&str> {
    let tools = list["result"]["tools"].as_array().unwrap_or_else(|| panic!("{list}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// Lists, calls, and receives errors, in both eras.
fn serves(mut talk: StdioClient) {
    talk.initialize();
    let list = talk.answer(&json!({"jsonrpc": "2.0", "id": "a", "method": "tools/list"}));
    assert!(names(&list).contains(&"echo"), "{list}");
    let call = json!({"name": "echo", "arguments": {"message": "hi\nthere"}});
    let said =
        talk.answer(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}));
    assert_eq!(said["id"], 2);
    assert!(said["result"]["content"][0]["text"].as_str().unwrap().contains("hi"), "{said}");
    let alone = json!({"name": "echo", "arguments": {"message": "hi"}, "_meta": meta()});
    let said =
        talk.answer(&json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": alone}));
    assert_eq!(said["result"]["resultType"], "complete", "{said}");
    let unknown = json!({"name": "nothing", "_meta": meta()});
    let said =
        talk.answer(&json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": unknown}));
    assert_eq!((&said["id"], &said["error"]["code"]), (&json!(4), &json!(-32602)), "{said}");
    talk.say_text("{ this is no message");
    assert_eq!(talk.receive()["error"]["code"], -32700);
    talk.say_text("");
    let (rest, exit) = talk.end();
    assert_eq!((rest, exit), (Vec::new(), 0));
}

#[test]
fn without_a_server_it_starts_one_that_other_commands_use_too() {
    let home = home();
    serves(StdioClient::start(&home, &[]));
    assert!(home.data("server.json").exists());
    let records = home.run(&["record", "list", "-o", "json"]).json();
    let all = records["records"].as_array().unwrap();
    let called = |record: &&Value| record["body"]["tool"]["name"] == "echo";
    assert_eq!(all.iter().filter(called).count(), 2, "{records}");
}

#[test]
fn with_a_server_it_speaks_to_that_one() {
    let home = home();
    let serving = home.serve(&[]);
    serves(StdioClient::start(&home, &[]));
    serves(StdioClient::start(&home, &["--url", &serving.address()]));
    drop(serving);
}

#[test]
fn many_requests_at_once_are_all_answered_before_the_end() {
    let home = home();
    let mut talk = StdioClient::start(&home, &[]);
    talk.initialize();
    for id in 1..=300 {
        let call = json!({"name": "echo", "arguments": {"message": id.to_string()}});
        talk.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call}));
    }
    let (rest, exit) = talk.end();
    // The list of tools may have changed meanwhile, which is no answer.
    let id = |line: &String| serde_json::from_str::<Value>(line).unwrap()["id"].as_i64();
    let mut ids: Vec<_> = rest.iter().filter_map(id).collect();
    ids.sort_unstable();
    assert_eq!(exit, 0);
    assert_eq!(ids, (1..=300).collect::<Vec<_>>());
}
