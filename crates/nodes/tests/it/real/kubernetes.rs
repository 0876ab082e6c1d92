//! Node addresses from a Kubernetes API server, with exactly the rights of
//! `deploy/kubernetes/rbac.yaml`; and that server's validation of the other manifests there.

use std::sync::Arc;
use std::time::Duration;

use egress::{RequestLimits, UrlTrust};
use http::{Method, Request, StatusCode, header};
use nodes_kubernetes::KubernetesLocator;
use rustix::process::Signal;
use serde_json::Value;
use testkit::clock::FakeClock;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tool::node_registry::{NodeRegistry as _, ResolveError};

use super::cluster::{Cluster, documents, manifest, place};
use crate::support::registry;

/// Longest wait for a condition; after it, the test fails.
const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

/// A registry that follows it, as long as this is kept.
struct ClusterLocator {
    registry: nodes::PersistentNodeRegistry,
    kubernetes: Arc<KubernetesLocator>,
    _follows: JoinSet<()>,
}

impl ClusterLocator {
    async fn by(cluster: &Cluster) -> Self {
        let token = cluster.account().await;
        let registry = registry(None, &["echo"]).await;
        let settings = cluster.settings(token, true, 50051);
        let clock = Arc::new(FakeClock::default());
        let kubernetes = Arc::new(KubernetesLocator::new(settings, cluster.egress(), clock));
        registry.set_locator(Arc::clone(&kubernetes));
        let mut follows = JoinSet::new();
        let follower = Arc::clone(&kubernetes);
        follows.spawn(async move { follower.run_watch().await });
        Self { registry, kubernetes, _follows: follows }
    }

    async fn until(&self, node: &str, holds: impl Fn(&Result<String, ResolveError>) -> bool) {
        let since = Instant::now();
        loop {
            let now = self.registry.resolve_endpoint(node);
            if holds(&now) {
                return;
            }
            assert!(since.elapsed() < WAIT_TIMEOUT, "{node}: {now:?}");
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn at(&self, node: &str, ip: &str) {
        let place = format!("{ip}:50051");
        self.until(node, |now| now.as_deref() == Ok(&place)).await;
    }

    async fn nowhere(&self, node: &str) {
        self.until(node, |now| *now == Err(ResolveError::NoNodeLabel(node.to_owned()))).await;
    }

    async fn why(&self, node: &str, part: &str) {
        self.until(node, |now| now.as_ref().is_err_and(|told| told.to_string().contains(part)))
            .await;
    }

    async fn stale(&self) {
        let since = Instant::now();
        while self.kubernetes.stale_reason().is_none() {
            assert!(since.elapsed() < WAIT_TIMEOUT, "nobody says that it is away");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the state is no longer stale, and returns the duration.
    async fn fresh(&self) -> Duration {
        let since = Instant::now();
        while self.kubernetes.stale_reason().is_some() {
            assert!(since.elapsed() < WAIT_TIMEOUT, "{:?}", self.kubernetes.stale_reason());
            sleep(Duration::from_millis(5)).await;
        }
        since.elapsed()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_move_change_labels_and_go_and_the_manifests_rights_are_enough() {
    let cluster = Cluster::start().await;
    cluster.put_node("k1", Some("n1"), Some("10.0.0.1")).await;
    cluster.put_node("k2", Some("n2"), None).await;
    let found = ClusterLocator::by(&cluster).await;
    found.at("n1", "10.0.0.1").await;
    found.why("n2", "its Kubernetes node has no InternalIP").await;
    cluster.put_node("k2", Some("n2"), Some("fd00::2")).await;
    found.at("n2", "[fd00::2]").await;
    // Moved, relabelled, both taken back.
    cluster.put_node("k1", Some("n1"), Some("10.0.0.9")).await;
    found.at("n1", "10.0.0.9").await;
    cluster.put_node("k1", Some("n3"), Some("10.0.0.9")).await;
    found.at("n3", "10.0.0.9").await;
    found.nowhere("n1").await;
    cluster.put_node("k1", Some("n1"), Some("10.0.0.1")).await;
    found.at("n1", "10.0.0.1").await;
    // A label of two nodes belongs to neither, until one of them loses it.
    cluster.put_node("evil", Some("n1"), Some("10.6.6.6")).await;
    found.why("n1", "several Kubernetes nodes have the label `nodeID=n1`").await;
    cluster.put_node("evil", None, Some("10.6.6.6")).await;
    found.at("n1", "10.0.0.1").await;
    cluster.remove("k1").await;
    found.nowhere("n1").await;
    assert_eq!(found.kubernetes.stale_reason(), None);
    // The control: its token opens nothing else there.
    let token = std::fs::read_to_string(cluster.token()).unwrap();
    for (path, allowed) in [
        ("/api/v1/nodes", StatusCode::OK),
        ("/api/v1/nodes/k2", StatusCode::FORBIDDEN),
        ("/api/v1/pods", StatusCode::FORBIDDEN),
        ("/api/v1/namespaces/toolkeep/secrets", StatusCode::FORBIDDEN),
    ] {
        assert_eq!(request_status(&cluster, &token, path).await, allowed, "{path}");
    }
    assert_eq!(
        request_status(&cluster, "of-nobody", "/api/v1/nodes").await,
        StatusCode::UNAUTHORIZED
    );
}

async fn request_status(cluster: &Cluster, token: &str, path: &str) -> StatusCode {
    let request = Request::get(format!("{}{path}", cluster.origin()))
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .body(bytes::Bytes::new())
        .unwrap();
    let class = UrlTrust::Configured { origin: cluster.origin() };
    let answer =
        cluster.egress().send_request(&class, request, RequestLimits::default()).await.unwrap();
    answer.status()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_it_is_killed_or_stopped_memory_serves_says_so_and_it_is_heard_again() {
    let mut cluster = Cluster::start().await;
    cluster.put_node("k1", Some("n1"), Some("10.0.0.1")).await;
    let found = ClusterLocator::by(&cluster).await;
    found.at("n1", "10.0.0.1").await;
    for (stopped, ip) in [(false, "10.0.0.2"), (true, "10.0.0.3")] {
        if stopped {
            cluster.signal(Signal::STOP);
        } else {
            cluster.kill();
        }
        found.stale().await;
        let before = found.registry.resolve_endpoint("n1");
        assert!(before.is_ok(), "served from memory: {before:?}");
        if stopped {
            cluster.signal(Signal::CONT);
        } else {
            cluster.restart().await;
        }
        let back = found.fresh().await;
        cluster.put_node("k1", Some("n1"), Some(ip)).await;
        found.at("n1", ip).await;
        println!("stopped {stopped}: heard again after {back:.1?}");
    }
}

/// Every accepted field must be in the response: the server drops unknown fields.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_manifests_are_taken_by_its_dry_run() {
    let cluster = Cluster::start().await;
    let space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: toolkeep}\n";
    // Control: invalid documents are rejected.
    let (status, _) =
        cluster.create_object("/api/v1/namespaces?dryRun=All", "kind: Namespace\n").await;
    assert!(!status.is_success(), "{status}");
    let (status, told) = cluster.create_object("/api/v1/namespaces", space).await;
    assert_eq!(status, StatusCode::CREATED, "{told}");
    let mut taken = 0;
    for file in ["rbac.yaml", "server.yaml", "node.yaml"] {
        for document in documents(&manifest(file)) {
            let path = place(&document);
            let (status, told) =
                cluster.create_object(&format!("{path}?dryRun=All"), &document).await;
            taken += 1;
            if path == "/api/v1/namespaces" {
                // It is there already.
                assert_eq!(status, StatusCode::CONFLICT, "{told}");
                continue;
            }
            assert_eq!(status, StatusCode::CREATED, "{file}: {told}");
            for key in keys(&document) {
                assert!(has(&told, &key), "{file}: it does not know `{key}`: {told}");
            }
        }
    }
    assert_eq!(taken, 9);
    let (_, listed) = cluster.query_api(Method::GET, "/apis/apps/v1/daemonsets", None).await;
    assert_eq!(listed["items"], serde_json::json!([]), "nothing was made");
}

/// The words before colons in YAML, but for those of texts, labels and selectors.
pub(super) fn keys(document: &str) -> Vec<String> {
    let lines = document.lines().take_while(|line| !line.ends_with('|'));
    let words = lines.filter(|line| !line.trim_start().starts_with('#'));
    let words = words.flat_map(|line| line.split(['{', ',', ' ', '[']));
    let words = words.filter_map(|word| word.strip_suffix(':'));
    let plain = |word: &&str| word.chars().all(|c| c.is_ascii_alphanumeric()) && !word.is_empty();
    words.filter(plain).map(str::to_owned).collect()
}

pub(super) fn has(value: &Value, key: &str) -> bool {
    match value {
        Value::Object(map) => map.contains_key(key) || map.values().any(|it| has(it, key)),
        Value::Array(all) => all.iter().any(|it| has(it, key)),
        _ => false,
    }
}
