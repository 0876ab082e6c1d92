//! Tests of `toolkeep node serve`: local tools offered as a node, called and dialled.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use proto::tls::send_greeting;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::{addresses, identity, joined, once};
use crate::real_support::child_program::Program;
use crate::real_support::{CommandOutput, run_cli, toolkeep};
use crate::support::installation::Installation;
use crate::support::mcp_source;
use crate::support::rest_client::Client;
use crate::support::server_process::{READY_LIMIT, Server, spawn_under, start_server};

/// A machine with a configuration of its own, as a node.
pub(super) struct NodeMachine {
    home: Installation,
}

impl NodeMachine {
    /// With one tool of a file and what `it-mcp` has, by a file as other programs have it.
    pub(super) fn new() -> Self {
        let home = Installation::with_tools();
        let servers = json!({ "mcpServers": { "child": {
            "command": mcp_source::program(), "args": ["echo", "said"],
        } } });
        home.write("servers.json", &servers.to_string());
        home.write(
            "toolkeep.yaml",
            "version: 1\nsources:\n  - { name: local, tools: ./tools.yaml }\n  - { mcp_servers: ./servers.json }\n",
        );
        Self { home }
    }

    /// Starts it with these arguments.
    pub(super) fn serve(&self, server: &Server, id: &str, words: &[&str], tls: &Path) -> Program {
        let mut serve = toolkeep();
        serve.args(["node", "serve", id]).args(words).arg("--tls").arg(tls);
        serve.args(["--url", &server.url]).arg("--data").arg(self.home.data());
        serve.arg("--config").arg(self.home.config());
        Program::start(serve.stderr(log(&self.home)))
    }

    /// Content of its own record.
    fn records(&self) -> Value {
        let mut list = toolkeep();
        list.args(["record", "list", "-o", "json", "--data"]).arg(self.home.data());
        CommandOutput::run_command(list.arg("--config").arg(self.home.config())).json()
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.home.log()).unwrap_or_default()
    }
}

fn log(home: &Installation) -> Stdio {
    std::fs::File::options().create(true).append(true).open(home.log()).unwrap().into()
}

/// The address that it reports.
pub(super) fn address(node: &Program) -> SocketAddr {
    let line = node.find_line(" listens at ").expect("it says where it is called");
    let at = line.split(" listens at ").nth(1).unwrap().split(' ').next().unwrap();
    at.parse().unwrap()
}

/// A server that waits for nodes, and where.
pub(crate) async fn waiting(home: &Installation) -> (Server, SocketAddr) {
    let with = ["/usr/bin/env", "TOOLKEEP_NODE_LISTEN=127.0.0.1:0"].map(Into::into);
    let server = spawn_under(home, &with).wait_until_ready().await.wait_for_sources().await;
    let said = std::fs::read_to_string(home.log()).unwrap();
    let line = said.lines().rev().find_map(|line| line.strip_prefix("Nodes connect to "));
    let at = line.unwrap_or_else(|| panic!("{said}")).trim_end_matches('.').parse().unwrap();
    (server, at)
}

fn succeeded(said: &Value) -> bool {
    said["success"] == true
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tools_of_a_machine_are_a_nodes_and_run_through_its_own_pipeline() {
    let home = Installation::new("version: 1\n");
    let server = start_server(&home).await;
    let folder = joined(&server, &home, "node-a");
    let machine = NodeMachine::new();
    let node = machine.serve(&server, "node-a", &["--listen", "127.0.0.1:0"], &folder);
    addresses(&home, &[("node-a", address(&node))]);
    let agent = server.agent();
    let body = json!({"tool_name": "node-a.calculator", "input": {"expression": "6*7"}});
    let mut said = Value::Null;
    for _ in 0..READY_LIMIT.as_millis() / 50 {
        said = agent.post("/cluster-tools/execute", &body).await.body;
        if succeeded(&said) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(said["output"]["result"], json!(42), "{said}\n{}", machine.said());
    // A tool of a file, and one of an MCP server that the machine's own file names.
    let said = once(&agent, "node-a.save", succeeded).await;
    assert_eq!(said["output"], json!({"saved": true}), "{said}");
    let listed = server.owner().get("/v1/sources").await.body;
    let nodes: Vec<_> = listed["sources"].as_array().unwrap().iter().collect();
    assert!(nodes.iter().any(|source| source["name"] == "node.node-a"), "{listed}");
    let tools = server.owner().get("/tools/node-a").await.body;
    let names: Vec<_> =
        tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"node-a.child.said"), "{names:?}");
    let said = once(&agent, "node-a.child.said", succeeded).await;
    assert_eq!(said["output"], "{}", "{said}");
    assert!(names.iter().all(|name| name.starts_with("node-a.")), "{names:?}");
    // The server's own tool of that name is the server's.
    let own = agent.call("calculator", &json!({"expression": "6*7"})).await;
    assert_eq!(own.status, 200, "{}", own.body);
    // At its end the tools are gone, and what ran is on the machine's own record.
    node.stop_program();
    let gone = once(&agent, "node-a.save", |said| !succeeded(said)).await;
    assert_eq!(gone["error"], "Tool 'node-a.save' not found on any node", "{gone}");
    let records = machine.records().to_string();
    assert!(records.contains("\"calculator\"") && records.contains("\"save\""), "{records}");
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_connects_is_called_without_a_port_and_again_after_it_was_killed() {
    let home = Installation::new("version: 1\n");
    let (server, at) = waiting(&home).await;
    let (of_a, of_b) = (joined(&server, &home, "node-a"), joined(&server, &home, "node-b"));
    let machine = NodeMachine::new();
    let place = at.to_string();
    let words = ["--connect", place.as_str(), "--tool", "save"];
    let agent = server.agent();
    let node = machine.serve(&server, "node-a", &words, &of_a);
    assert!(node.has_line(" connects to "), "{}", machine.said());
    let said = once(&agent, "node-a.save", succeeded).await;
    assert_eq!(said["output"], json!({"saved": true}), "{said}\n{}", machine.said());
    // It listens nowhere.
    let pid = node.pid();
    assert_eq!(listening(pid), 0, "the node has an open port");
    assert!(listening(server.pid) >= 2, "the control: the server's ports are seen");
    // Killed: no answer; back: called again.
    drop(node);
    let lost = once(&agent, "node-a.save", |said| !succeeded(said)).await;
    assert!(!succeeded(&lost), "{lost}");
    let node = machine.serve(&server, "node-a", &words, &of_a);
    let said = once(&agent, "node-a.save", succeeded).await;
    assert!(succeeded(&said), "{said}");
    // A node that claims to be node-a with another certificate is neither admitted nor called.
    let refused = claims(at, "node-a", &of_b).await;
    assert!(refused.is_err(), "node-b came in as node-a");
    assert!(claims(at, "node-b", &of_b).await.is_ok(), "the control: node-b as itself");
    assert!(succeeded(&once(&agent, "node-a.save", succeeded).await));
    node.stop_program();
    assert!(server.stop().await.success());
}

/// Connects, claims to be `id`, and presents the certificate of `folder`.
#[expect(clippy::disallowed_methods, reason = "a test is the node, too")]
async fn claims(at: SocketAddr, id: &str, folder: &Path) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(at).await?;
    send_greeting(&mut stream, id).await?;
    let config = identity(folder).server_config().unwrap();
    let accepting = TlsAcceptor::from(Arc::clone(&config)).accept(stream);
    let mut stream = tokio::time::timeout(READY_LIMIT, accepting).await.unwrap()?;
    // In TLS 1.3 the server verifies the client last: the first byte of HTTP/2 shows its
    // acceptance.
    tokio::io::AsyncReadExt::read_u8(&mut stream).await.map(drop)
}

/// Number of TCP ports that a process listens on.
fn listening(pid: u32) -> usize {
    let sockets = |entry: std::fs::DirEntry| std::fs::read_link(entry.path()).ok();
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().filter_map(Result::ok);
    let open: Vec<_> = open.filter_map(sockets).collect();
    let mut count = 0;
    for table in ["tcp", "tcp6"] {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let words: Vec<_> = line.split_whitespace().collect();
            let socket = format!("socket:[{}]", words[9]);
            count += usize::from(words[3] == "0A" && open.iter().any(|at| at.ends_with(&socket)));
        }
    }
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn old_clients_come_without_a_key_only_where_that_is_meant_and_as_one_principal() {
    let home = Installation::with_tools();
    let server = start_server(&home).await;
    let key = server.data.join("agent.key");
    assert!(server.stop().await.success());
    let with = [
        "/usr/bin/env".into(),
        "TOOLKEEP_PLAIN_LISTEN=127.0.0.1:0".into(),
        format!("TOOLKEEP_PLAIN_KEY={}", key.display()).into(),
        "TOOLKEEP_GRPC_LISTEN=127.0.0.1:0".into(),
    ];
    let server = spawn_under(&home, &with).wait_until_ready().await.wait_for_sources().await;
    let said = std::fs::read_to_string(home.log()).unwrap();
    let port = |begin: &str, end: &str| -> u16 {
        let line = said.lines().rev().find(|line| line.starts_with(begin) && line.contains(end));
        let at = line.unwrap_or_else(|| panic!("{said}"));
        let at = at.split_whitespace().find_map(|word| word.trim_end_matches('.').parse().ok());
        at.map(|at: SocketAddr| at.port()).unwrap()
    };
    let plain = port("Clients of ", "--plain-key");
    let keyed = port("gRPC listens on ", "");
    let called = sdk::call_tool("save", &json!({}), "127.0.0.1", plain).await;
    assert_eq!((called.success, &called.output), (true, &json!({"saved": true})), "{called:?}");
    // It is the owner of that key and no other, on record.
    let call = &called.metadata["call_id"];
    let record = server.owner().fetch_record(call).await.body.to_string();
    assert!(record.contains("\"agent\""), "{record}");
    // The ordinary listener requires a certificate.
    let refused = sdk::call_tool("save", &json!({}), "127.0.0.1", keyed).await;
    assert!(!refused.success && refused.error.starts_with("RPC failed: "), "{refused:?}");
    // No plaintext by accident: beyond the loopback, or without a key that is named.
    for words in [
        &["--plain-listen", "0.0.0.0:0", "--plain-key", "agent.key"][..],
        &["--plain-listen", "127.0.0.1:0"],
        &["--plain-listen", "127.0.0.1:0", "--plain-key", "nowhere.key"],
    ] {
        does_not_start(&home, words);
    }
    drop(run_cli(&server, &["node", "list"]).expect_success());
    assert!(server.stop().await.success());
}

/// As the cluster tools' own package does it: without a credential, name before node.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_node_registers_without_a_key_only_where_that_is_meant_and_as_one_node() {
    let home = Installation::new("version: 1\n");
    let first = start_server(&home).await;
    let made = async |rights: Value| {
        let body = json!({"subject": "node-old", "rights": rights, "agent": false});
        let made = first.owner().post("/v1/keys", &body).await;
        made.body["key"].as_str().unwrap_or_else(|| panic!("{}", made.body)).to_owned()
    };
    home.write("node.key", &made(json!(["nodes:register"])).await);
    home.write("wide.key", &made(json!(["nodes:register", "nodes:write"])).await);
    assert!(first.stop().await.success());
    let at = async |key: &str| {
        let with = [
            "/usr/bin/env".into(),
            "TOOLKEEP_OLD_NODE_LISTEN=127.0.0.1:0".into(),
            format!("TOOLKEEP_OLD_NODE_KEY={}", home.path(key).display()).into(),
        ];
        let server = spawn_under(&home, &with).wait_until_ready().await.wait_for_sources().await;
        let said = std::fs::read_to_string(home.log()).unwrap();
        let line = said.lines().rev().find(|line| line.contains("--old-node-key"));
        let address = line.unwrap_or_else(|| panic!("{said}")).split(' ').nth(3).unwrap();
        (server, Client::for_url(&format!("http://{address}")))
    };
    let (server, old) = at("node.key").await;
    let tool = |node: &str| json!({"name": "say", "node_id": node, "input_spec": {}, "metadata": {}, "description": ""});
    for _ in 0..2 {
        drop(old.try_send(Method::DELETE, "/tools/say/node-old", String::new()).await);
        assert_eq!(old.post("/tools", &tool("node-old")).await.status, 201);
    }
    let known = server.owner().get("/v1/nodes").await.body;
    assert_eq!(
        (&known["nodes"][0]["node_id"], &known["nodes"][0]["tools"]),
        (&json!("node-old"), &json!(1))
    );
    // It is that node and no other, and there is nothing else at this door.
    assert_eq!(old.post("/tools", &tool("node-b")).await.status, 403);
    for path in
        ["/v1/tools", "/v1/nodes", "/v1/keys", "/v1/records", "/openapi.json", "/catalogue/tools/x"]
    {
        assert_eq!(old.get(path).await.status, 404, "{path}");
    }
    for path in ["/cluster-tools/execute", "/execute", "/v1/calls", "/mcp"] {
        assert_eq!(
            old.post(path, &json!({"tool_name": "say", "input": {}})).await.status,
            404,
            "{path}"
        );
    }
    // Control: the ordinary listener requires a key.
    let anyone = Client::for_url(&server.url);
    assert_eq!(anyone.post("/tools", &tool("node-old")).await.status, 401);
    assert!(server.stop().await.success());
    // A key that is more than a node's opens nothing.
    let (server, old) = at("wide.key").await;
    assert_eq!(old.post("/tools", &tool("node-b")).await.status, 403);
    assert_eq!(old.post("/tools", &tool("node-old")).await.status, 403);
    assert!(server.stop().await.success());
    for words in [
        &["--old-node-listen", "0.0.0.0:0", "--old-node-key", "node.key"][..],
        &["--old-node-listen", "127.0.0.1:0"],
        &["--old-node-listen", "127.0.0.1:0", "--old-node-key", "nowhere.key"],
    ] {
        does_not_start(&home, words);
    }
}

fn does_not_start(home: &Installation, words: &[&str]) {
    let mut serve = toolkeep();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(home.path("other"));
    let ran = CommandOutput::run_command(serve.args(words));
    assert_eq!(ran.code, Some(2), "{words:?}: {}", ran.err);
}
