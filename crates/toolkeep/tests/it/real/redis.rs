//! Modules with a real Redis behind them: spec 0's keys, and a Redis that is slow, killed, stopped,
//! restarted, emptied and lied to.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::real::Redis;
use tokio::time::{Instant, sleep};

use crate::support::home::Home;
use crate::support::server::{Server, serve};
use crate::support_real::module::{Module, manifest};
use crate::support_real::{cli, good, settled};

const KEY: &str = "module_manifest:research";
/// From its return on.
const RECOVERY: Duration = Duration::from_secs(5);

/// Waits until the manifest stands there; how long that took.
async fn has_manifest(redis: &Redis) -> Duration {
    let since = Instant::now();
    while !redis.cli(&["GET", KEY]).contains("research.web_search") {
        assert!(since.elapsed() < RECOVERY, "the cache is not filled");
        sleep(Duration::from_millis(20)).await;
    }
    since.elapsed()
}

/// A Redis, a module, and a home that has both.
struct World {
    redis: Redis,
    research: Module,
    home: Home,
}

impl World {
    fn new() -> Self {
        let redis = Redis::start();
        let tools: [(&str, &str, &[&str]); 1] = [("research.web_search", "guest", &["query"])];
        let research = Module::start(manifest("research", &tools));
        let source = json!({ "name": "research", "module": research.url() });
        let config = json!({ "version": 1, "redis": redis.url(), "sources": [source] });
        let home = Home::new(&config.to_string());
        Self { redis, research, home }
    }

    async fn served(&self) -> Server {
        let server = serve(&self.home).await;
        settled(&server.owner()).await;
        server
    }
}

async fn calls(server: &Server) {
    let call = json!({ "tool_name": "research.web_search", "arguments": {} });
    let result = good(server.agent().post("/execute", &call).await);
    assert_eq!(result["success"], true, "{result}\n{}", server.said());
}

/// Waits until the sources do, or do not, report a cache that is away; what they report.
async fn reported(server: &Server, expected: bool) -> String {
    let since = Instant::now();
    loop {
        let sources = server.owner().get("/v1/sources").await.body.to_string();
        // One that has just come is not listed yet.
        let word = if expected { "manifests does not answer" } else { "toolkeep-cache" };
        if sources.contains(word) == expected {
            return sources;
        }
        assert!(since.elapsed() < 4 * RECOVERY, "{sources}");
        sleep(Duration::from_millis(20)).await;
    }
}

async fn module(server: &Server) -> Value {
    good(server.owner().get("/api/modules").await)["modules"][0].clone()
}

#[tokio::test]
async fn the_manifest_stands_in_redis_as_spec_0_has_it() {
    let world = World::new();
    let server = world.served().await;
    has_manifest(&world.redis).await;
    let kept: Value = serde_json::from_str(&world.redis.cli(&["GET", KEY])).unwrap();
    let tools: [(&str, &str, &[&str]); 1] = [("research.web_search", "guest", &["query"])];
    assert_eq!(kept, manifest("research", &tools));
    assert_eq!(world.redis.cli(&["KEYS", "module_manifest:*"]), KEY);
    // What spec 0 advises: delete, then refresh.
    world.redis.cli(&["DEL", KEY]);
    cli(&server, &["module", "refresh"]).good();
    let life: u64 = world.redis.cli(&["TTL", KEY]).parse().unwrap();
    assert!((3_500..=3_600).contains(&life), "{life}");
}

#[tokio::test]
async fn a_redis_that_hangs_dies_restarts_or_is_emptied_fails_no_call_and_is_filled_within_5_s() {
    let mut world = World::new();
    let server = world.served().await;
    has_manifest(&world.redis).await;
    calls(&server).await;
    world.redis.signal(Signal::STOP);
    calls(&server).await;
    cli(&server, &["module", "refresh"]).good();
    calls(&server).await;
    world.redis.signal(Signal::CONT);
    world.redis.cli(&["FLUSHALL"]);
    has_manifest(&world.redis).await;
    world.redis.kill();
    calls(&server).await;
    cli(&server, &["module", "refresh"]).good();
    calls(&server).await;
    // Whoever looks is told, as long as it is away.
    let told = reported(&server, true).await;
    assert!(told.contains("the cache of modules' manifests does not answer"), "{told}");
    world.redis.again();
    has_manifest(&world.redis).await;
    reported(&server, false).await;
    world.redis.cli(&["FLUSHALL"]);
    has_manifest(&world.redis).await;
    assert_eq!(module(&server).await["stale"], false);
    let said = server.said();
    assert!(said.contains("module_cache_unavailable") && said.contains("module_cache_available"));
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn without_redis_at_the_start_the_server_starts_and_uses_it_later() {
    let mut world = World::new();
    world.redis.kill();
    let server = world.served().await;
    calls(&server).await;
    world.redis.again();
    has_manifest(&world.redis).await;
}

#[tokio::test]
async fn a_module_that_is_down_is_served_from_redis_and_marked_stale() {
    let mut world = World::new();
    let server = world.served().await;
    has_manifest(&world.redis).await;
    assert!(server.stop().await.success());
    world.research.stop();
    let server = world.served().await;
    let shown = module(&server).await;
    assert_eq!((&shown["tools"], &shown["stale"]), (&json!(1), &json!(true)), "{shown}");
    assert!(shown["stale_since"].is_string());
    world.research.again();
    calls(&server).await;
}

/// The control is the test before this one: unchanged, the value is believed.
#[tokio::test]
async fn a_forged_manifest_is_refused_and_a_deleted_one_is_gone() {
    let mut world = World::new();
    let server = world.served().await;
    has_manifest(&world.redis).await;
    assert!(server.stop().await.success());
    world.research.stop();
    let forged = world.redis.cli(&["GET", KEY]).replace("web_search", "run_shell");
    // Under spec 0's key, where a core of spec 0 writes too: this installation's own copy counts.
    for value in [forged.as_str(), "garbage"] {
        world.redis.cli(&["SET", KEY, value]);
        let server = world.served().await;
        assert_eq!(module(&server).await["tools"], 1);
        let tools = good(server.agent().get("/tools").await).to_string();
        assert!(
            tools.contains("research.web_search") && !tools.contains("research.run_shell"),
            "{tools}"
        );
        // What spec 0 advises: delete the key, refresh; the module is away, so it is forgotten.
        if value == "garbage" {
            world.redis.cli(&["DEL", KEY]);
            cli(&server, &["module", "refresh"]).good();
            assert_eq!(module(&server).await["tools"], 0);
        }
        assert!(server.stop().await.success());
    }
    let copy = world.redis.cli(&["KEYS", "toolkeep:*:module_manifest:research"]);
    let forged_copy = world.redis.cli(&["GET", &copy]).replace("web_search", "run_shell");
    assert!(forged_copy.contains("run_shell"), "the copy is there: {copy}");
    world.redis.cli(&["SET", KEY, &forged]);
    world.redis.cli(&["SET", &copy, &forged_copy]);
    let server = world.served().await;
    assert_eq!(module(&server).await["tools"], 0);
    assert!(server.said().contains("module_cache_refused"), "{}", server.said());
    assert!(server.stop().await.success());
    world.redis.cli(&["DEL", KEY]);
    let server = world.served().await;
    assert_eq!(module(&server).await["tools"], 0);
}

/// A change of `redis:` counts without a restart, there and back.
#[tokio::test]
async fn another_redis_in_the_configuration_counts_at_once() {
    let world = World::new();
    let server = world.served().await;
    has_manifest(&world.redis).await;
    let other = Redis::start();
    let first = std::fs::read_to_string(world.home.config()).unwrap();
    let second = first.replace(&world.redis.url(), &other.url());
    assert_ne!(first, second);
    world.home.write("toolkeep.yaml", &second);
    has_manifest(&other).await;
    drop(other);
    calls(&server).await;
    // The first one, emptied meanwhile, is filled again.
    world.redis.cli(&["FLUSHALL"]);
    assert!(!world.redis.cli(&["GET", KEY]).contains("research.web_search"), "the control");
    world.home.write("toolkeep.yaml", &first);
    has_manifest(&world.redis).await;
    assert!(server.stop().await.success());
}
