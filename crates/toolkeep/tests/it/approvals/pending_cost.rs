//! Measures the cost of pending calls: memory and CPU while they wait, latency when they resume.

use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{ApprovalHome, decide, pending_call, resume};
use crate::real_support::expect_ok;
use crate::support::run_count;
use crate::support::server_process::{Server, start_server};

/// Resident bytes.
fn resident(server: &Server) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/statm", server.pid)).unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4_096
}

/// Processor time so far.
fn cpu_time(server: &Server) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", server.pid)).unwrap();
    let fields: Vec<_> = text.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks: u64 = [11, 12].iter().map(|at| fields[*at].parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

fn median_and_p95(mut all: Vec<Duration>) -> (Duration, Duration) {
    all.sort();
    (all[all.len() / 2], all[all.len() * 95 / 100])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pending_calls_take_bounded_memory() {
    // With what is held before and after, as many as one key may have.
    let calls = run_count(1_000, 9_880);
    let bench =
        ApprovalHome::new("approvals: { pending: 10000, per_minute: 10000, expires: 1h }\n");
    bench.home.write(
        "more.yaml",
        "version: 1\ntools:\n  - name: plain\n    description: d\n    parameters: { type: object }\n    side_effects: [modifies_files]\n    implementation: { type: mock, mock_response: 1 }\n  - name: held\n    description: d\n    parameters: { type: object }\n    safety: dangerous\n    side_effects: [modifies_files]\n    implementation: { type: mock, mock_response: 1 }\n",
    );
    let config = std::fs::read_to_string(bench.home.config()).unwrap();
    let config = config.replace("sources:\n", "sources:\n  - { name: more, tools: ./more.yaml }\n");
    std::fs::write(bench.home.config(), config).unwrap();
    let server = start_server(&bench.home).await;
    let (agent, owner) = (server.agent(), server.owner());
    // Warm, so that what is measured is what waits.
    for _ in 0..50 {
        expect_ok(agent.call("plain", &json!({})).await);
    }
    for n in 0..10 {
        pending_call(&agent, n).await;
    }
    let before = resident(&server);
    for n in 0..calls {
        pending_call(&agent, n as u64).await;
    }
    let grown = resident(&server).saturating_sub(before);
    let from = cpu_time(&server);
    sleep(Duration::from_secs(2)).await;
    let idle = cpu_time(&server).saturating_sub(from);
    let (mut plain, mut went) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        let begun = Instant::now();
        expect_ok(agent.call("plain", &json!({})).await);
        plain.push(begun.elapsed());
        let id = agent.call("held", &json!({})).await.call_id().to_owned();
        let mut waiting = JoinSet::new();
        waiting.spawn({
            let (agent, id) = (agent.clone(), id.clone());
            async move { (resume(&agent, &id).await.status, Instant::now()) }
        });
        sleep(Duration::from_millis(5)).await;
        let begun = Instant::now();
        decide(&owner, &id, "approve", &json!({})).await;
        let (status, ended) = waiting.join_next().await.unwrap().unwrap();
        assert_eq!(status, 200);
        went.push(ended.saturating_duration_since(begun));
    }
    let ((plain, _), (went, slow)) = (median_and_p95(plain), median_and_p95(went));
    println!(
        "held, the program: {calls} waiting calls: {} KiB more resident, {idle:?} of processor in 2 s; \
         from approval to answer {went:?} (p50), {slow:?} (p95); a plain call with effects {plain:?}",
        grown >> 10
    );
    assert!(grown < 50 << 20, "{grown}");
    assert!(server.stop().await.success());
}
