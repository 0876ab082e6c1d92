//! A Kubernetes API server on the loopback, with an etcd of its own. It can be killed, stopped, and had back.

#![expect(clippy::disallowed_methods, reason = "a test starts programs")]

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use egress::{
    CertificateDer, EgressClient, EgressOptions, Origin, RequestLimits, TrustStore, UrlTrust,
};
use http::{Method, Request, StatusCode, header};
use nodes_kubernetes::KubernetesSettings;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use testkit::installed_programs::installed_file;
use tokio::time::{Instant, sleep};

/// Who may everything.
const ADMIN: &str = "the-admins-token";
/// Time limit for a started server to respond, also on a busy machine.
const STARTUP_TIMEOUT: Duration = Duration::from_mins(2);
/// Of ports that were free a moment ago one may be another's by now.
const TRIES: usize = 5;

/// The files of this repository that are given to Kubernetes.
pub(crate) fn manifest(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kubernetes");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// The documents of one file.
pub(crate) fn documents(text: &str) -> Vec<String> {
    text.split("\n---\n").map(str::to_owned).collect()
}

/// A program that ends with this.
struct Program(Child);

impl Program {
    fn start(program: &Path, folder: &Path, args: &[String]) -> Self {
        let name = program.file_name().unwrap().to_string_lossy().into_owned();
        let log = std::fs::File::create(folder.join(format!("{name}.log"))).unwrap();
        let mut command = Command::new(program);
        command.args(args).current_dir(folder).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        Self(command.spawn().unwrap_or_else(|error| panic!("{}: {error}", program.display())))
    }

    fn end(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }

    fn ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}

/// The API server. It ends with this, and its etcd too.
pub(crate) struct Cluster {
    folder: tempfile::TempDir,
    server: Program,
    _etcd: Program,
    port: u16,
    args: Vec<String>,
    egress: EgressClient,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        for _ in 0..TRIES {
            if let Some(cluster) = Self::tried().await {
                return cluster;
            }
        }
        panic!("no Kubernetes API server starts");
    }

    /// Nothing where a port was taken meanwhile.
    async fn tried() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let [client, peer, port] = free_ports();
        let mut etcd = Program::start(Path::new("etcd"), folder.path(), &etcd_args(client, peer));
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        std::fs::write(folder.path().join("sa.key"), key.serialize_pem()).unwrap();
        std::fs::write(folder.path().join("sa.pub"), key.public_key_pem()).unwrap();
        let tokens = format!("{ADMIN},admin,1,\"system:masters\"\n");
        std::fs::write(folder.path().join("tokens.csv"), tokens).unwrap();
        let args = api_server_args(client, port);
        let program = installed_file("bin/kube-apiserver");
        let mut server = Program::start(&program, folder.path(), &args);
        let certificate = folder.path().join("certs/apiserver.crt");
        let since = Instant::now();
        while !certificate.exists() {
            if etcd.ended() || server.ended() || since.elapsed() > STARTUP_TIMEOUT {
                eprintln!("{}", read_log(folder.path()));
                return None;
            }
            sleep(Duration::from_millis(50)).await;
        }
        let egress = trusting(&certificate);
        let mut cluster = Self { folder, server, _etcd: etcd, port, args, egress };
        cluster.ready().await.then_some(cluster)
    }

    /// Waits until it reports that it serves; false if it ended.
    async fn ready(&mut self) -> bool {
        let since = Instant::now();
        while self.send_request(Method::GET, "/readyz", None).await.map(|(status, _)| status)
            != Some(StatusCode::OK)
        {
            if self.server.ended() {
                eprintln!("{}", read_log(self.folder.path()));
                return false;
            }
            assert!(since.elapsed() < STARTUP_TIMEOUT, "{}", read_log(self.folder.path()));
            sleep(Duration::from_millis(20)).await;
        }
        true
    }

    pub(crate) fn origin(&self) -> Origin {
        Origin::parse(&format!("https://127.0.0.1:{}", self.port)).unwrap()
    }

    /// A way out that believes its certificate.
    pub(crate) fn egress(&self) -> EgressClient {
        trusting(&self.folder.path().join("certs/apiserver.crt"))
    }

    pub(crate) fn kill(&mut self) {
        self.server.end();
    }

    /// Started again, and serving.
    pub(crate) async fn restart(&mut self) {
        let program = installed_file("bin/kube-apiserver");
        self.server = Program::start(&program, self.folder.path(), &self.args);
        assert!(self.ready().await, "it does not come back");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.server.0), signal).unwrap();
    }

    /// Sends a request with all rights; `None` without a response.
    async fn send_request(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, String)>,
    ) -> Option<(StatusCode, Value)> {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.origin()));
        let mut request = request.header(header::AUTHORIZATION, format!("Bearer {ADMIN}"));
        let mut bytes = Bytes::new();
        if let Some((kind, text)) = body {
            request = request.header(header::CONTENT_TYPE, kind);
            bytes = text.into();
        }
        let class = UrlTrust::Configured { origin: self.origin() };
        let request = request.body(bytes).unwrap();
        let answer =
            self.egress.send_request(&class, request, RequestLimits::default()).await.ok()?;
        let status = answer.status();
        let bytes = answer.into_body().collect_bytes().await.ok()?;
        let told = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
        Some((status, serde_json::from_slice(&bytes).unwrap_or_else(|_| told())))
    }

    /// Sends a request with all rights, and panics without a response.
    pub(crate) async fn query_api(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, String)>,
    ) -> (StatusCode, Value) {
        self.send_request(method, path, body).await.expect("the API server does not answer")
    }

    /// A document of YAML, made or, with `?dryRun=All`, only judged.
    pub(crate) async fn create_object(&self, path: &str, yaml: &str) -> (StatusCode, Value) {
        self.query_api(Method::POST, path, Some(("application/yaml", yaml.to_owned()))).await
    }

    /// A Kubernetes node with this label, at this address; in the place of what it was.
    pub(crate) async fn put_node(&self, name: &str, label: Option<&str>, ip: Option<&str>) {
        let node = format!("/api/v1/nodes/{name}");
        let (status, _) = self.query_api(Method::GET, &node, None).await;
        if status == StatusCode::NOT_FOUND {
            let labels = label.map_or(json!({}), |label| json!({ "nodeID": label }));
            let new = json!({
                "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": labels },
            });
            let body = Some(("application/json", new.to_string()));
            let (status, told) = self.query_api(Method::POST, "/api/v1/nodes", body).await;
            assert_eq!(status, StatusCode::CREATED, "{told}");
        } else {
            self.patch(&node, &json!({ "metadata": { "labels": { "nodeID": label } } })).await;
        }
        let addresses: Vec<Value> = ip
            .iter()
            .map(|ip| json!({ "type": "InternalIP", "address": ip }))
            .chain([json!({ "type": "Hostname", "address": name })])
            .collect();
        let status = json!({ "status": { "addresses": addresses } });
        self.patch(&format!("{node}/status"), &status).await;
    }

    async fn patch(&self, path: &str, merge: &Value) {
        let body = Some(("application/merge-patch+json", merge.to_string()));
        let (status, told) = self.query_api(Method::PATCH, path, body).await;
        assert_eq!(status, StatusCode::OK, "{path}: {told}");
    }

    pub(crate) async fn remove(&self, name: &str) {
        let (status, told) =
            self.query_api(Method::DELETE, &format!("/api/v1/nodes/{name}"), None).await;
        assert_eq!(status, StatusCode::OK, "{told}");
    }

    /// The service account of `rbac.yaml` with its rights, and a file with its token.
    pub(crate) async fn account(&self) -> PathBuf {
        let space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: toolkeep}\n";
        let (status, told) = self.create_object("/api/v1/namespaces", space).await;
        assert_eq!(status, StatusCode::CREATED, "{told}");
        for document in documents(&manifest("rbac.yaml")) {
            let (status, told) = self.create_object(place(&document), &document).await;
            assert_eq!(status, StatusCode::CREATED, "{told}");
        }
        let path = "/api/v1/namespaces/toolkeep/serviceaccounts/toolkeep/token";
        let asked = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {},
        });
        let body = Some(("application/json", asked.to_string()));
        let (status, told) = self.query_api(Method::POST, path, body).await;
        assert_eq!(status, StatusCode::CREATED, "{told}");
        let file = self.token();
        std::fs::write(&file, told["status"]["token"].as_str().unwrap()).unwrap();
        file
    }

    /// Where that token is.
    pub(crate) fn token(&self) -> PathBuf {
        self.folder.path().join("token")
    }

    /// How Toolkeep asks it, with that file.
    pub(crate) fn settings(&self, token: PathBuf, https: bool, port: u16) -> KubernetesSettings {
        KubernetesSettings {
            api_server: self.origin(),
            ca_file: None,
            token_file: Some(token),
            uses_tls: https,
            port,
        }
    }
}

/// Path at which a document of a kind is created.
pub(crate) fn place(document: &str) -> &'static str {
    let kind = document.lines().find_map(|line| line.strip_prefix("kind: ")).unwrap();
    match kind {
        "Namespace" => "/api/v1/namespaces",
        "ServiceAccount" => "/api/v1/namespaces/toolkeep/serviceaccounts",
        "ConfigMap" => "/api/v1/namespaces/toolkeep/configmaps",
        "Service" => "/api/v1/namespaces/toolkeep/services",
        "StatefulSet" => "/apis/apps/v1/namespaces/toolkeep/statefulsets",
        "DaemonSet" => "/apis/apps/v1/namespaces/toolkeep/daemonsets",
        "NetworkPolicy" => "/apis/networking.k8s.io/v1/namespaces/toolkeep/networkpolicies",
        "ClusterRole" => "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "ClusterRoleBinding" => "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        other => panic!("nobody said where a {other} is made"),
    }
}

fn free_ports() -> [u16; 3] {
    let held = [(); 3].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    held.map(|listener| listener.local_addr().unwrap().port())
}

fn etcd_args(client: u16, peer: u16) -> Vec<String> {
    let at = |port: u16| format!("http://127.0.0.1:{port}");
    [
        ("--name", "t".to_owned()),
        ("--data-dir", "etcd".to_owned()),
        ("--listen-client-urls", at(client)),
        ("--advertise-client-urls", at(client)),
        ("--listen-peer-urls", at(peer)),
        ("--initial-advertise-peer-urls", at(peer)),
        ("--initial-cluster", format!("t={}", at(peer))),
    ]
    .into_iter()
    .flat_map(|(name, value)| [name.to_owned(), value])
    .collect()
}

fn api_server_args(etcd: u16, port: u16) -> Vec<String> {
    [
        ("etcd-servers", format!("http://127.0.0.1:{etcd}")),
        ("bind-address", "127.0.0.1".to_owned()),
        ("advertise-address", "127.0.0.1".to_owned()),
        ("secure-port", port.to_string()),
        ("cert-dir", "certs".to_owned()),
        ("service-account-issuer", "https://kubernetes.default.svc".to_owned()),
        ("service-account-key-file", "sa.pub".to_owned()),
        ("service-account-signing-key-file", "sa.key".to_owned()),
        ("token-auth-file", "tokens.csv".to_owned()),
        ("authorization-mode", "RBAC".to_owned()),
        ("service-cluster-ip-range", "10.0.0.0/24".to_owned()),
        // Nothing makes the accounts of namespaces here.
        ("disable-admission-plugins", "ServiceAccount".to_owned()),
        // An endpoint on loopback is not allowed.
        ("endpoint-reconciler-type", "none".to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| format!("--{name}={value}"))
    .collect()
}

/// Self-signed: the last certificate of the file is its trust anchor.
fn trusting(certificate: &Path) -> EgressClient {
    let since = std::time::Instant::now();
    loop {
        let pem = std::fs::read(certificate).unwrap();
        let chain = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
        if let Some(last) = chain.ok().and_then(|mut chain| chain.pop()) {
            let roots = TrustStore {
                uses_system_roots: false,
                falls_back_to_bundled: false,
                extra_roots: vec![last],
            };
            return EgressClient::new(EgressOptions {
                trust_store: roots,
                ..EgressOptions::default()
            })
            .unwrap();
        }
        // It is being written.
        assert!(since.elapsed() < STARTUP_TIMEOUT, "no certificate");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The last output of etcd and the server.
fn read_log(folder: &Path) -> String {
    let mut all = String::new();
    for name in ["etcd.log", "kube-apiserver.log"] {
        let text = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        all.push_str(&lines[lines.len().saturating_sub(8)..].join("\n"));
        all.push('\n');
    }
    all
}
