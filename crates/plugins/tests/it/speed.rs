//! What a call costs above its function. The figures are printed; what is asserted is far above them, as
//! machines are shared: `cargo nextest run -p plugins speed --no-capture --release` shows them.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::stage::{Stage, called};

#[tokio::test]
async fn a_warm_call_and_a_first_one_are_cheap() {
    let stage = Stage::new().await;
    stage.python(
        "p",
        "def echo(a): return a\n",
        &[("echo", json!({"a": {"type": "string", "required": true}}))],
    );
    stage.reload().await;
    let echo = stage.offer("p", "echo").await;
    let began = Instant::now();
    called(&echo, json!({"a": "x"})).await.unwrap();
    let first = began.elapsed();
    let mut all = Vec::new();
    for _ in 0..500 {
        let began = Instant::now();
        called(&echo, json!({"a": "x"})).await.unwrap();
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
    assert!(first < Duration::from_secs(2) && median < Duration::from_millis(50));
    stage.registry.close().await;
}
