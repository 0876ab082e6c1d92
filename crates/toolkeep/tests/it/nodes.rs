//! Nodes that joined: a certificate with their id, and nobody else at either end.

mod forwarded;
pub(crate) mod served;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use egress::{Egress, EgressSettings, Origin};
use proto::connect::{Duplex, Line};
use proto::tls::{self, Identity, node_server_name};
use proto::toolrpc::CallFunctionRequest;
use rustls::ClientConfig;
use sdk::{Node, Options, Tool, Tools};
use serde_json::{Value, json};
use tokio::time::sleep;
use tool::Secret;

use crate::support::client::Client;
use crate::support::home::Home;
use crate::support::server::{SOON, Server, serve};
use crate::support_real::{Ran, cli, toolkeep};

const LONG: Duration = Duration::from_secs(10);

/// Joins with the key, as the command line does it on the node.
fn join(server: &Server, id: &str, key: &str, folder: &Path) -> Ran {
    let mut join = toolkeep();
    join.args(["node", "join", id, "--dir"]).arg(folder);
    Ran::of(join.args(["--url", &server.url]).env("TOOLKEEP_KEY", key))
}

fn invited(server: &Server, id: &str) -> String {
    let said = cli(server, &["node", "invite", id, "-o", "json"]).good();
    let said: Value = serde_json::from_str(&said).unwrap();
    said["key"].as_str().unwrap().to_owned()
}

/// A node that has joined into a folder of the home.
fn joined(server: &Server, home: &Home, id: &str) -> PathBuf {
    let folder = home.path(&format!("tls-{id}"));
    join(server, id, &invited(server, id), &folder).good();
    folder
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// A node whose one tool tells its name.
async fn node(server: &Server, id: &'static str, tool: &str, folder: &Path) -> Node {
    let tool = Tool::typed(tool, move |_: Value| async move { Ok::<_, String>(json!({"is": id})) });
    let mut tools = Tools::default();
    tools.add(tool).unwrap();
    let key = Secret::new(read(folder, tls::REGISTRY_KEY).trim().to_owned());
    let options = Options::default().port(0).node_id(id).tls(folder);
    let node = Node::start(tools, options.registry(&server.url, Some(key))).await.unwrap();
    assert_eq!(node.refused(), []);
    node
}

fn addresses(home: &Home, all: &[(&str, SocketAddr)]) {
    let all: Vec<_> = all.iter().map(|(id, at)| format!("{id}: 'https://{at}'")).collect();
    let text = format!("version: 1\nnodes: {{ addresses: {{ {} }} }}\n", all.join(", "));
    home.write("toolkeep.yaml", &text);
}

/// The answer once the server has seen what changed, or the last one.
async fn once(client: &Client, tool: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let body = json!({"tool_name": tool, "input": {}});
    let mut last = Value::Null;
    for _ in 0..SOON.as_millis() / 50 {
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
        (Egress::new(EgressSettings::default()).unwrap(), node_server_name(id).unwrap());
    let line = Line::new(move || {
        let (egress, origin) = (egress.clone(), origin.clone());
        let shown = (Arc::clone(&tls), name.clone());
        Box::pin(async move {
            let stream = egress.stream_of(&origin, shown, LONG).await;
            Ok(Box::new(stream.map_err(io::Error::other)?) as Box<dyn Duplex>)
        })
    });
    let call = CallFunctionRequest { tool_name: "who_a".to_owned(), input: "{}".into() };
    let answer = line.executor().call_function(call).await;
    answer.map(|answer| answer.into_inner().success).map_err(|status| format!("{status:?}"))
}

fn identity(folder: &Path) -> Identity {
    let part = |name| read(folder, name);
    Identity::of_pem(&part(tls::CERTIFICATE), &part(tls::KEY), &part(tls::AUTHORITY)).unwrap()
}

/// Believes the authority, and shows nothing.
fn nobody(folder: &Path) -> Arc<ClientConfig> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    let mut roots = rustls::RootCertStore::empty();
    let authority = read(folder, tls::AUTHORITY);
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
    let home = Home::new("version: 1\n");
    let server = serve(&home).await;
    let agent = server.agent();
    let (of_a, of_b) = (joined(&server, &home, "node-a"), joined(&server, &home, "node-b"));
    let a = node(&server, "node-a", "who_a", &of_a).await;
    let b = node(&server, "node-b", "who_b", &of_b).await;
    addresses(&home, &[("node-a", a.address()), ("node-b", b.address())]);
    let said = once(&agent, "who_a", |said| said["success"] == true).await;
    assert_eq!(said["output"], json!({"is": "node-a"}), "{said}");

    // Whoever is not the server gets nothing: without a certificate, or with another node's.
    for (who, tls) in [("nobody", nobody(&of_a)), ("node-b", identity(&of_b).client().unwrap())] {
        let refused = straight(a.address(), tls, "node-a").await;
        assert!(refused.is_err(), "{who} called node-a: {refused:?}");
    }
    // The control: what the server shows lets anyone in who has it.
    let kept = nodes::Authority::make(tool::Wall(1_800_000_000_000)).unwrap();
    let own = nodes::Authority::open(&kept).unwrap().caller(now(), None).unwrap();
    let foreign = straight(a.address(), own, "node-a").await;
    assert!(foreign.is_err(), "another installation's server called node-a: {foreign:?}");
    server_of(&home, &server, a.address()).await;

    // Where another node answers at its address, it is not called, whatever it has.
    addresses(&home, &[("node-a", b.address()), ("node-b", b.address())]);
    let told = |said: &Value| said["error"] == "the node `node-a` cannot be reached";
    let said = once(&agent, "who_a", told).await;
    assert!(told(&said) && said["success"] == false, "{said}");
    let log = std::fs::read_to_string(home.log()).unwrap();
    assert!(log.contains("node not reached") && log.contains("certificate"), "{log}");
    let said = once(&agent, "who_b", |said| said["success"] == true).await;
    assert_eq!(said["output"], json!({"is": "node-b"}), "{said}");
    a.stop().await;
    b.stop().await;
    assert!(server.stop().await.success());
}

#[expect(clippy::disallowed_methods, reason = "a test stands outside")]
fn now() -> tool::Wall {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    tool::Wall(u64::try_from(since.as_millis()).unwrap())
}

/// The server's own authority lets a caller in: read from its store, as nobody else could.
async fn server_of(home: &Home, server: &Server, at: SocketAddr) {
    let copy = home.path("copy.db");
    std::fs::copy(server.data.join("store.db"), &copy).unwrap();
    drop(std::fs::copy(server.data.join("store.db-wal"), home.path("copy.db-wal")));
    let store = store::SqliteStore::open(copy).unwrap();
    let kept = tool::Store::get(&store, "secret/nodes-authority").await.unwrap().unwrap();
    let kept: nodes::KeptAuthority = serde_json::from_slice(&kept.bytes).unwrap();
    let shown = nodes::Authority::open(&kept).unwrap().caller(now(), None).unwrap();
    assert_eq!(straight(at, shown, "node-a").await, Ok(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invitation_is_for_one_node_once_and_a_node_renews_with_its_own_key() {
    let home = Home::new("version: 1\n");
    let server = serve(&home).await;
    let key = invited(&server, "node-a");
    let folder = home.path("a");
    let refused = |ran: Ran| {
        assert_ne!(ran.code, Some(0), "{}", ran.out);
        ran.err
    };
    assert!(refused(join(&server, "node-b", &key, &home.path("b"))).contains("does not speak for"));
    join(&server, "node-a", &key, &folder).good();
    let again = refused(join(&server, "node-a", &key, &home.path("c")));
    assert!(again.contains("unauthenticated") || again.contains("used up"), "{again}");
    // It is for joining and nothing else.
    let (first, own) = (read(&folder, tls::CERTIFICATE), read(&folder, tls::REGISTRY_KEY));
    join(&server, "node-a", own.trim(), &folder).good();
    assert_ne!(read(&folder, tls::CERTIFICATE), first, "a new certificate");
    assert_eq!(read(&folder, tls::REGISTRY_KEY), own, "the same key");
    refused(join(&server, "node-b", own.trim(), &home.path("b")));
    // Who looks after all nodes may certify any, and keeps the key.
    let owner = std::fs::read_to_string(server.data.join("owner.key")).unwrap();
    for _ in 0..2 {
        join(&server, "node-a", owner.trim(), &home.path("d")).good();
    }
    assert!(!home.path("d").join(tls::REGISTRY_KEY).exists());
    let agent = server.agent();
    assert_eq!(agent.post("/v1/nodes/node-z/invite", &json!({})).await.status, 403);
    // Nobody else reads what stands in the folder.
    for name in [tls::KEY, tls::REGISTRY_KEY] {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(folder.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}");
    }
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_takes_a_built_in_tools_name_gets_no_call_of_it() {
    let home = Home::new("version: 1\n");
    let server = serve(&home).await;
    let folder = joined(&server, &home, "node-a");
    let calls = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = |name: &str| {
        let calls = Arc::clone(&calls);
        Tool::typed(name, move |_: Value| {
            calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            async { Ok::<_, String>(json!("the node's")) }
        })
    };
    let mut tools = Tools::default();
    for name in ["calculator", "own"] {
        tools.add(counted(name)).unwrap();
    }
    let key = Secret::new(read(&folder, tls::REGISTRY_KEY).trim().to_owned());
    let options = Options::default().port(0).node_id("node-a").tls(&folder);
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
    let source = server.owner().source("node.node-a").await.unwrap();
    assert!(source.to_string().contains("calculator"), "the problem is shown: {source}");
    node.stop().await;
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_share_an_authority_call_each_others_nodes() {
    let homes = [Home::new("version: 1\n"), Home::new("version: 1\n")];
    let file = homes[0].path("authority.json");
    let make = || Ran::of(toolkeep().args(["node", "authority"]).arg(&file));
    make().good();
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
    let (one, other) = (serve(&homes[0]).await, serve(&homes[1]).await);
    // It joined at one, and registers and is called at the other.
    let folder = joined(&one, &homes[0], "node-a");
    let wanted = json!({ "subject": "node-a", "rights": ["nodes:register"] });
    let made = other.owner().post("/v1/keys", &wanted).await;
    let key = made.body["key"].as_str().unwrap().to_owned();
    let tool = Tool::typed("who_a", |_: Value| async { Ok::<_, String>(json!({"is": "node-a"})) });
    let mut tools = Tools::default();
    tools.add(tool).unwrap();
    let options = Options::default().port(0).node_id("node-a").tls(&folder);
    let options = options.registry(&other.url, Some(Secret::new(key)));
    let node = Node::start(tools, options).await.unwrap();
    let at = format!(", addresses: {{ node-a: 'https://{}' }}", node.address());
    homes[1].write("toolkeep.yaml", &shared(&at));
    let said = once(&other.agent(), "who_a", |said| said["success"] == true).await;
    assert_eq!(said["output"], json!({"is": "node-a"}), "{said}");
    node.stop().await;
    assert!(one.stop().await.success() && other.stop().await.success());
}
