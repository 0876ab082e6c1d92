//! Events between servers of one registry over Redis: registrations, heartbeats and outdated
//! addresses; and a Redis that is killed, stopped and spoofed.

use std::sync::Arc;
use std::time::Duration;

use egress::{EgressClient, EgressOptions, Origin};
use nodes::PersistentNodeRegistry;
use nodes_kubernetes::{KubernetesLocator, KubernetesSettings};
use rustix::process::Signal;
use store::RedisCache;
use testkit::clock::FakeClock;
use testkit::installed_programs::RedisProcess;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tool::node_registry::{HeartbeatState, NodeRegistry as _};
use tool::{MessageBus as _, Secret};

use super::mongo::Mongo;
use crate::faults::RealClock;
use crate::kept::{Any, node_access, tool, tool_names};
use crate::kubernetes::FakeApiServer;
use crate::support::register_tools;

const SOON: Duration = Duration::from_secs(20);

fn bus(redis: &RedisProcess) -> Arc<RedisCache> {
    let url = Secret::new(redis.url());
    let egress = EgressClient::new(EgressOptions::default()).unwrap();
    Arc::new(RedisCache::new(&url, egress, Arc::new(RealClock::default())).unwrap())
}

/// A server's registry with what it follows, as long as this is kept.
struct Server {
    registry: Arc<PersistentNodeRegistry>,
    tasks: JoinSet<()>,
}

impl Server {
    async fn on_store(keep: Any) -> Self {
        let egress = EgressClient::new(EgressOptions::default()).unwrap();
        let registry =
            PersistentNodeRegistry::open_shared(keep, egress, Arc::new(RealClock::default())).await;
        Self { registry: Arc::new(registry), tasks: JoinSet::new() }
    }

    fn with_redis(mut self, redis: &RedisProcess) -> Self {
        self.registry.set_message_bus(bus(redis));
        let follows = Arc::clone(&self.registry);
        self.tasks.spawn(async move { follows.run_peer_events().await });
        self
    }

    fn with_kubernetes(&mut self, api: &FakeApiServer) -> Arc<KubernetesLocator> {
        let settings = KubernetesSettings {
            api_server: Origin::parse(&format!("http://{}", api.address)).unwrap(),
            token_file: None,
            ca_file: None,
            uses_tls: true,
            port: 50051,
        };
        let egress = EgressClient::new(EgressOptions::default()).unwrap();
        let found =
            Arc::new(KubernetesLocator::new(settings, egress, Arc::new(FakeClock::default())));
        self.registry.set_locator(Arc::clone(&found));
        let follows = Arc::clone(&found);
        self.tasks.spawn(async move { follows.run_watch().await });
        found
    }

    fn beat(&self, node: &str) -> Option<HeartbeatState> {
        let all = self.registry.list_nodes();
        Some(all.into_iter().find(|it| it.node_id == node)?.last_heartbeat?.state)
    }
}

async fn wait_until(what: &str, holds: impl Fn() -> bool) -> Duration {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < SOON, "{what}");
        sleep(Duration::from_millis(5)).await;
    }
    since.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn registrations_and_signs_of_life_at_one_server_are_heard_at_the_others() {
    let (mongo, mut redis) = (Mongo::start(), RedisProcess::start_process());
    // Neither server receives MongoDB events: all knowledge of the other came over Redis.
    let one = Server::on_store(mongo.open_store().await).await.with_redis(&redis);
    let other = Server::on_store(mongo.open_store().await).await.with_redis(&redis);
    let deaf = Server::on_store(mongo.open_store().await).await;
    let by = node_access("n1");
    // Messages without a subscriber are lost, so the event is repeated until it arrives.
    let mut number = 0;
    let since = Instant::now();
    while !tool_names(&other.registry, "n1").contains(&"t0".to_owned()) {
        assert!(since.elapsed() < SOON, "a registration is not heard of");
        one.registry.register_tool(&by, tool("n1", &format!("t{number}"))).await.unwrap();
        one.registry.remove_tool(&by, "n1", "t0").await.ok();
        one.registry.register_tool(&by, tool("n1", "t0")).await.unwrap();
        number += 1;
        sleep(Duration::from_millis(50)).await;
    }
    one.registry.register_tool(&by, tool("n1", "say")).await.unwrap();
    let has = |server: &Server, name: &str| {
        tool_names(&server.registry, "n1").iter().any(|it| it == name)
    };
    let took = wait_until("not heard of", || has(&other, "say")).await;
    println!("a registration is heard at the other server after {took:.1?}");
    one.registry.record_heartbeat(&by, "n1", HeartbeatState::Serving).unwrap();
    wait_until("no sign of life", || other.beat("n1") == Some(HeartbeatState::Serving)).await;
    one.registry.record_heartbeat(&by, "n1", HeartbeatState::Draining).unwrap();
    wait_until("no sign of life", || other.beat("n1") == Some(HeartbeatState::Draining)).await;
    one.registry.remove_tool(&by, "n1", "say").await.unwrap();
    wait_until("not removed", || !has(&other, "say")).await;
    // Control: a server without events does not know.
    assert!(tool_names(&deaf.registry, "n1").is_empty() && deaf.beat("n1").is_none());
    // While Redis is stopped or gone, everything continues without waiting; then events arrive
    // again.
    for stopped in [true, false] {
        if stopped {
            redis.send_signal(Signal::STOP);
        } else {
            redis.kill_process();
        }
        let since = Instant::now();
        for _ in 0..50 {
            one.registry.record_heartbeat(&by, "n1", HeartbeatState::Serving).unwrap();
        }
        one.registry.register_tool(&by, tool("n1", &format!("late-{stopped}"))).await.unwrap();
        assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
        if stopped {
            redis.send_signal(Signal::CONT);
        } else {
            redis.restart_process();
        }
        let name = format!("back-{stopped}");
        let since = Instant::now();
        while !has(&other, &name) {
            assert!(since.elapsed() < Duration::from_secs(5), "not heard again");
            one.registry.remove_tool(&by, "n1", &name).await.ok();
            one.registry.register_tool(&by, tool("n1", &name)).await.unwrap();
            sleep(Duration::from_millis(50)).await;
        }
        println!("stopped {stopped}: heard again after {:.1?}", since.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_that_one_server_sees_change_no_longer_counts_where_it_is_only_remembered() {
    let (mongo, redis) = (Mongo::start(), RedisProcess::start_process());
    let (first, mut second) = (FakeApiServer::start().await, FakeApiServer::start().await);
    for api in [&first, &second] {
        api.put_node("k1", Some("n1"), Some("10.0.0.1"));
        api.put_node("k2", Some("n2"), Some("10.0.0.2"));
    }
    let mut one = Server::on_store(mongo.open_store().await).await.with_redis(&redis);
    let mut other = Server::on_store(mongo.open_store().await).await.with_redis(&redis);
    register_tools(&one.registry, "n1", &["echo"]).await;
    drop(one.with_kubernetes(&first));
    let remembers = other.with_kubernetes(&second);
    let at = |server: &Server, node: &str| server.registry.resolve_endpoint(node);
    let there = |server: &Server| at(server, "n1").as_deref() == Ok("10.0.0.1:50051");
    wait_until("not found", || there(&one) && there(&other)).await;
    second.stop().await;
    wait_until("nobody says that it is away", || remembers.stale_reason().is_some()).await;
    // Control: remembered state counts until a newer one arrives.
    assert!(there(&other));
    let since = Instant::now();
    let mut turn = 0;
    while there(&other) {
        assert!(since.elapsed() < SOON, "not heard of");
        turn += 1;
        first.put_node("k1", Some("n1"), Some(&format!("10.0.0.{}", 10 + turn % 100)));
        sleep(Duration::from_millis(50)).await;
    }
    let told = at(&other, "n1").unwrap_err().to_string();
    assert!(told.contains("another server saw its address change"), "{told}");
    assert_eq!(at(&other, "n2").as_deref(), Ok("10.0.0.2:50051"), "nothing else is forgotten");
    second.put_node("k1", Some("n1"), Some("10.0.0.77"));
    second.listen().await;
    wait_until("not read anew", || at(&other, "n1").as_deref() == Ok("10.0.0.77:50051")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_write_into_redis_changes_nothing_and_takes_nothing_down() {
    let (mongo, redis) = (Mongo::start(), RedisProcess::start_process());
    let one = Server::on_store(mongo.open_store().await).await.with_redis(&redis);
    let other = Server::on_store(mongo.open_store().await).await.with_redis(&redis);
    let by = node_access("n1");
    let heard = async |name: &str| {
        let since = Instant::now();
        while !tool_names(&other.registry, "n1").contains(&name.to_owned()) {
            assert!(since.elapsed() < SOON, "not heard of");
            one.registry.remove_tool(&by, "n1", name).await.ok();
            one.registry.register_tool(&by, tool("n1", name)).await.unwrap();
            sleep(Duration::from_millis(50)).await;
        }
    };
    heard("first").await;
    one.registry.record_heartbeat(&by, "n1", HeartbeatState::Serving).unwrap();
    wait_until("no sign of life", || other.beat("n1") == Some(HeartbeatState::Serving)).await;
    let channel = "toolkeep:nodes";
    // Forged messages: without the key, and a replayed one under another name.
    let forged =
        r#"00000000000000000000000000000000{"by":"x","at":0,"word":{"beat":["n1","draining"]}}"#;
    for word in [forged, "", "x"] {
        redis.run_cli(&["XADD", channel, "*", "w", word]);
    }
    redis.run_cli(&["XADD", channel, "*", "other", "x"]);
    // More than is read of one answer.
    let large = "x".repeat(100 << 10);
    for _ in 0..40 {
        redis.run_cli(&["XADD", channel, "*", "w", &large]);
    }
    heard("second").await;
    assert_eq!(other.beat("n1"), Some(HeartbeatState::Serving), "nobody said that it drains");
    // Another process took the name: no events arrive, and everything continues.
    redis.run_cli(&["SET", channel, "x"]);
    one.registry.register_tool(&by, tool("n1", "third")).await.unwrap();
    assert!(bus(&redis).publish_message(channel, "x".into()).await.is_err());
    redis.run_cli(&["DEL", channel]);
    heard("fourth").await;
}
