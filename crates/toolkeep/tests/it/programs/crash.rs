//! `kill -9` anywhere in the life of a program: no call of it runs twice, and one that waits goes on and
//! comes to the right end.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::support::client::Client;
use crate::support::home::Home;
use crate::support::random::Random;
use crate::support::server::{SOON, serve};
use crate::support::tries;
use crate::support_real::good;
use crate::support_real::module::{Module, manifest};

/// How long after it was begun, or approved, the kill comes, at most.
const AFTER_MS: u64 = 60;

/// A service that remembers what it was sent, and a home with three tools that ask it; the second is held.
struct Bench {
    service: Module,
    home: Home,
}

impl Bench {
    fn new() -> Self {
        let service = Module::start(manifest("m", &[]));
        let home = Home::new(
            "version: 1\nsources:\n  - { name: local, tools: ./tools.yaml }\napprovals: { pending: 10000, per_minute: 10000 }\n",
        );
        let url = service.url();
        let tool = |name: &str, safety: &str| {
            format!(
                "  - name: {name}\n    description: Notes a number.\n    safety: {safety}\n    \
                 allowed_callers: [direct, chain]\n    \
                 parameters: {{ type: object, properties: {{ n: {{ type: integer }}, t: {{ type: integer }} }} }}\n    \
                 implementation: {{ type: http, method: POST, url: '{url}/execute' }}\n"
            )
        };
        let tools = [tool("one", "safe"), tool("two", "dangerous"), tool("three", "safe")].concat();
        home.write("tools.yaml", &format!("version: 2\ntools:\n{tools}"));
        Self { service, home }
    }

    /// How often each of the three ran for program `n`.
    fn ran(&self, n: u64) -> [usize; 3] {
        let received = self.service.received();
        [1, 2, 3].map(|t| received.iter().filter(|it| it["n"] == n && it["t"] == t).count())
    }
}

fn script(n: u64) -> Value {
    let code =
        format!("a = one(n={n}, t=1)\nb = two(n={n}, t=2)\nc = three(n={n}, t=3)\nlen([a, b, c])");
    json!({ "code": code })
}

/// The call of program `n` that waits, once it does.
async fn held(owner: &Client, n: u64) -> String {
    for _ in 0..3_000 {
        let list = good(owner.get("/v1/approvals").await);
        let all = list["approvals"].as_array().unwrap();
        if let Some(found) = all.iter().find(|it| it["arguments"]["n"] == n) {
            return found["id"].as_str().unwrap().to_owned();
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("nothing waits for {n}");
}

/// The program of this key that was begun last, where it is known.
async fn last(agent: &Client, before: usize) -> Option<Value> {
    let all = good(agent.get("/v1/programs").await);
    let all = all["programs"].as_array().unwrap().clone();
    (all.len() > before).then(|| all[0].clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_point_a_program_calls_nothing_twice_and_goes_on() {
    let points = u64::from(u32::try_from(tries(20, 100)).unwrap());
    let seed = Random::seed();
    let mut random = Random::new(seed);
    let bench = Bench::new();
    let (mut known, mut finished, mut unknown, mut nothing) = (0, 0, 0, 0);
    for n in 0..points {
        let server = serve(&bench.home).await;
        let agent = server.agent();
        let beginning = agent.clone();
        let begun = tokio::task::JoinSet::from_iter([async move {
            let path = "/v1/programs?wait=30s";
            drop(beginning.try_send(http::Method::POST, path, script(n).to_string()).await);
        }]);
        // Every other time the kill comes when a person has agreed.
        if n % 2 == 1 {
            let call = held(&server.owner(), n).await;
            crate::held::decide(&server.owner(), &call, "approve", &json!({})).await;
        }
        sleep(random.within_ms(AFTER_MS)).await;
        server.kill().await;
        drop(begun);
        let server = serve(&bench.home).await;
        let (agent, owner) = (server.agent(), server.owner());
        let Some(program) = last(&agent, known).await else {
            // It ended before anything of it was written: then nothing had an effect.
            nothing += 1;
            assert_eq!(bench.ran(n), [0, 0, 0], "seed {seed}: {n}");
            assert!(server.stop().await.success());
            continue;
        };
        known += 1;
        for held in program["pending"].as_array().unwrap() {
            let path = format!("/v1/approvals/{}/approve", held["approval"].as_str().unwrap());
            // One that was approved before the kill is so already.
            drop(owner.post(&path, &json!({})).await);
        }
        let path = format!("/v1/programs/{}?wait=30s", program["program"].as_str().unwrap());
        let ended = timeout(SOON, agent.get(&path)).await.unwrap().body;
        let ran = bench.ran(n);
        assert!(ran.iter().all(|times| *times <= 1), "seed {seed}: {n} ran {ran:?}: {ended}");
        match ended["status"].as_str().unwrap() {
            "succeeded" => {
                finished += 1;
                assert_eq!((&ended["result"], ran), (&json!(3), [1, 1, 1]), "seed {seed}: {n}");
            }
            // It was killed while a call ran: it says so, and nothing goes on.
            "unknown" | "failed" => {
                unknown += 1;
                sleep(Duration::from_millis(50)).await;
                assert_eq!(bench.ran(n), ran, "seed {seed}: {n} went on by itself: {ended}");
            }
            other => panic!("seed {seed}: {n} is {other}: {ended}"),
        }
        assert!(server.stop().await.success());
    }
    println!(
        "programs crash: seed {seed}: {points} kills, {finished} went on to the right end, {unknown} unknown, {nothing} before anything ran"
    );
    assert!(finished > 0, "none went on");
}
