//! Node addresses from Kubernetes, with a loopback server that implements list and watch of its API
//! server.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use egress::{EgressClient, EgressOptions, Origin};
use nodes::{NodeAddresses, PersistentNodeRegistry};
use nodes_kubernetes::{KubernetesLocator, KubernetesSettings};
use serde_json::{Value, json};
use testkit::clock::FakeClock;
use testkit::context::{quiet_context, test_caller};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tool::node_registry::{NodeRegistry as _, ResolveError};

use crate::support::{Node, NodeEvent, call, registry};

/// State of the API server.
struct State {
    nodes: BTreeMap<String, Value>,
    version: u64,
    /// Lines of a watch, by their versions.
    history: Vec<(u64, String)>,
    /// The requests: `list` or `watch`.
    asked: Vec<&'static str>,
    tokens: BTreeSet<String>,
    status: u16,
}

pub(crate) struct FakeApiServer {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    news: watch::Sender<u64>,
    tasks: JoinSet<()>,
}

impl FakeApiServer {
    pub(crate) async fn start() -> Self {
        let state = State {
            nodes: BTreeMap::new(),
            version: 1,
            history: Vec::new(),
            asked: Vec::new(),
            tokens: BTreeSet::new(),
            status: 200,
        };
        let mut api = Self {
            address: ([127, 0, 0, 1], 0).into(),
            state: Arc::new(Mutex::new(state)),
            news: watch::Sender::new(0),
            tasks: JoinSet::new(),
        };
        api.listen().await;
        api
    }

    pub(crate) async fn listen(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.address = listener.local_addr().unwrap();
        let (state, news) = (Arc::clone(&self.state), self.news.clone());
        self.tasks.spawn(async move {
            let mut open = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                open.spawn(serve(stream, Arc::clone(&state), news.subscribe()));
            }
        });
    }

    /// Breaks its connections and stops listening.
    pub(crate) async fn stop(&mut self) {
        self.tasks.shutdown().await;
    }

    pub(crate) fn put_node(&self, name: &str, label: Option<&str>, ip: Option<&str>) {
        let mut state = self.state.lock().unwrap();
        state.version += 1;
        let version = state.version;
        let addresses: Vec<_> =
            ip.iter().map(|ip| json!({"type": "InternalIP", "address": ip})).collect();
        let labels = label.map_or(json!({}), |label| json!({ "nodeID": label }));
        let node = json!({
            "kind": "Node", "apiVersion": "v1",
            "metadata": {"name": name, "uid": "u", "resourceVersion": version.to_string(), "labels": labels},
            "spec": {}, "status": {"addresses": addresses, "images": [{"names": ["x"]}]},
        });
        let labelled = |node: &Value| node["metadata"]["labels"]["nodeID"].is_string();
        let old = state.nodes.insert(name.to_owned(), node.clone());
        // The selector: a node without its label is deleted for watchers.
        let event = match (old.as_ref().is_some_and(labelled), labelled(&node)) {
            (false, true) => Some("ADDED"),
            (true, true) => Some("MODIFIED"),
            (true, false) => Some("DELETED"),
            (false, false) => None,
        };
        if let Some(event) = event {
            state.history.push((version, json!({"type": event, "object": node}).to_string()));
        }
        drop(state);
        self.news.send_modify(|count| *count += 1);
    }

    fn request_count(&self, what: &str) -> usize {
        self.state.lock().unwrap().asked.iter().filter(|asked| **asked == what).count()
    }
}

fn query<'a>(head: &'a str, key: &str) -> Option<&'a str> {
    let path = head.split_whitespace().nth(1)?;
    path.split_once('?')?.1.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>, mut news: watch::Receiver<u64>) {
    let mut held = Vec::new();
    loop {
        let mut part = [0; 4096];
        while !held.windows(4).any(|end| end == b"\r\n\r\n") {
            match stream.read(&mut part).await {
                Ok(0) | Err(_) => return,
                Ok(read) => held.extend_from_slice(&part[..read]),
            }
        }
        let head = String::from_utf8(std::mem::take(&mut held)).unwrap();
        assert!(head.starts_with("GET /api/v1/nodes?"), "{head}");
        assert_eq!(query(&head, "labelSelector"), Some("nodeID"));
        let status = {
            let mut state = state.lock().unwrap();
            let token = head.lines().find_map(|line| line.strip_prefix("authorization: "));
            state.tokens.extend(token.map(str::to_owned));
            state.asked.push(if query(&head, "watch").is_some() { "watch" } else { "list" });
            state.status
        };
        if status != 200 {
            let head = format!("HTTP/1.1 {status} No\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
        } else if query(&head, "watch").is_some() {
            serve_watch(&mut stream, &head, &state, &mut news).await;
        } else {
            let body = list(&state, query(&head, "continue"));
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all((head + &body).as_bytes()).await.unwrap();
        }
    }
}

/// Two to a page.
fn list(state: &Mutex<State>, from: Option<&str>) -> String {
    let state = state.lock().unwrap();
    let from: usize = from.map_or(0, |from| from.parse().unwrap());
    let labelled: Vec<_> = state
        .nodes
        .values()
        .filter(|node| node["metadata"]["labels"]["nodeID"].is_string())
        .collect();
    let goes_on = if labelled.len() > from + 2 { (from + 2).to_string() } else { String::new() };
    let items: Vec<_> = labelled.into_iter().skip(from).take(2).collect();
    let version = state.version.to_string();
    json!({
        "kind": "NodeList", "apiVersion": "v1", "items": items,
        "metadata": {"resourceVersion": version, "continue": goes_on},
    })
    .to_string()
}

async fn serve_watch(
    stream: &mut TcpStream,
    head: &str,
    state: &Mutex<State>,
    news: &mut watch::Receiver<u64>,
) {
    let mut from: u64 = query(head, "resourceVersion").unwrap().parse().unwrap();
    let time: u64 = query(head, "timeoutSeconds").unwrap().parse().unwrap();
    let end = tokio::time::Instant::now() + Duration::from_secs(time);
    stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
    loop {
        news.borrow_and_update();
        let lines: Vec<_> = {
            let state = state.lock().unwrap();
            let forgotten = state.history.first().is_some_and(|(first, _)| *first > from + 1)
                && state.history.len() < usize::try_from(state.version).unwrap() - 1;
            if forgotten {
                let status = json!({"kind": "Status", "status": "Failure", "code": 410, "message": "too old"});
                vec![(state.version, json!({"type": "ERROR", "object": status}).to_string())]
            } else {
                state.history.iter().filter(|(version, _)| *version > from).cloned().collect()
            }
        };
        for (version, line) in lines {
            from = version;
            // In two parts: a line is none before its end.
            let (one, other) = line.split_at(line.len() / 2);
            for part in [one.to_owned(), format!("{other}\n")] {
                let chunk = format!("{:x}\r\n{part}\r\n", part.len());
                if stream.write_all(chunk.as_bytes()).await.is_err() {
                    return;
                }
            }
        }
        if tokio::time::timeout_at(end, news.changed()).await.is_err() {
            drop(stream.write_all(b"0\r\n\r\n").await);
            return;
        }
    }
}

/// A registry whose nodes are found by this server, as long as this is kept.
pub(crate) struct LocatorFixture {
    pub(crate) registry: PersistentNodeRegistry,
    clock: Arc<FakeClock>,
    kubernetes: Arc<KubernetesLocator>,
    _follows: JoinSet<()>,
}

impl LocatorFixture {
    pub(crate) async fn by(
        api: &FakeApiServer,
        https: bool,
        insecure: &[&str],
        token: Option<&Path>,
    ) -> Self {
        let registry = registry(None, &["echo"]).await;
        let clock = Arc::new(FakeClock::default());
        let settings = KubernetesSettings {
            api_server: Origin::parse(&format!("http://{}", api.address)).unwrap(),
            token_file: token.map(Path::to_owned),
            ca_file: None,
            uses_tls: https,
            port: 50051,
        };
        Self::with(registry, settings, insecure, clock)
    }

    /// Called in plaintext, at this port.
    pub(crate) async fn calling(api: &FakeApiServer, port: u16, insecure: &[&str]) -> Self {
        let settings = KubernetesSettings {
            api_server: Origin::parse(&format!("http://{}", api.address)).unwrap(),
            token_file: None,
            ca_file: None,
            uses_tls: false,
            port,
        };
        Self::with(registry(None, &["echo"]).await, settings, insecure, Arc::default())
    }

    fn with(
        registry: PersistentNodeRegistry,
        settings: KubernetesSettings,
        insecure: &[&str],
        clock: Arc<FakeClock>,
    ) -> Self {
        let egress = EgressClient::new(EgressOptions::default()).unwrap();
        let kubernetes =
            Arc::new(KubernetesLocator::new(settings, egress, Arc::clone(&clock) as _));
        registry.set_locator(Arc::clone(&kubernetes));
        let insecure_ok = insecure.iter().map(|id| (*id).to_owned()).collect();
        registry.set_addresses(NodeAddresses {
            plaintext_nodes: insecure_ok,
            ..NodeAddresses::default()
        });
        let mut follows = JoinSet::new();
        let follower = Arc::clone(&kubernetes);
        follows.spawn(async move { follower.run_watch().await });
        Self { registry, clock, kubernetes, _follows: follows }
    }

    pub(crate) async fn until(
        &self,
        node: &str,
        holds: impl Fn(&Result<String, ResolveError>) -> bool,
    ) -> String {
        let mut last = self.registry.resolve_endpoint(node);
        for _ in 0..1_000 {
            if holds(&last) {
                return last.unwrap_or_else(|error| error.to_string());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            last = self.registry.resolve_endpoint(node);
        }
        panic!("{last:?}")
    }

    pub(crate) async fn at(&self, node: &str, endpoint: &str) {
        self.until(node, |now| now.as_deref() == Ok(endpoint)).await;
    }
}

#[tokio::test]
async fn a_node_is_where_the_label_says_and_what_goes_wrong_has_its_own_words() {
    let api = FakeApiServer::start().await;
    api.put_node("k1", Some("n1"), Some("10.0.0.1"));
    api.put_node("k2", Some("n2"), None);
    api.put_node("k3", None, Some("10.0.0.3"));
    api.put_node("k4", Some("n4"), Some("10.0.0.4"));
    api.put_node("k5", Some("n4"), Some("10.0.0.5"));
    let found = LocatorFixture::by(&api, true, &[], None).await;
    found.at("n1", "10.0.0.1:50051").await;
    let told = |node: &str| found.registry.resolve_endpoint(node).unwrap_err();
    assert_eq!(told("n3"), ResolveError::NoNodeLabel("n3".to_owned()));
    let words =
        "no Kubernetes node has the label nodeID=n3, and `nodes.addresses` does not list the node";
    assert_eq!(told("n3").to_string(), words);
    let unusable = |node: &str| match told(node) {
        ResolveError::InvalidAddress { reason: why, .. } => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(unusable("n2"), "its Kubernetes node has no InternalIP");
    assert_eq!(unusable("n4"), "several Kubernetes nodes have the label `nodeID=n4`");
}

#[tokio::test]
async fn what_changes_there_is_known_without_asking_for_each_call() {
    let api = FakeApiServer::start().await;
    api.put_node("k1", Some("n1"), Some("10.0.0.1"));
    let found = LocatorFixture::by(&api, true, &[], None).await;
    found.at("n1", "10.0.0.1:50051").await;
    // Another address, another label, both.
    api.put_node("k1", Some("n1"), Some("10.0.0.9"));
    found.at("n1", "10.0.0.9:50051").await;
    api.put_node("k1", Some("n2"), Some("10.0.0.9"));
    found.at("n2", "10.0.0.9:50051").await;
    found.until("n1", |now| *now == Err(ResolveError::NoNodeLabel("n1".to_owned()))).await;
    api.put_node("k1", None, Some("10.0.0.9"));
    found.until("n2", |now| *now == Err(ResolveError::NoNodeLabel("n2".to_owned()))).await;
    for _ in 0..1_000 {
        drop(found.registry.resolve_endpoint("n1"));
    }
    // The pages of one list.
    assert_eq!((api.request_count("list"), api.request_count("watch")), (1, 1));
}

#[tokio::test]
async fn while_it_is_away_what_it_said_last_counts_for_a_while() {
    let mut api = FakeApiServer::start().await;
    for (name, label, ip) in
        [("k1", "n1", "10.0.0.1"), ("k2", "n2", "10.0.0.2"), ("k3", "n3", "10.0.0.3")]
    {
        api.put_node(name, Some(label), Some(ip));
    }
    let found = LocatorFixture::by(&api, true, &[], None).await;
    found.at("n3", "10.0.0.3:50051").await;
    api.stop().await;
    while found.kubernetes.stale_reason().is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(found.registry.resolve_endpoint("n1").as_deref(), Ok("10.0.0.1:50051"));
    found.clock.advance(Duration::from_mins(6));
    let told = found.until("n1", Result::is_err).await;
    assert!(told.contains("Kubernetes is unavailable: "), "{told}");
    api.put_node("k1", Some("n1"), Some("10.0.0.7"));
    api.listen().await;
    let since = tokio::time::Instant::now();
    found.at("n1", "10.0.0.7:50051").await;
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    assert_eq!(found.kubernetes.stale_reason(), None);
}

#[tokio::test]
async fn what_it_has_forgotten_is_read_anew() {
    let mut api = FakeApiServer::start().await;
    api.put_node("k1", Some("n1"), Some("10.0.0.1"));
    let found = LocatorFixture::by(&api, true, &[], None).await;
    found.at("n1", "10.0.0.1:50051").await;
    api.put_node("k1", Some("n1"), Some("10.0.0.2"));
    found.at("n1", "10.0.0.2:50051").await;
    {
        let mut state = api.state.lock().unwrap();
        state.history.clear();
        state.version += 5;
    }
    api.put_node("k1", Some("n1"), Some("10.0.0.3"));
    found.at("n1", "10.0.0.3:50051").await;
    assert!(api.request_count("list") >= 2);
    api.stop().await;
}

#[tokio::test]
async fn the_token_goes_along_as_it_is_now_and_what_it_may_not_is_told() {
    let api = FakeApiServer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "first\n").unwrap();
    api.state.lock().unwrap().status = 403;
    let found = LocatorFixture::by(&api, true, &[], Some(&file)).await;
    let told = found
        .until("n1", |now| now.as_ref().is_err_and(|e| e.to_string().contains("responded yet")))
        .await;
    assert!(told.contains("Kubernetes has not responded yet"), "{told}");
    while found.kubernetes.stale_reason().is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let why = found.kubernetes.stale_reason().unwrap();
    assert!(why.contains("must be allowed to list and watch nodes"), "{why}");
    std::fs::write(&file, "second\n").unwrap();
    api.put_node("k1", Some("n1"), Some("10.0.0.1"));
    api.state.lock().unwrap().status = 200;
    found.at("n1", "10.0.0.1:50051").await;
    let tokens = api.state.lock().unwrap().tokens.clone();
    assert_eq!(tokens.into_iter().collect::<Vec<_>>(), ["Bearer first", "Bearer second"]);
}

#[tokio::test]
async fn an_address_that_was_found_is_called_in_plaintext_only_where_that_is_meant() {
    let api = FakeApiServer::start().await;
    // A node that claims an address on the server's own loopback.
    api.put_node("evil", Some("n1"), Some("127.0.0.1"));
    let found = LocatorFixture::by(&api, false, &[], None).await;
    let told = found
        .until("n1", |now| now.as_ref().is_err_and(|e| e.to_string().contains("plaintext")))
        .await;
    assert!(told.contains("insecure_ok"), "{told}");
    // The control: by name it may.
    let found = LocatorFixture::by(&api, false, &["n1"], None).await;
    found.at("n1", "127.0.0.1:50051").await;
}

#[tokio::test]
async fn calls_follow_a_node_that_gets_another_address() {
    let (mut one, api) = (Node::start_at("127.0.0.11:0").await, FakeApiServer::start().await);
    let port = one.address.port();
    let mut other = Node::start_at(&format!("127.0.0.12:{port}")).await;
    api.put_node("k1", Some("n1"), Some("127.0.0.11"));
    let found = LocatorFixture::calling(&api, port, &["n1"]).await;
    found.at("n1", &format!("127.0.0.11:{port}")).await;
    let caller = test_caller();
    call(&found.registry, "echo", "{}", &quiet_context(&caller)).await.unwrap();
    assert!(matches!(one.next().await, NodeEvent::Call { .. }));
    api.put_node("k1", Some("n1"), Some("127.0.0.12"));
    found.at("n1", &format!("127.0.0.12:{port}")).await;
    call(&found.registry, "echo", "{}", &quiet_context(&caller)).await.unwrap();
    assert!(matches!(other.next().await, NodeEvent::Call { .. }));
}
