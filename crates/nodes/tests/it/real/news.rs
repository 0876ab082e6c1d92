//! What servers of one registry tell each other over a Redis: registrations, signs of life, and places that
//! no longer hold; and a Redis that is killed, stopped, and lied to.

use std::sync::Arc;
use std::time::Duration;

use egress::{Egress, EgressSettings, Origin};
use nodes::Registry;
use nodes_kubernetes::{Kubernetes, KubernetesSettings};
use rustix::process::Signal;
use store::RedisCache;
use testkit::clock::FakeClock;
use testkit::real::Redis;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tool::node::{Beat, Nodes as _};
use tool::{Bus as _, Secret};

use super::mongo::Mongo;
use crate::faults::Real;
use crate::kept::{Any, names, own, tool};
use crate::kubernetes::Api;
use crate::support::has;

const SOON: Duration = Duration::from_secs(20);

fn bus(redis: &Redis) -> Arc<RedisCache> {
    let url = Secret::new(redis.url());
    let egress = Egress::new(EgressSettings::default()).unwrap();
    Arc::new(RedisCache::new(&url, egress, Arc::new(Real::default())).unwrap())
}

/// A server's registry with what it follows, as long as this is kept.
struct Server {
    registry: Arc<Registry>,
    tasks: JoinSet<()>,
}

impl Server {
    async fn over(keep: Any) -> Self {
        let egress = Egress::new(EgressSettings::default()).unwrap();
        let registry = Registry::shared(keep, egress, Arc::new(Real::default())).await;
        Self { registry: Arc::new(registry), tasks: JoinSet::new() }
    }

    fn hearing(mut self, redis: &Redis) -> Self {
        self.registry.share_news(bus(redis));
        let follows = Arc::clone(&self.registry);
        self.tasks.spawn(async move { follows.follow_news().await });
        self
    }

    fn finding(&mut self, api: &Api) -> Arc<Kubernetes> {
        let settings = KubernetesSettings {
            api: Origin::parse(&format!("http://{}", api.address)).unwrap(),
            token_file: None,
            https: true,
            port: 50051,
        };
        let egress = Egress::new(EgressSettings::default()).unwrap();
        let found = Arc::new(Kubernetes::new(settings, egress, Arc::new(FakeClock::default())));
        self.registry.find_by(Arc::clone(&found));
        let follows = Arc::clone(&found);
        self.tasks.spawn(async move { follows.follow().await });
        found
    }

    fn beat(&self, node: &str) -> Option<Beat> {
        let all = self.registry.nodes();
        Some(all.into_iter().find(|it| it.node_id == node)?.beat?.0)
    }
}

async fn until(what: &str, holds: impl Fn() -> bool) -> Duration {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < SOON, "{what}");
        sleep(Duration::from_millis(5)).await;
    }
    since.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn registrations_and_signs_of_life_at_one_server_are_heard_at_the_others() {
    let (mongo, mut redis) = (Mongo::start(), Redis::start());
    // Neither hears the MongoDB: what one knows of the other came over Redis.
    let one = Server::over(mongo.keep().await).await.hearing(&redis);
    let other = Server::over(mongo.keep().await).await.hearing(&redis);
    let deaf = Server::over(mongo.keep().await).await;
    let by = own("n1");
    // Words before somebody hears are nobody's: it is told until it is heard.
    let mut number = 0;
    let since = Instant::now();
    while !names(&other.registry, "n1").contains(&"t0".to_owned()) {
        assert!(since.elapsed() < SOON, "a registration is not heard of");
        one.registry.register(&by, tool("n1", &format!("t{number}"))).await.unwrap();
        one.registry.remove(&by, "n1", "t0").await.ok();
        one.registry.register(&by, tool("n1", "t0")).await.unwrap();
        number += 1;
        sleep(Duration::from_millis(50)).await;
    }
    one.registry.register(&by, tool("n1", "say")).await.unwrap();
    let has =
        |server: &Server, name: &str| names(&server.registry, "n1").iter().any(|it| it == name);
    let took = until("not heard of", || has(&other, "say")).await;
    println!("a registration is heard at the other server after {took:.1?}");
    one.registry.beat(&by, "n1", Beat::Serving).unwrap();
    until("no sign of life", || other.beat("n1") == Some(Beat::Serving)).await;
    one.registry.beat(&by, "n1", Beat::Draining).unwrap();
    until("no sign of life", || other.beat("n1") == Some(Beat::Draining)).await;
    one.registry.remove(&by, "n1", "say").await.unwrap();
    until("not removed", || !has(&other, "say")).await;
    // The control: who is told nothing knows nothing.
    assert!(names(&deaf.registry, "n1").is_empty() && deaf.beat("n1").is_none());
    // While it is stopped or gone all goes on, and nothing waits for it; then news are heard again.
    for stopped in [true, false] {
        if stopped {
            redis.signal(Signal::STOP);
        } else {
            redis.kill();
        }
        let since = Instant::now();
        for _ in 0..50 {
            one.registry.beat(&by, "n1", Beat::Serving).unwrap();
        }
        one.registry.register(&by, tool("n1", &format!("late-{stopped}"))).await.unwrap();
        assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
        if stopped {
            redis.signal(Signal::CONT);
        } else {
            redis.again();
        }
        let name = format!("back-{stopped}");
        let since = Instant::now();
        while !has(&other, &name) {
            assert!(since.elapsed() < Duration::from_secs(5), "not heard again");
            one.registry.remove(&by, "n1", &name).await.ok();
            one.registry.register(&by, tool("n1", &name)).await.unwrap();
            sleep(Duration::from_millis(50)).await;
        }
        println!("stopped {stopped}: heard again after {:.1?}", since.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_that_one_server_sees_change_no_longer_counts_where_it_is_only_remembered() {
    let (mongo, redis) = (Mongo::start(), Redis::start());
    let (first, mut second) = (Api::start().await, Api::start().await);
    for api in [&first, &second] {
        api.put("k1", Some("n1"), Some("10.0.0.1"));
        api.put("k2", Some("n2"), Some("10.0.0.2"));
    }
    let mut one = Server::over(mongo.keep().await).await.hearing(&redis);
    let mut other = Server::over(mongo.keep().await).await.hearing(&redis);
    has(&one.registry, "n1", &["echo"]).await;
    drop(one.finding(&first));
    let remembers = other.finding(&second);
    let at = |server: &Server, node: &str| server.registry.endpoint(node);
    let there = |server: &Server| at(server, "n1").as_deref() == Ok("10.0.0.1:50051");
    until("not found", || there(&one) && there(&other)).await;
    second.stop().await;
    until("nobody says that it is away", || remembers.stale().is_some()).await;
    // The control: what is remembered counts as long as nobody knows better.
    assert!(there(&other));
    let since = Instant::now();
    let mut turn = 0;
    while there(&other) {
        assert!(since.elapsed() < SOON, "not heard of");
        turn += 1;
        first.put("k1", Some("n1"), Some(&format!("10.0.0.{}", 10 + turn % 100)));
        sleep(Duration::from_millis(50)).await;
    }
    let told = at(&other, "n1").unwrap_err().to_string();
    assert!(told.contains("another server saw it move"), "{told}");
    assert_eq!(at(&other, "n2").as_deref(), Ok("10.0.0.2:50051"), "nothing else is forgotten");
    second.put("k1", Some("n1"), Some("10.0.0.77"));
    second.listen().await;
    until("not read anew", || at(&other, "n1").as_deref() == Ok("10.0.0.77:50051")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_write_into_redis_changes_nothing_and_takes_nothing_down() {
    let (mongo, redis) = (Mongo::start(), Redis::start());
    let one = Server::over(mongo.keep().await).await.hearing(&redis);
    let other = Server::over(mongo.keep().await).await.hearing(&redis);
    let by = own("n1");
    let heard = async |name: &str| {
        let since = Instant::now();
        while !names(&other.registry, "n1").contains(&name.to_owned()) {
            assert!(since.elapsed() < SOON, "not heard of");
            one.registry.remove(&by, "n1", name).await.ok();
            one.registry.register(&by, tool("n1", name)).await.unwrap();
            sleep(Duration::from_millis(50)).await;
        }
    };
    heard("first").await;
    one.registry.beat(&by, "n1", Beat::Serving).unwrap();
    until("no sign of life", || other.beat("n1") == Some(Beat::Serving)).await;
    let channel = "toolkeep:nodes";
    // As a server would say it, without the key; and what was said, said with another's name.
    let forged =
        r#"00000000000000000000000000000000{"by":"x","at":0,"word":{"beat":["n1","draining"]}}"#;
    for word in [forged, "", "x"] {
        redis.cli(&["XADD", channel, "*", "w", word]);
    }
    redis.cli(&["XADD", channel, "*", "other", "x"]);
    // More than is read of one answer.
    let large = "x".repeat(100 << 10);
    for _ in 0..40 {
        redis.cli(&["XADD", channel, "*", "w", &large]);
    }
    heard("second").await;
    assert_eq!(other.beat("n1"), Some(Beat::Serving), "nobody said that it drains");
    // Something else has taken the name: nothing is heard, and all goes on.
    redis.cli(&["SET", channel, "x"]);
    one.registry.register(&by, tool("n1", "third")).await.unwrap();
    assert!(bus(&redis).tell(channel, "x".into()).await.is_err());
    redis.cli(&["DEL", channel]);
    heard("fourth").await;
}
