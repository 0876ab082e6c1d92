//! Tests of the background server of `toolkeep mcp`, which all clients share.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Deref;

use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use crate::command_runner::{CommandHome, wait_until};
use crate::stdio_transport::{StdioClient, names};
use crate::support::mcp_source;
use crate::support::process_marks::{marked_processes, new_mark};

/// A home whose background server ends with it.
struct BackgroundHome(CommandHome);

impl Deref for BackgroundHome {
    type Target = CommandHome;
    fn deref(&self) -> &CommandHome {
        &self.0
    }
}

impl Drop for BackgroundHome {
    fn drop(&mut self) {
        self.0.run(&["stop"]);
    }
}

impl BackgroundHome {
    fn new(rest: &str) -> Self {
        let home = CommandHome::new();
        home.write("toolkeep.yaml", &format!("version: 1\n{rest}"));
        Self(home)
    }

    fn server(&self) -> Option<Value> {
        serde_json::from_slice(&fs::read(self.data("server.json")).ok()?).ok()
    }

    fn pid(&self) -> u64 {
        self.server().unwrap()["pid"].as_u64().unwrap()
    }

    /// Background servers of this data directory that run.
    fn servers(&self) -> BTreeSet<u64> {
        let data = self.data("");
        let data = data.to_str().unwrap().trim_end_matches('/');
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok());
        let serves = |pid: &u64| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            line.contains("--background") && line.contains(data)
        };
        pids.filter(serves).collect()
    }

    fn state(&self, source: &str) -> Value {
        let sources = self.run(&["source", "list", "-o", "json"]).json();
        let all = sources["sources"].as_array().unwrap().clone();
        all.into_iter().find(|it| it["name"] == source).unwrap()["state"].clone()
    }
}

fn kill(pid: u64) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    // A process that has ended runs no program, even before its parent has reaped it.
    wait_until("it is gone", || {
        fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero())).is_err()
    });
}

fn list(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"})
}

fn call(id: u64, tool: &str) -> Value {
    let params = json!({"name": tool, "arguments": {"message": "hi"}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

fn sources(rows: &str) -> String {
    format!("sources:\n{rows}")
}

#[test]
fn initialize_and_calls_are_answered_while_a_source_hangs() {
    let mark = new_mark();
    let rows =
        mcp_source::source("hangs", "leaf", &mark) + &mcp_source::source("works", "echo", &mark);
    let world = BackgroundHome::new(&sources(&rows));
    let mut talk = StdioClient::start(&world, &[]);
    talk.initialize();
    // Control: it still hangs, and any caller would keep waiting.
    assert_eq!(world.state("hangs"), "starting");
    let tools = talk.answer(&list(1));
    assert!(names(&tools).contains(&"works_echo"), "{tools}");
    let said = talk.answer(&call(2, "works_echo"));
    assert!(said["result"]["content"][0]["text"].as_str().unwrap().contains("hi"), "{said}");
    assert_eq!(world.state("hangs"), "starting");
    talk.end();
}

#[test]
fn the_first_command_without_a_server_does_not_wait_for_a_source_that_hangs() {
    let mark = new_mark();
    let world = BackgroundHome::new("");
    // With a start that may take an hour, a command that waited for it would not end.
    let hanging =
        mcp_source::source("hangs", "leaf", &mark).replace(" }\n", ", startup_timeout: 1h }\n");
    let rows = hanging + &mcp_source::source("works", "echo", &mark);
    world.write("toolkeep.yaml", &format!("version: 1\n{}", sources(&rows)));
    for line in [
        &["tool", "call", "works.echo", "message=hi"][..],
        &["tool", "call", "echo", "message=hi"],
        &["tool", "list"],
        &["key", "list"],
    ] {
        let ran = world.run(line);
        assert_eq!(ran.code, 0, "{line:?}: {}", ran.err);
    }
    // The control: the source is there, and hangs.
    assert_eq!(world.state("hangs"), "starting");
    assert!(world.server().is_none(), "no command but `mcp` leaves a server");
}

#[test]
fn tools_are_listed_as_they_come() {
    let world = BackgroundHome::new("");
    let (go, program) = (world.path("go"), mcp_source::program());
    let script = format!(
        "while [ ! -e '{}' ]; do sleep 0.02; done; exec '{}' echo late",
        go.display(),
        program.display()
    );
    let source = json!({"name": "slow", "mcp": {"command": "sh", "args": ["-c", script]}});
    world.write("toolkeep.yaml", &json!({"version": 1, "sources": [source]}).to_string());
    let mut talk = StdioClient::start(&world, &[]);
    talk.initialize();
    let tools = talk.answer(&list(1));
    assert!(!names(&tools).contains(&"slow_late"), "{tools}");
    fs::write(go, "").unwrap();
    // Other sources may be reported first.
    for id in 2.. {
        while talk.receive()["method"] != "notifications/tools/list_changed" {}
        if names(&talk.answer(&list(id))).contains(&"slow_late") {
            break;
        }
    }
    talk.end();
}

#[test]
fn clients_and_commands_share_one_server_whoever_starts_it() {
    let world = BackgroundHome::new("");
    let mut talks: Vec<_> = (0..6).map(|_| StdioClient::start(&world, &[])).collect();
    for talk in &mut talks {
        talk.initialize();
    }
    assert_eq!(world.servers(), BTreeSet::from([world.pid()]));
    for talk in &mut talks {
        assert!(talk.answer(&call(1, "echo"))["result"].is_object());
    }
    for line in
        [&["approval", "list"][..], &["tool", "call", "echo", "message=hi"], &["key", "list"]]
    {
        let ran = world.run(line);
        assert_eq!(ran.code, 0, "{line:?}: {}", ran.err);
    }
    // All calls went through that server: its record has every call.
    let records = world.run(&["record", "list", "-o", "json", "--limit", "100"]).json();
    let outcomes = records["records"].as_array().unwrap().iter();
    let echoes = outcomes.filter(|record| record["body"]["tool"]["name"] == "echo").count();
    assert_eq!(echoes, 7, "{records}");
    for talk in talks {
        talk.end();
    }
}

#[test]
fn a_server_ends_after_its_last_client_also_where_that_was_killed() {
    let mark = new_mark();
    let rows = mcp_source::source("works", "echo", &mark);
    let world = BackgroundHome::new(&format!("server: {{ idle_timeout: 1s }}\n{}", sources(&rows)));
    let mut talk = StdioClient::start(&world, &[]);
    talk.initialize();
    let mut second = StdioClient::start(&world, &[]);
    second.initialize();
    talk.child.kill().unwrap();
    talk.child.wait().unwrap();
    assert!(second.answer(&call(1, "works_echo"))["result"].is_object());
    // The control: there is something that could be left.
    assert!(!marked_processes(&mark).is_empty() && world.servers().len() == 1);
    second.child.kill().unwrap();
    second.child.wait().unwrap();
    wait_until("nothing is left", || {
        marked_processes(&mark).is_empty() && world.servers().is_empty()
    });
    assert!(world.server().is_none());
}

#[test]
fn a_client_goes_on_with_another_server_after_a_crash() {
    let world = BackgroundHome::new("");
    let mut talk = StdioClient::start(&world, &[]);
    talk.initialize();
    assert!(talk.answer(&call(1, "echo"))["result"].is_object());
    let before = world.pid();
    kill(before);
    let said = talk.answer(&call(2, "echo"));
    assert!(said["result"].is_object(), "{said}");
    assert_ne!(world.pid(), before);
    assert_eq!(world.servers(), BTreeSet::from([world.pid()]));
    talk.end();
}

#[test]
fn a_call_in_flight_at_a_crash_gets_a_clear_error() {
    let world = BackgroundHome::new("");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    world.write(
        "tools.yaml",
        &format!(
            "version: 2\ntools:\n  - name: stuck\n    description: Never answers.\n    parameters: {{ type: object }}\n    implementation: {{ type: http, method: POST, url: 'http://{address}/' }}\n"
        ),
    );
    world.write("toolkeep.yaml", "version: 1\nsources:\n  - { name: s, tools: ./tools.yaml }\n");
    let mut talk = StdioClient::start(&world, &[]);
    talk.initialize();
    talk.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "stuck", "arguments": {}}}));
    // It has come as far as the tool.
    let _reached = listener.accept().unwrap();
    kill(world.pid());
    let said = loop {
        let said = talk.receive();
        if said["id"] == 1 {
            break said;
        }
    };
    let message = said["error"]["message"].as_str().unwrap_or_else(|| panic!("{said}"));
    assert!(message.contains("may have been executed"), "{message}");
    // The control: the next call is answered.
    assert!(talk.answer(&call(2, "echo"))["result"].is_object());
    talk.end();
}

#[test]
fn a_server_that_a_person_starts_takes_the_place_of_the_one_in_the_background() {
    let world = BackgroundHome::new("");
    let mut talk = StdioClient::start(&world, &[]);
    talk.initialize();
    assert_eq!(world.server().unwrap()["background"], true);
    let serving = world.serve(&[]);
    assert_eq!(world.server().unwrap()["background"], false);
    assert!(talk.answer(&call(1, "echo"))["result"].is_object());
    assert!(world.servers().is_empty(), "{:?}", world.servers());
    // `stop` is for the other kind.
    let refused = world.run(&["stop"]);
    assert!(refused.code == 3 && refused.err.contains("toolkeep serve"), "{}", refused.err);
    assert_eq!(serving.end(), 0);
    // The client starts one of its own again.
    assert!(talk.answer(&call(2, "echo"))["result"].is_object());
    assert_eq!(world.server().unwrap()["background"], true);
    talk.end();
}

#[test]
fn a_server_of_another_version_is_replaced_once_nobody_else_uses_it() {
    let world = BackgroundHome::new("");
    let mut first = StdioClient::start(&world, &[]);
    first.initialize();
    let before = world.pid();
    let mut server = world.server().unwrap();
    wait_until("it has listed its sources", || {
        server = world.server().unwrap();
        server["listed"] == true
    });
    server["version"] = json!("0.0.1");
    fs::write(world.data("server.json"), server.to_string()).unwrap();
    let mut second = StdioClient::start(&world, &[]);
    second.initialize();
    assert_eq!(world.pid(), before, "it has another client");
    first.end();
    second.end();
    let mut third = StdioClient::start(&world, &[]);
    third.initialize();
    assert_ne!(world.pid(), before);
    third.end();
}

#[test]
fn a_client_with_another_configuration_is_told_and_gets_no_tools_of_the_first() {
    let world = BackgroundHome::new("");
    let mut talk = StdioClient::start(&world, &[]);
    talk.initialize();
    world.write("other.yaml", "version: 1\n");
    let ran = world.run(&["mcp", "--config", "other.yaml"]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    for part in ["another configuration", "toolkeep.yaml", "other.yaml", "`--data DIR`"] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    talk.end();
}

#[test]
fn the_configuration_of_a_folder_is_read_by_a_person_and_by_a_program_once_it_is_trusted() {
    let world = BackgroundHome::new("sources:\n  - { name: s, tools: ./tools.yaml }\n");
    world.write("tools.yaml", "version: 1\ntools:\n  - name: mine\n    description: Mine.\n    parameters: { type: object }\n    implementation: { type: mock, mock_response: 1 }\n");
    let listed = world.run(&["tool", "list"]);
    assert!(listed.out.contains("mine"), "{}", listed.out);
    let asked = world.run(&["mcp"]);
    assert!(asked.code == 0 && asked.err.contains("config trust"), "{}", asked.err);
    assert!(asked.err.contains("configuration: none"), "{}", asked.err);
    world.run(&["stop"]);
    assert_eq!(world.run(&["config", "trust"]).code, 0);
    let asked = world.run(&["mcp"]);
    assert!(asked.code == 0 && asked.err.contains("toolkeep.yaml"), "{}", asked.err);
    let listed = world.run(&["tool", "list"]);
    assert!(listed.out.contains("mine"), "{}", listed.out);
}

#[test]
fn a_background_server_that_does_not_start_says_why() {
    let world = BackgroundHome::new("");
    fs::create_dir_all(world.data("store.db")).unwrap();
    let ran = world.run_with(&["mcp"], ("TOOLKEEP_CONFIG", "toolkeep.yaml"));
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(ran.err.contains("store") && ran.err.contains("background.log"), "{}", ran.err);
}
