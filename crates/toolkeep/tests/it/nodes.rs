//! Tests of joined nodes: a certificate with the node's id at both ends.

mod node_forward;
pub(crate) mod node_serve;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use egress::{EgressClient, EgressOptions, Origin};
use proto::client::{GrpcChannel, IoStream};
use proto::tls::{self, TlsIdentity, node_server_name};
use proto::toolrpc::CallFunctionRequest;
use rustls::ClientConfig;
use sdk::{Node, NodeOptions, Tool, ToolSet};
use serde_json::{Value, json};
use tokio::time::sleep;
use tool::Secret;

use crate::real_support::{CommandOutput, run_cli, toolkeep};
use crate::support::installation::Installation;
use crate::support::rest_client::Client;
use crate::support::server_process::{READY_LIMIT, Server, start_server};

const LONG: Duration = Duration::from_secs(10);

/// Joins with the key, as the command line does it on the node.
fn join(server: &Server, id: &str, key: &str, folder: &Path) -> CommandOutput {
    let mut join = toolkeep();
    join.args(["node", "join", id, "--dir"]).arg(folder);
    CommandOutput::run_command(join.args(["--url", &server.url]).env("TOOLKEEP_KEY", key))
}

fn invited(server: &Server, id: &str) -> String {
    let said = run_cli(server, &["node", "invite", id, "-o", "json"]).expect_success();
    let said: Value = serde_json::from_str(&said).unwrap();
    said["key"].as_str().unwrap().to_owned()
}

/// A node that has joined into a folder of the home.
fn joined(server: &Server, home: &Installation, id: &str) -> PathBuf {
    let folder = home.path(&format!("tls-{id}"));
    join(server, id, &invited(server, id), &folder).expect_success();
    folder
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// A node whose only tool returns its name.
async fn node(server: &Server, id: &'static str, tool: &str, folder: &Path) -> Node {
    let tool = Tool::typed(tool, move |_: Value| async move { Ok::<_, String>(json!({"is": id})) });
    let mut tools = ToolSet::default();
    tools.add_tool(tool).unwrap();
    let key = Secret::new(read(folder, tls::REGISTRY_KEY_FILE).trim().to_owned());
    let options = NodeOptions::default().port(0).node_id(id).tls(folder);
    let node = Node::start(tools, options.registry(&server.url, Some(key))).await.unwrap();
    assert_eq!(node.rejected_tools(), []);
    node
}

fn addresses(home: &Installation, all: &[(&str, SocketAddr)]) {
    let all: Vec<_> = all.iter().map(|(id, at)| format!("{id}: 'https://{at}'")).collect();
    let text = format!("version: 1\nnodes: {{ addresses: {{ {} }} }}\n", all.join(", "));
    home.write("toolkeep.yaml", &text);
}

/// The answer once the server has seen what changed, or the last one.
async fn once(client: &Client, tool: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let body = json!({"tool_name": tool, "input": {}});
    let mut last = Value::Null;
    for _ in 0..READY_LIMIT.as_millis() / 50 {
        last = client.post("/cluster-tools/execute", &body).await.body;
        if fits(&last) {
            break;
        }
        sleep(Duration::from_millis(50)).await;
    }
    last
}

/// One call straight to a node, past the server.
async fn straight(at: SocketAddr, tls: Arc<ClientConfig>, id: &str) -> Result<bool, String> {
    let origin = Origin::parse(&format!("https://{at}")).unwrap();
    let (egress, name) =
        (EgressClient::new(EgressOptions::default()).unwrap(), node_server_name(id).unwrap());
    let line = GrpcChannel::new(move || {
        let (egress, origin) = (egress.clone(), origin.clone());
        let shown = (Arc::clone(&tls), name.clone());
        Box::pin(async move {
            let stream = egress.connect_tls_stream(&origin, shown, LONG).await;
            Ok(Box::new(stream.map_err(io::Error::other)?) as Box<dyn IoStream>)
        })
    });
    let call = CallFunctionRequest { tool_name: "who_a".to_owned(), input: "{}".into() };
    let answer = line.executor_client().call_function(call).await;
    answer.map(|answer| answer.into_inner().success).map_err(|status| format!("{status:?}"))
}

fn identity(folder: &Path) -> TlsIdentity {
    let part = |name| read(folder, name);
    TlsIdentity::from_pem(
        &part(tls::CERTIFICATE_FILE),
        &part(tls::PRIVATE_KEY_FILE),
        &part(tls::AUTHORITY_FILE),
    )
    .unwrap()
}

/// Believes the authority, and shows nothing.
fn nobody(folder: &Path) -> Arc<ClientConfig> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    let mut roots = rustls::RootCertStore::empty();
    let authority = read(folder, tls::AUTHORITY_FILE);
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_joined_is_called_over_tls_and_answers_only_the_server() {
    let home = Installation::new("version: 1\n");
    let server = start_server(&home).await;
    let agent = server.agent();
    let (of_a, of_b) = (joined(&server, &home, "node-a"), joined(&server, &home, "node-b"));
    let a = node(&server, "node-a", "who_a", &of_a).await;
    let b = node(&server, "node-b", "who_b", &of_b).await;
    addresses(&home, &[("node-a", a.address()), ("node-b", b.address())]);
    let said = once(&agent, "who_a", |said| said["success"] == true).await;
    assert_eq!(said["output"], json!({"is": "node-a"}), "{said}");

    // Whoever is not the server gets nothing: without a certificate, or with another node's.
    for (who, tls) in
        [("nobody", nobody(&of_a)), ("node-b", identity(&of_b).client_config().unwrap())]
    {
        let refused = straight(a.address(), tls, "node-a").await;
        assert!(refused.is_err(), "{who} called node-a: {refused:?}");
    }
    // Control: the server's certificate and key admit anyone who has them.
    let kept = nodes::CertificateAuthority::generate(tool::WallTime(1_800_000_000_000)).unwrap();
    let own = nodes::CertificateAuthority::from_stored(&kept)
        .unwrap()
        .build_client_config(now(), None)
        .unwrap();
    let foreign = straight(a.address(), own, "node-a").await;
    assert!(foreign.is_err(), "another installation's server called node-a: {foreign:?}");
    server_of(&home, &server, a.address()).await;

    // Another node at its address is not called, whatever tools it has.
    addresses(&home, &[("node-a", b.address()), ("node-b", b.address())]);
    let told = |said: &Value| said["error"] == "the node `node-a` cannot be reached";
    let said = once(&agent, "who_a", told).await;
    assert!(told(&said) && said["success"] == false, "{said}");
    let log = std::fs::read_to_string(home.log()).unwrap();
    assert!(log.contains("cannot reach a node") && log.contains("certificate"), "{log}");
    let said = once(&agent, "who_b", |said| said["success"] == true).await;
    assert_eq!(said["output"], json!({"is": "node-b"}), "{said}");
    a.stop().await;
    b.stop().await;
    assert!(server.stop().await.success());
}

#[expect(clippy::disallowed_methods, reason = "a test stands outside")]
fn now() -> tool::WallTime {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    tool::WallTime(u64::try_from(since.as_millis()).unwrap())
}

/// The server's own authority admits a caller; it is read from the store, which others cannot.
async fn server_of(home: &Installation, server: &Server, at: SocketAddr) {
    let copy = home.path("copy.db");
    std::fs::copy(server.data.join("store.db"), &copy).unwrap();
    drop(std::fs::copy(server.data.join("store.db-wal"), home.path("copy.db-wal")));
    let store = store::SqliteStore::open_file(copy).unwrap();
    let kept = tool::Store::get_value(&store, "secret/nodes-authority").await.unwrap().unwrap();
    let kept: nodes::StoredAuthority = serde_json::from_slice(&kept.bytes).unwrap();
    let shown = nodes::CertificateAuthority::from_stored(&kept)
        .unwrap()
        .build_client_config(now(), None)
        .unwrap();
    assert_eq!(straight(at, shown, "node-a").await, Ok(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invitation_is_for_one_node_once_and_a_node_renews_with_its_own_key() {
    let home = Installation::new("version: 1\n");
    let server = start_server(&home).await;
    let key = invited(&server, "node-a");
    let folder = home.path("a");
    let refused = |ran: CommandOutput| {
        assert_ne!(ran.code, Some(0), "{}", ran.out);
        ran.err
    };
    assert!(refused(join(&server, "node-b", &key, &home.path("b"))).contains("cannot act for"));
    join(&server, "node-a", &key, &folder).expect_success();
    let again = refused(join(&server, "node-a", &key, &home.path("c")));
    assert!(again.contains("unauthenticated") || again.contains("already used"), "{again}");
    // It is for joining and nothing else.
    let (first, own) =
        (read(&folder, tls::CERTIFICATE_FILE), read(&folder, tls::REGISTRY_KEY_FILE));
    join(&server, "node-a", own.trim(), &folder).expect_success();
    assert_ne!(read(&folder, tls::CERTIFICATE_FILE), first, "a new certificate");
    assert_eq!(read(&folder, tls::REGISTRY_KEY_FILE), own, "the same key");
    refused(join(&server, "node-b", own.trim(), &home.path("b")));
    // Who looks after all nodes may certify any, and keeps the key.
    let owner = std::fs::read_to_string(server.data.join("owner.key")).unwrap();
    for _ in 0..2 {
        join(&server, "node-a", owner.trim(), &home.path("d")).expect_success();
    }
    assert!(!home.path("d").join(tls::REGISTRY_KEY_FILE).exists());
    let agent = server.agent();
    assert_eq!(agent.post("/v1/nodes/node-z/invite", &json!({})).await.status, 403);
    // Other users cannot read the content of the folder.
    for name in [tls::PRIVATE_KEY_FILE, tls::REGISTRY_KEY_FILE] {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(folder.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}");
    }
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_takes_a_built_in_tools_name_gets_no_call_of_it() {
    let home = Installation::new("version: 1\n");
    let server = start_server(&home).await;
    let folder = joined(&server, &home, "node-a");
    let calls = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = |name: &str| {
        let calls = Arc::clone(&calls);
        Tool::typed(name, move |_: Value| {
            calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            async { Ok::<_, String>(json!("the node's")) }
        })
    };
    let mut tools = ToolSet::default();
    for name in ["calculator", "own"] {
        tools.add_tool(counted(name)).unwrap();
    }
    let key = Secret::new(read(&folder, tls::REGISTRY_KEY_FILE).trim().to_owned());
    let options = NodeOptions::default().port(0).node_id("node-a").tls(&folder);
    let node = Node::start(tools, options.registry(&server.url, Some(key))).await.unwrap();
    addresses(&home, &[("node-a", node.address())]);
    let agent = server.agent();
    let own = once(&agent, "own", |said| said["success"] == true).await;
    assert_eq!(own["output"], "the node's", "the control: its own name is its own");
    assert_eq!(calls.load(std::sync::atomic::Ordering::SeqCst), 1);
    // The name is the built-in tool's.
    let said = agent.call("calculator", &json!({"expression": "6*7"})).await;
    assert!(said.status == 200 && said.body.to_string().contains("42"), "{}", said.body);
    let calls = || calls.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(calls(), 1, "a call reached the node");
    // Who means the node's tool names the node: by the qualified name, or by the routes of nodes.
    let said = agent.call("node.node-a.calculator", &json!({"expression": "6*7"})).await;
    assert!(said.status == 200 && said.body.to_string().contains("the node's"), "{}", said.body);
    let body =
        json!({"tool_name": "calculator", "input": {"expression": "6*7"}, "node_id": "node-a"});
    let named = agent.post("/cluster-tools/execute", &body).await;
    assert_eq!((&named.body["success"], calls()), (&json!(true), 3), "{}", named.body);
    let source = server.owner().find_source("node.node-a").await.unwrap();
    assert!(source.to_string().contains("calculator"), "the problem is shown: {source}");
    node.stop().await;
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_share_an_authority_call_each_others_nodes() {
    let homes = [Installation::new("version: 1\n"), Installation::new("version: 1\n")];
    let file = homes[0].path("authority.json");
    let make = || CommandOutput::run_command(toolkeep().args(["node", "authority"]).arg(&file));
    make().expect_success();
    assert_ne!(make().code, Some(0), "one that is there is never touched");
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0);
    }
    let shared = |rest: &str| {
        format!("version: 1\nnodes: {{ authority_file: '{}'{rest} }}\n", file.display())
    };
    for home in &homes {
        home.write("toolkeep.yaml", &shared(""));
    }
    let (one, other) = (start_server(&homes[0]).await, start_server(&homes[1]).await);
    // It joined at one, and registers and is called at the other.
    let folder = joined(&one, &homes[0], "node-a");
    let wanted = json!({ "subject": "node-a", "rights": ["nodes:register"] });
    let made = other.owner().post("/v1/keys", &wanted).await;
    let key = made.body["key"].as_str().unwrap().to_owned();
    let tool = Tool::typed("who_a", |_: Value| async { Ok::<_, String>(json!({"is": "node-a"})) });
    let mut tools = ToolSet::default();
    tools.add_tool(tool).unwrap();
    let options = NodeOptions::default().port(0).node_id("node-a").tls(&folder);
    let options = options.registry(&other.url, Some(Secret::new(key)));
    let node = Node::start(tools, options).await.unwrap();
    let at = format!(", addresses: {{ node-a: 'https://{}' }}", node.address());
    homes[1].write("toolkeep.yaml", &shared(&at));
    let said = once(&other.agent(), "who_a", |said| said["success"] == true).await;
    assert_eq!(said["output"], json!({"is": "node-a"}), "{said}");
    node.stop().await;
    assert!(one.stop().await.success() && other.stop().await.success());
}
