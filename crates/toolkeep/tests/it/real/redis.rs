//! Tests of modules with a real Redis: the module API's keys, and a Redis that is slow, killed,
//! stopped, restarted, emptied or forged.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::installed_programs::RedisProcess;
use tokio::time::{Instant, sleep};

use crate::real_support::recording_module::{Module, manifest};
use crate::real_support::{expect_ok, run_cli, wait_for_sources};
use crate::support::installation::Installation;
use crate::support::server_process::{Server, start_server};

const KEY: &str = "module_manifest:research";
/// From its return on.
const RECOVERY: Duration = Duration::from_secs(5);

/// Waits until the manifest is in Redis, and returns the duration.
async fn has_manifest(redis: &RedisProcess) -> Duration {
    let since = Instant::now();
    while !redis.run_cli(&["GET", KEY]).contains("research.web_search") {
        assert!(since.elapsed() < RECOVERY, "the cache is not filled");
        sleep(Duration::from_millis(20)).await;
    }
    since.elapsed()
}

/// A Redis, a module, and a home that has both.
struct RedisFixture {
    redis: RedisProcess,
    research: Module,
    home: Installation,
}

impl RedisFixture {
    fn new() -> Self {
        let redis = RedisProcess::start_process();
        let tools: [(&str, &str, &[&str]); 1] = [("research.web_search", "guest", &["query"])];
        let research = Module::start(manifest("research", &tools));
        let source = json!({ "name": "research", "module": research.url() });
        let config = json!({ "version": 1, "redis": redis.url(), "sources": [source] });
        let home = Installation::new(&config.to_string());
        Self { redis, research, home }
    }

    async fn served(&self) -> Server {
        let server = start_server(&self.home).await;
        wait_for_sources(&server.owner()).await;
        server
    }
}

async fn calls(server: &Server) {
    let call = json!({ "tool_name": "research.web_search", "arguments": {} });
    let result = expect_ok(server.agent().post("/execute", &call).await);
    assert_eq!(result["success"], true, "{result}\n{}", server.log_text());
}

/// Waits until the sources do, or do not, report a cache that is away; what they report.
async fn reported(server: &Server, expected: bool) -> String {
    let since = Instant::now();
    loop {
        let sources = server.owner().get("/v1/sources").await.body.to_string();
        // One that has just come is not listed yet.
        let word = if expected { "manifests is unavailable" } else { "toolkeep-cache" };
        if sources.contains(word) == expected {
            return sources;
        }
        assert!(since.elapsed() < 4 * RECOVERY, "{sources}");
        sleep(Duration::from_millis(20)).await;
    }
}

async fn module(server: &Server) -> Value {
    expect_ok(server.owner().get("/api/modules").await)["modules"][0].clone()
}

#[tokio::test]
async fn the_manifest_is_in_redis_under_the_module_api_key() {
    let world = RedisFixture::new();
    let server = world.served().await;
    has_manifest(&world.redis).await;
    let kept: Value = serde_json::from_str(&world.redis.run_cli(&["GET", KEY])).unwrap();
    let tools: [(&str, &str, &[&str]); 1] = [("research.web_search", "guest", &["query"])];
    assert_eq!(kept, manifest("research", &tools));
    assert_eq!(world.redis.run_cli(&["KEYS", "module_manifest:*"]), KEY);
    // The module API's advice: delete, then refresh.
    world.redis.run_cli(&["DEL", KEY]);
    run_cli(&server, &["module", "refresh"]).expect_success();
    let life: u64 = world.redis.run_cli(&["TTL", KEY]).parse().unwrap();
    assert!((3_500..=3_600).contains(&life), "{life}");
}

#[tokio::test]
async fn a_redis_that_hangs_dies_restarts_or_is_emptied_fails_no_call_and_is_filled_within_5_s() {
    let mut world = RedisFixture::new();
    let server = world.served().await;
    has_manifest(&world.redis).await;
    calls(&server).await;
    world.redis.send_signal(Signal::STOP);
    calls(&server).await;
    run_cli(&server, &["module", "refresh"]).expect_success();
    calls(&server).await;
    world.redis.send_signal(Signal::CONT);
    world.redis.run_cli(&["FLUSHALL"]);
    has_manifest(&world.redis).await;
    world.redis.kill_process();
    calls(&server).await;
    run_cli(&server, &["module", "refresh"]).expect_success();
    calls(&server).await;
    // Callers get the error as long as it is unavailable.
    let told = reported(&server, true).await;
    assert!(told.contains("the cache of module manifests is unavailable"), "{told}");
    world.redis.restart_process();
    has_manifest(&world.redis).await;
    reported(&server, false).await;
    world.redis.run_cli(&["FLUSHALL"]);
    has_manifest(&world.redis).await;
    assert_eq!(module(&server).await["stale"], false);
    let said = server.log_text();
    assert!(said.contains("module_cache_unavailable") && said.contains("module_cache_available"));
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn without_redis_at_the_start_the_server_starts_and_uses_it_later() {
    let mut world = RedisFixture::new();
    world.redis.kill_process();
    let server = world.served().await;
    calls(&server).await;
    world.redis.restart_process();
    has_manifest(&world.redis).await;
}

#[tokio::test]
async fn a_module_that_is_down_is_served_from_redis_and_marked_stale() {
    let mut world = RedisFixture::new();
    let server = world.served().await;
    has_manifest(&world.redis).await;
    assert!(server.stop().await.success());
    world.research.stop_module();
    let server = world.served().await;
    let shown = module(&server).await;
    assert_eq!((&shown["tools"], &shown["stale"]), (&json!(1), &json!(true)), "{shown}");
    assert!(shown["stale_since"].is_string());
    world.research.restart_module();
    calls(&server).await;
}

/// The control is the test before this one: unchanged, the value is believed.
#[tokio::test]
async fn a_forged_manifest_is_refused_and_a_deleted_one_is_gone() {
    let mut world = RedisFixture::new();
    let server = world.served().await;
    has_manifest(&world.redis).await;
    assert!(server.stop().await.success());
    world.research.stop_module();
    let forged = world.redis.run_cli(&["GET", KEY]).replace("web_search", "run_shell");
    // Under the module API's key, where a core of the module API writes too: this installation's
    // own copy counts.
    for value in [forged.as_str(), "garbage"] {
        world.redis.run_cli(&["SET", KEY, value]);
        let server = world.served().await;
        assert_eq!(module(&server).await["tools"], 1);
        let tools = expect_ok(server.agent().get("/tools").await).to_string();
        assert!(
            tools.contains("research.web_search") && !tools.contains("research.run_shell"),
            "{tools}"
        );
        // The module API's advice: delete the key, then refresh. The module is unavailable, so it
        // is forgotten.
        if value == "garbage" {
            world.redis.run_cli(&["DEL", KEY]);
            run_cli(&server, &["module", "refresh"]).expect_success();
            assert_eq!(module(&server).await["tools"], 0);
        }
        assert!(server.stop().await.success());
    }
    let copy = world.redis.run_cli(&["KEYS", "toolkeep:*:module_manifest:research"]);
    let forged_copy = world.redis.run_cli(&["GET", &copy]).replace("web_search", "run_shell");
    assert!(forged_copy.contains("run_shell"), "the copy is there: {copy}");
    world.redis.run_cli(&["SET", KEY, &forged]);
    world.redis.run_cli(&["SET", &copy, &forged_copy]);
    let server = world.served().await;
    assert_eq!(module(&server).await["tools"], 0);
    assert!(server.log_text().contains("module_cache_refused"), "{}", server.log_text());
    assert!(server.stop().await.success());
    world.redis.run_cli(&["DEL", KEY]);
    let server = world.served().await;
    assert_eq!(module(&server).await["tools"], 0);
}

/// A change of `redis:` counts without a restart, there and back.
#[tokio::test]
async fn another_redis_in_the_configuration_counts_at_once() {
    let world = RedisFixture::new();
    let server = world.served().await;
    has_manifest(&world.redis).await;
    let other = RedisProcess::start_process();
    let first = std::fs::read_to_string(world.home.config()).unwrap();
    let second = first.replace(&world.redis.url(), &other.url());
    assert_ne!(first, second);
    world.home.write("toolkeep.yaml", &second);
    has_manifest(&other).await;
    drop(other);
    calls(&server).await;
    // The first one, emptied meanwhile, is filled again.
    world.redis.run_cli(&["FLUSHALL"]);
    assert!(!world.redis.run_cli(&["GET", KEY]).contains("research.web_search"), "the control");
    world.home.write("toolkeep.yaml", &first);
    has_manifest(&world.redis).await;
    assert!(server.stop().await.success());
}
