//! Measures the cost of a call above its function. Times are printed, since machines are shared; processes are judged:
//! `cargo nextest run -p plugins speed --no-capture --release` shows both.

use std::time::Instant;

use serde_json::json;

use crate::stage::{Stage, called};

#[tokio::test]
async fn warm_calls_share_one_process_and_a_dead_one_is_replaced() {
    let stage = Stage::new().await;
    stage.python(
        "p",
        "import os\ndef echo(a): return os.getpid()\n",
        &[("echo", json!({"a": {"type": "string", "required": true}}))],
    );
    stage.reload().await;
    let echo = stage.offer("p", "echo").await;
    let began = Instant::now();
    let process = called(&echo, json!({"a": "x"})).await.unwrap();
    let first = began.elapsed();
    let mut all = Vec::new();
    for _ in 0..500 {
        let began = Instant::now();
        assert_eq!(called(&echo, json!({"a": "x"})).await.unwrap(), process);
        all.push(began.elapsed());
    }
    all.sort_unstable();
    let (median, p99) = (all[250], all[494]);
    // The process is gone: what the next call waits for is a new one.
    stage.python(
        "q",
        "import os\ndef go(): os._exit(0)\ndef echo(): return 1\n",
        &[("go", json!({})), ("echo", json!({}))],
    );
    stage.reload().await;
    let (go, cold) = (stage.offer("q", "go").await, stage.offer("q", "echo").await);
    drop(called(&go, json!({})).await);
    let began = Instant::now();
    while called(&cold, json!({})).await.is_err() {}
    println!(
        "first {first:?}, warm median {median:?}, p99 {p99:?}, after a death {:?}",
        began.elapsed()
    );
    stage.registry.close().await;
}
