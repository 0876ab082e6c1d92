//! The cache against Debian's Redis: well, slow, gone and back.

#![expect(clippy::disallowed_methods, reason = "a test looks at the clock")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use egress::{EgressClient, EgressOptions};
use rustix::process::Signal;
use store::RedisCache;
use testkit::installed_programs::RedisProcess;
use tool::{Cache as _, Clock, MonotonicTime, Secret, WallTime};

/// The time of this machine.
#[derive(Debug)]
struct Now(Instant);

impl Clock for Now {
    fn wall_now(&self) -> WallTime {
        WallTime(0)
    }
    fn monotonic_now(&self) -> MonotonicTime {
        MonotonicTime(self.0.elapsed())
    }
}

/// In another database than the first: the URL names it.
fn url(redis: &RedisProcess) -> String {
    format!("{}/1", redis.url())
}

fn cli(redis: &RedisProcess, words: &[&str]) -> String {
    redis.run_cli(&[&["-n", "1"], words].concat())
}

fn cache(url: &str) -> RedisCache {
    let egress = EgressClient::new(EgressOptions::default()).unwrap();
    RedisCache::new(&Secret::new(url), egress, Arc::new(Now(Instant::now()))).unwrap()
}

const HOUR: Duration = Duration::from_hours(1);

/// Writes until it is done; how long that took.
async fn back(cache: &RedisCache) -> Duration {
    let since = Instant::now();
    while cache.put_all(&[("a", Bytes::from_static(b"x"))], HOUR).await.is_err() {
        assert!(since.elapsed() < Duration::from_secs(5), "it does not come back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    since.elapsed()
}

#[tokio::test]
async fn values_stand_in_redis_as_they_are_with_their_time() {
    let redis = RedisProcess::with_password("hunter2");
    let cache = cache(&url(&redis));
    assert!(!format!("{cache:?}").contains("hunter2"));
    back(&cache).await;
    assert_eq!(cache.get_cached("none", 9).await.unwrap(), None);
    let pairs = [("module_manifest:n", Bytes::from_static(b"{\"a\": 1}")), ("m", "é".into())];
    cache.put_all(&pairs, HOUR).await.unwrap();
    assert_eq!(cli(&redis, &["GET", "module_manifest:n"]), "{\"a\": 1}");
    let life: u64 = cli(&redis, &["TTL", "module_manifest:n"]).parse().unwrap();
    assert!((3_590..=3_600).contains(&life), "{life}");
    assert_eq!(cache.get_cached("m", 2).await.unwrap().unwrap(), "é");
    assert_eq!(cache.get_cached("m", 1).await.unwrap(), None, "larger than was asked for");
    assert!(cache.contains_all(&["m", "module_manifest:n"]).await.unwrap());
    cli(&redis, &["DEL", "m"]);
    assert!(!cache.contains_all(&["m", "module_manifest:n"]).await.unwrap());
    // Another type is no value, and gives way to one.
    cli(&redis, &["LPUSH", "m", "1"]);
    assert_eq!(cache.get_cached("m", 9).await.unwrap(), None);
    cache.put_all(&pairs, HOUR).await.unwrap();
    assert!(cache.get_cached("m", 9).await.unwrap().is_some());
}

#[tokio::test]
async fn a_wrong_password_is_told_without_it() {
    let redis = RedisProcess::with_password("hunter2");
    back(&cache(&url(&redis))).await;
    let wrong = cache(&url(&redis).replace("hunter2", "hunter3"));
    let told = wrong.get_cached("a", 9).await.unwrap_err().to_string();
    assert!(told.starts_with("Redis: ") && !told.contains("hunter3"), "{told}");
}

/// Killed, stopped, restarted, emptied: each operation ends soon, and what came back is used.
#[tokio::test]
async fn a_redis_that_hangs_dies_and_comes_back_costs_no_more_than_its_limits() {
    let mut redis = RedisProcess::start_process();
    let cache = cache(&url(&redis));
    back(&cache).await;
    redis.send_signal(Signal::STOP);
    let since = Instant::now();
    cache.get_cached("a", 9).await.unwrap_err();
    let first = since.elapsed();
    // Half a second for the answer that did not come; the next caller does not wait at all.
    assert!(first >= Duration::from_millis(400) && first < Duration::from_secs(5), "{first:?}");
    let since = Instant::now();
    assert_eq!(cache.get_cached("a", 9).await.unwrap_err().to_string(), "Redis is unavailable");
    assert!(since.elapsed() < first);
    redis.send_signal(Signal::CONT);
    back(&cache).await;
    assert_eq!(cache.get_cached("a", 9).await.unwrap().unwrap(), "x");
    redis.kill_process();
    cache.get_cached("a", 9).await.unwrap_err();
    redis.restart_process();
    back(&cache).await;
    cli(&redis, &["FLUSHALL"]);
    assert!(!cache.contains_all(&["a"]).await.unwrap());
    back(&cache).await;
    assert_eq!(cli(&redis, &["GET", "a"]), "x");
}

#[tokio::test]
async fn what_is_no_redis_is_an_error() {
    let clock = || Arc::new(Now(Instant::now()));
    for url in ["http://h", "redis://", "redis+unix:///s", "x"] {
        let egress = EgressClient::new(EgressOptions::default()).unwrap();
        let told = RedisCache::new(&Secret::new(url), egress, clock()).unwrap_err().to_string();
        assert_eq!(told, "invalid Redis URL", "{url}");
    }
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let since = Instant::now();
    cache(&format!("redis://127.0.0.1:{port}")).get_cached("a", 9).await.unwrap_err();
    assert!(since.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn wrong_answers_are_errors_and_end_the_connection() {
    let babbler = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = babbler.local_addr().unwrap().port();
    std::thread::spawn(move || {
        // One answer for each connection: none of Redis' words, a length without end, a wrong type.
        for answer in ["HTTP/1.1 400 Bad Request\r\n\r\n", "$x\r\n", ":5\r\n", "*1\r\n*1\r\n"] {
            let (mut stream, _) = babbler.accept().unwrap();
            let mut asked = [0; 512];
            let _some = stream.read(&mut asked).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    for _ in 0..4 {
        let cache = cache(&format!("redis://127.0.0.1:{port}"));
        let told = cache.get_cached("a", 9).await.unwrap_err().to_string();
        assert!(told.starts_with("Redis"), "{told}");
    }
}
