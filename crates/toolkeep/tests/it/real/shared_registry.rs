//! Tests of two servers on one MongoDB: a node registers at one and is called at both, also while
//! MongoDB is down.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::installed_programs::RedisProcess;
use tokio::time::{Instant, sleep};

use super::installed_programs::file;
use super::nodes::{key_of, node, once};
use crate::real_support::test_command;
use crate::support::installation::Installation;
use crate::support::rest_client::Client;
use crate::support::server_process::{READY_LIMIT, start_server};

/// From its return on.
const RECOVERY: Duration = Duration::from_secs(5);

/// A MongoDB that syncs each write. Killed when dropped.
struct MongoProcess {
    port: u16,
    folder: PathBuf,
    child: Child,
}

impl MongoProcess {
    fn start(folder: PathBuf) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self { port, child: run(port, &folder), folder }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn again(&mut self) {
        self.child = run(self.port, &self.folder);
    }
}

#[expect(clippy::disallowed_methods, reason = "whether it listens")]
fn run(port: u16, folder: &Path) -> Child {
    let mut mongo = test_command(file("venv-mongodb/bin/secantusd-py"));
    mongo.args(["--host", "127.0.0.1", "--port", &port.to_string(), "--sync-on-commit"]);
    mongo.arg("--storage-path").arg(folder);
    let child = mongo.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        std::thread::sleep(Duration::from_millis(20));
    }
    child.unwrap()
}

impl Drop for MongoProcess {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

async fn until(owner: &Client, what: &str, holds: impl Fn(&Value) -> bool) -> Duration {
    let since = Instant::now();
    loop {
        let told = owner.get("/v1/nodes").await.body;
        if holds(&told) {
            return since.elapsed();
        }
        assert!(since.elapsed() < READY_LIMIT, "{what}: {told}");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn servers_share_a_registry_and_go_on_without_it() {
    let homes = [Installation::new("version: 1\n"), Installation::new("version: 1\n")];
    let mut mongo = MongoProcess::start(homes[0].path("mongo"));
    let url = format!("mongodb://127.0.0.1:{}/tools_db?directConnection=true", mongo.port);
    let configure = |port: &Value| {
        for home in &homes {
            let addresses = json!({ "node-py": format!("http://127.0.0.1:{port}") });
            let nodes =
                json!({ "version": 1, "nodes": { "mongodb": url, "addresses": addresses } });
            home.write("toolkeep.yaml", &nodes.to_string());
        }
    };
    configure(&json!(1));
    let (one, other) = (start_server(&homes[0]).await, start_server(&homes[1]).await);
    let key = key_of(&one.owner(), "node-py").await;
    let (_node, said) = node(&one.url, "node-py", &key);
    assert_eq!(said["failed"], json!({}));
    configure(&said["port"]);
    let call = json!({ "tool_name": "reverse_text", "input": { "text": "hello" } });
    for server in [&one, &other] {
        let answer = once(&server.agent(), "/cluster-tools/execute", &call, 200).await;
        assert_eq!(answer["output"], json!({ "result": "olleh" }));
    }
    mongo.kill();
    let late = json!({ "name": "late", "node_id": "node-py", "description": "" });
    for server in [&one, &other] {
        until(&server.owner(), "not told", |told| told["stale"]["since"].is_string()).await;
        let answer = once(&server.agent(), "/cluster-tools/execute", &call, 200).await;
        assert_eq!(answer["success"], true, "{answer}");
        let refused = server.owner().post("/tools", &late).await;
        assert_eq!(refused.status, 500);
        assert_eq!(refused.body["error"], "MongoDB: no server can be reached");
    }
    mongo.again();
    for server in [&one, &other] {
        let back = until(&server.owner(), "not back", |told| told["stale"].is_null()).await;
        assert!(back < RECOVERY, "{back:?}");
    }
    assert_eq!(one.owner().post("/tools", &late).await.status, 201);
    until(&other.owner(), "not heard of", |told| told["nodes"][0]["tools"] == 4).await;
    assert!(one.stop().await.success());
    assert!(other.stop().await.success());
}

/// The control is in the same run: without Redis the other server never hears that the node lives.
#[tokio::test]
async fn with_a_redis_servers_tell_each_other_that_a_node_lives_and_without_it_all_goes_on() {
    let homes = [
        Installation::new("version: 1\n"),
        Installation::new("version: 1\n"),
        Installation::new("version: 1\n"),
    ];
    let (mongo, mut redis) =
        (MongoProcess::start(homes[0].path("mongo")), RedisProcess::start_process());
    let url = format!("mongodb://127.0.0.1:{}/tools_db?directConnection=true", mongo.port);
    for (home, told) in homes.iter().zip([true, true, false]) {
        let mut config = json!({ "version": 1, "nodes": { "mongodb": url } });
        if told {
            config["redis"] = json!(redis.url());
        }
        home.write("toolkeep.yaml", &config.to_string());
    }
    let [one, other, alone] = [
        start_server(&homes[0]).await,
        start_server(&homes[1]).await,
        start_server(&homes[2]).await,
    ];
    let tool = json!({ "name": "say", "node_id": "n1", "description": "" });
    assert_eq!(one.owner().post("/tools", &tool).await.status, 201);
    let beats = async || {
        let beat = json!({ "state": "draining" });
        assert_eq!(one.owner().post("/v1/nodes/n1/heartbeat", &beat).await.status, 200);
    };
    let state = async |owner: &Client| owner.get("/v1/nodes").await.body["nodes"][0].clone();
    let since = Instant::now();
    while !state(&other.owner()).await.to_string().contains("draining") {
        assert!(since.elapsed() < READY_LIMIT, "{}", state(&other.owner()).await);
        beats().await;
        sleep(Duration::from_millis(50)).await;
    }
    until(&alone.owner(), "not heard of", |told| told["nodes"][0]["tools"] == 1).await;
    assert!(!state(&alone.owner()).await.to_string().contains("draining"));
    redis.kill_process();
    beats().await;
    let late = json!({ "name": "late", "node_id": "n1", "description": "" });
    assert_eq!(one.owner().post("/tools", &late).await.status, 201);
    for server in [&one, &other, &alone] {
        until(&server.owner(), "not heard of", |told| told["nodes"][0]["tools"] == 2).await;
    }
    for server in [one, other, alone] {
        assert!(server.stop().await.success());
    }
}
