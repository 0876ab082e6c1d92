//! Tests of programs with `kill -9` at any point: no effect happens twice and the program continues
//! to the right end. Only a killed call that must not be repeated ends as unknown.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::real_support::expect_ok;
use crate::real_support::recording_module::{Module, manifest};
use crate::support::installation::Installation;
use crate::support::rest_client::Client;
use crate::support::run_count;
use crate::support::seeded_random::Random;
use crate::support::server_process::{READY_LIMIT, Server, start_server};

/// Maximum time between the start, or the approval, and the kill.
const BEGUN_MS: u64 = 400;
const AGREED_MS: u64 = 60;

/// A service that remembers what it was sent, and a home with tools that ask it. The second of each three is
/// held; those of the first three may be called twice.
struct CrashBench {
    service: Module,
    home: Installation,
}

impl CrashBench {
    fn new() -> Self {
        let service = Module::start(manifest("m", &[]));
        let home = Installation::new(
            "version: 1\nsources:\n  - { name: local, tools: ./tools.yaml }\napprovals: { pending: 10000, per_minute: 10000 }\n",
        );
        let url = service.url();
        let tool = |(name, safety): (&str, &str), idempotent: bool| {
            format!(
                "  - name: {}_{name}\n    description: Notes a number.\n    safety: {safety}\n    \
                 allowed_callers: [direct, chain]\n    idempotent: {idempotent}\n    \
                 parameters: {{ type: object, properties: {{ n: {{ type: integer }}, t: {{ type: integer }} }} }}\n    \
                 implementation: {{ type: http, method: POST, url: '{url}/execute' }}\n",
                kind(idempotent)
            )
        };
        let three = [("one", "safe"), ("two", "dangerous"), ("three", "safe")];
        let tools: String = [true, false]
            .into_iter()
            .flat_map(|idempotent| three.map(|it| tool(it, idempotent)))
            .collect();
        home.write("tools.yaml", &format!("version: 2\ntools:\n{tools}"));
        Self { service, home }
    }

    /// How often each of the three ran for program `n`.
    fn ran(&self, n: u64) -> [usize; 3] {
        let received = self.service.received();
        [1, 2, 3].map(|t| received.iter().filter(|it| it["n"] == n && it["t"] == t).count())
    }
}

fn kind(idempotent: bool) -> &'static str {
    if idempotent { "put" } else { "add" }
}

fn script(n: u64, idempotent: bool) -> Value {
    let kind = kind(idempotent);
    let call = |name: &str, t: u64| format!("{kind}_{name}(n={n}, t={t})");
    let code = format!(
        "a = {}\nb = {}\nc = {}\nlen([a, b, c])",
        call("one", 1),
        call("two", 2),
        call("three", 3)
    );
    json!({ "code": code })
}

/// The call of program `n` that waits, once it does.
async fn held(owner: &Client, n: u64) -> String {
    for _ in 0..3_000 {
        let list = expect_ok(owner.get("/v1/approvals").await);
        let all = list["approvals"].as_array().unwrap();
        if let Some(found) = all.iter().find(|it| it["arguments"]["n"] == n) {
            return found["id"].as_str().unwrap().to_owned();
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("nothing waits for {n}");
}

/// The newest program of this key that is not among those.
async fn last(agent: &Client, known: &HashSet<String>) -> Option<String> {
    let all = expect_ok(agent.get("/v1/programs").await);
    let newest = all["programs"].get(0)?["program"].as_str().unwrap().to_owned();
    (!known.contains(&newest)).then_some(newest)
}

/// Agrees to all that the program waits for, until it has ended.
async fn to_its_end(server: &Server, id: &str) -> Value {
    let (agent, owner) = (server.agent(), server.owner());
    let ends = async {
        loop {
            let now = agent.get(&format!("/v1/programs/{id}?wait=1s")).await.body;
            if !matches!(now["status"].as_str().unwrap(), "running" | "pending_approval") {
                return now;
            }
            for held in now["pending"].as_array().unwrap() {
                let path = format!("/v1/approvals/{}/approve", held["approval"].as_str().unwrap());
                // One that was approved before the kill is so already.
                drop(owner.post(&path, &json!({})).await);
            }
        }
    };
    timeout(READY_LIMIT, ends).await.unwrap()
}

/// Begins it, and kills the server: at any time, or when a person has agreed.
async fn begun_and_killed(bench: &CrashBench, n: u64, random: &mut Random) {
    let server = start_server(&bench.home).await;
    let agent = server.agent();
    let begun = tokio::task::JoinSet::from_iter([async move {
        let path = "/v1/programs?wait=30s";
        let script = script(n, n.is_multiple_of(2)).to_string();
        drop(agent.try_send(http::Method::POST, path, script).await);
    }]);
    let mut within = BEGUN_MS;
    if n % 4 >= 2 {
        within = AGREED_MS;
        let call = held(&server.owner(), n).await;
        crate::approvals::decide(&server.owner(), &call, "approve", &json!({})).await;
    }
    sleep(random.duration_below(within)).await;
    server.kill().await;
    drop(begun);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_point_a_program_goes_on_to_its_right_end() {
    let points = u64::from(u32::try_from(run_count(12, 200)).unwrap());
    let seed = Random::seed();
    let mut random = Random::new(seed);
    let bench = CrashBench::new();
    let (mut known, mut right, mut unknown, mut anew) = (HashSet::new(), 0, 0, 0);
    for n in 0..points {
        let idempotent = n.is_multiple_of(2);
        begun_and_killed(&bench, n, &mut random).await;
        let server = start_server(&bench.home).await;
        let id = if let Some(id) = last(&server.agent(), &known).await {
            id
        } else {
            // It ended before its first write: nothing had an effect, and its caller starts it
            // again.
            anew += 1;
            assert_eq!(bench.ran(n), [0, 0, 0], "seed {seed}: {n}");
            let begun = server.agent().post("/v1/programs", &script(n, idempotent)).await;
            begun.body["program"].as_str().unwrap().to_owned()
        };
        known.insert(id.clone());
        let ended = to_its_end(&server, &id).await;
        let ran = bench.ran(n);
        if ended["status"] == "succeeded" {
            right += 1;
            assert_eq!(ended["result"], 3, "seed {seed}: {n}: {ended}");
            assert!(ran.iter().all(|times| *times >= 1), "seed {seed}: {n} ran {ran:?}");
        } else {
            // A call that must not be repeated was running at the kill: the program reports it and
            // does not continue.
            assert!(!idempotent, "seed {seed}: {n}: {ended}");
            assert_eq!(ended["status"], "unknown", "seed {seed}: {n}: {ended}");
            let told = ended["error"].as_str().unwrap();
            assert!(told.contains("its effect is unknown"), "{told}");
            unknown += 1;
        }
        assert!(
            idempotent || ran.iter().all(|times| *times <= 1),
            "seed {seed}: {n} ran {ran:?}: {ended}"
        );
        assert!(server.stop().await.success());
    }
    println!(
        "programs crash: seed {seed}: {points} kills, {right} went on to the right end ({anew} of them begun anew), {unknown} unknown, which were killed while a call ran that may not be made twice"
    );
    assert!(right * 2 >= points, "most go on");
}
