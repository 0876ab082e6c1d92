//! Tests with `kill -9` between request, approval, intent, execution and outcome: no call runs
//! twice or by itself, and started calls are unknown.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{ApprovalHome, resume};
use crate::support::rest_client::Client;
use crate::support::run_count;
use crate::support::seeded_random::Random;
use crate::support::server_process::{READY_LIMIT, Server, start_server};

/// Callers at once.
const LANES: u64 = 4;
/// Answers that the callers get before a kill, at most.
const STEPS: u64 = 14;
/// Maximum time between the last of them and the kill.
const AFTER_MS: u64 = 8;

/// Calls by argument: the ID, once known, and whether the approval was acknowledged.
type Calls = Arc<Mutex<BTreeMap<u64, (String, bool)>>>;

/// Answers so far.
type Steps = watch::Sender<u64>;

/// Asks, approves and comes back, again and again, until no server answers.
async fn lane((agent, owner): (Client, Client), (calls, steps): (Calls, Steps), from: u64) {
    for n in (from..).step_by(usize::try_from(LANES).unwrap()) {
        let Ok(held) = agent.try_call("wipe", &json!({ "n": n })).await else { return };
        assert_eq!(held.status, 202, "{:?}", held.body);
        let id = held.call_id().to_owned();
        calls.lock().unwrap().insert(n, (id.clone(), false));
        steps.send_modify(|steps| *steps += 1);
        let path = format!("/v1/approvals/{id}/approve");
        let approved = owner.try_send(http::Method::POST, &path, "{}".to_owned()).await;
        if approved.is_err() {
            return;
        }
        calls.lock().unwrap().insert(n, (id.clone(), true));
        steps.send_modify(|steps| *steps += 1);
        let path = format!("/v1/calls/{id}/resume?wait=30s");
        if agent.try_send(http::Method::POST, &path, "{}".to_owned()).await.is_err() {
            return;
        }
        steps.send_modify(|steps| *steps += 1);
    }
}

/// Callers at work until the server is killed, somewhere behind some answer.
async fn load_and_kill(server: Server, calls: &Calls, (next, random): (u64, &mut Random)) {
    let both = (server.agent(), server.owner());
    let (mut lanes, steps) = (JoinSet::new(), Steps::new(0));
    for from in 0..LANES {
        lanes.spawn(lane(both.clone(), (Arc::clone(calls), steps.clone()), next + from));
    }
    let wanted = random.next_below(STEPS);
    let mut told = steps.subscribe();
    timeout(READY_LIMIT, told.wait_for(|steps| *steps >= wanted)).await.unwrap().unwrap();
    sleep(random.duration_below(AFTER_MS)).await;
    server.kill().await;
    while let Some(ended) = lanes.join_next().await {
        ended.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_point_nothing_runs_twice_or_by_itself() {
    let points = run_count(12, 200);
    let seed = Random::seed();
    let mut random = Random::new(seed);
    let bench = ApprovalHome::new("approvals: { pending: 10000, per_minute: 10000 }\n");
    let calls = Calls::default();
    let (mut next, mut unknown, mut went_on, mut seen) = (0, 0, 0, 0);
    for _ in 0..points {
        let server = start_server(&bench.home).await;
        load_and_kill(server, &calls, (next, &mut random)).await;
        // Whatever was on its way to the service has arrived.
        sleep(Duration::from_millis(50)).await;
        let asked: Vec<_> = calls.lock().unwrap().clone().into_iter().collect();
        let before =
            asked.iter().map(|(n, _)| (*n, bench.run_count(*n))).collect::<BTreeMap<_, _>>();
        let server = start_server(&bench.home).await;
        sleep(Duration::from_millis(100)).await;
        let (agent, owner) = (server.agent(), server.owner());
        for (n, (id, acknowledged)) in asked.iter().skip(seen) {
            let ran = before[n];
            assert_eq!(bench.run_count(*n), ran, "seed {seed}: {n} ran by itself after a restart");
            assert!(ran <= 1, "seed {seed}: {n} ran {ran} times");
            let state = agent.fetch_record(id).await.body;
            let status = state["status"].as_str().unwrap_or_default().to_owned();
            let approval = owner.get(&format!("/v1/approvals/{id}")).await.body;
            let held = approval["state"].as_str().unwrap_or_default();
            assert!(ran == 0 || matches!(status.as_str(), "succeeded" | "unknown"), "{n}: {state}");
            assert!(!acknowledged || held != "pending", "{n}: an approval is lost: {approval}");
            let answer = resume_soon(&agent, id, held).await;
            match status.as_str() {
                "unknown" => {
                    unknown += 1;
                    assert_eq!(
                        bench.run_count(*n),
                        ran,
                        "seed {seed}: {n} is unknown, and ran again"
                    );
                }
                "waiting" if held == "approved" => {
                    went_on += 1;
                    assert_eq!((answer, bench.run_count(*n)), (200, 1), "seed {seed}: {n}");
                }
                _ => assert_eq!(bench.run_count(*n), ran, "seed {seed}: {n}"),
            }
        }
        seen = asked.len();
        next = asked.last().map_or(next, |(n, _)| n / LANES * LANES + LANES);
        assert!(server.stop().await.success());
    }
    let twice = calls.lock().unwrap().keys().filter(|n| bench.run_count(**n) > 1).count();
    println!(
        "held crash: seed {seed}: {points} kills, {seen} calls, {} executions, {unknown} unknown, \
         {went_on} approved before and run after, {twice} twice",
        bench.service.received().len()
    );
    assert_eq!(twice, 0);
    assert!(seen >= points, "hardly any load: {seen} calls");
    // The windows that the promise is about were hit: calls that ran, and approved ones that went on.
    assert!(went_on > 0 && !bench.service.received().is_empty(), "{went_on} went on");
}

/// An undecided call would be awaited.
async fn resume_soon(agent: &Client, id: &str, held: &str) -> u16 {
    if held == "pending" {
        return 202;
    }
    resume(agent, id).await.status
}
