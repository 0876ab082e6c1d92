//! Tests of many reloads under load: files replaced, broken, half written or swapped as
//! Kubernetes does. Each list is one written state, denied tools never appear, each call has one
//! answer and one record.
//!
//! Partially written content is in brackets, so that no prefix is a complete document; it may
//! persist for any time.

mod file_writer;
mod list_observer;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::support::http_module::{Module, ModuleBehavior};
use crate::support::installation::{Installation, TOOL_FILE};
use crate::support::rest_client::Client;
use crate::support::run_count;
use crate::support::seeded_random::Random;
use crate::support::server_process::start_server;
use file_writer::{FileWriter, Language};
use list_observer::ObservedLists;

/// Tools of the file that changes, and of the one that comes with each configuration.
const POOL: usize = 20;
const EXTRA: usize = 5;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_state_that_is_seen_is_a_whole_one_that_was_written() {
    reloads(Language::Json).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_state_of_yaml_that_is_seen_is_a_whole_one_that_was_written() {
    reloads(Language::Yaml).await;
}

async fn reloads(language: Language) {
    let (changes, seed) = (run_count(64, 1_000), Random::seed());
    println!("reloads: {language:?}, seed {seed}");
    let module = Module::start("good", ModuleBehavior::Good).await;
    let home = Installation::new("{}");
    home.write("tools.yaml", TOOL_FILE);
    let mut pen = FileWriter::new(&home, language, module.url(), Random::new(seed));
    pen.first();
    let server = start_server(&home).await;
    let owner = server.owner();
    let stop = CancellationToken::new();
    let seen = list_observer::begin(&server.agent(), &owner, &stop);
    for n in 1..=changes {
        change(&mut pen, &owner, n).await;
    }
    stop.cancel();
    let ObservedLists { listings, whole, calls, wrong } = list_observer::end(seen).await;
    println!("reloads: {changes} under {} calls and {listings} listings", calls.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(listings > changes && calls.len() > changes, "there was load all the time");
    assert!(whole > 1, "listings showed {whole} states");
    assert_eq!(list_observer::records(&owner, &calls).await, Vec::<String>::new());
    told_without_rules(&mut pen, &owner).await;
    assert!(server.stop().await.success());
}

/// Control: the rule hides the tool, and a listing without the rule is detected.
async fn told_without_rules(pen: &mut FileWriter<'_>, owner: &Client) {
    assert!(
        list_observer::faults(&owner.get("/v1/tools?limit=1000").await.body, &mut (0, 0))
            .is_empty()
    );
    pen.without_rules();
    let open = || async {
        let listed = owner.get("/v1/tools?limit=1000").await.body;
        list_observer::faults(&listed, &mut (0, 0)).iter().any(|fault| fault.contains("secret"))
    };
    while !open().await {
        sleep(Duration::from_millis(20)).await;
    }
}

/// One change, from the write until it is active or its error is reported.
async fn change(pen: &mut FileWriter<'_>, owner: &Client, n: usize) {
    match n % 8 {
        0 => pen.put_pool(n),
        1 => pen.put_config(n),
        2 => {
            pen.break_pool();
            return stale(owner).await;
        }
        3 => {
            pen.break_config();
            return refused(owner).await;
        }
        4 => {
            pen.half_pool(n);
            stale(owner).await;
            pen.finish_pool(n);
        }
        5 => {
            pen.half_config(n);
            refused(owner).await;
            pen.finish_config(n);
        }
        6 => pen.swap(n),
        _ => {
            pen.finish_pool(n);
            pen.finish_config(n);
        }
    }
    taken(owner, pen).await;
}

/// The file is reported as broken, and its tools are kept.
async fn stale(owner: &Client) {
    let source = owner.wait_for_source("pool", |source| source["state"] == "stale").await;
    assert_eq!(source["tools"], POOL + 1, "{source}");
    assert!(source["problems"][0].to_string().contains("pool."), "{source}");
}

/// The configuration is reported as invalid, and the last valid one stays active.
async fn refused(owner: &Client) {
    let told = |source: &Value| source["problems"][0].to_string().contains("toolkeep.yaml");
    owner.wait_for_source("configuration", told).await;
}

/// Both files count as they are.
async fn taken(owner: &Client, pen: &FileWriter<'_>) {
    let (pool, extra) = (pen.pool, format!("extra{}", pen.config));
    owner.wait_for_source("pool", |source| source["state"] == "ok").await;
    owner.wait_for_source(&extra, |source| source["state"] == "ok").await;
    assert_eq!(owner.find_source("configuration").await.is_none(), pen.sound);
    let mut answer = json!(null);
    for _ in 0..3_000 {
        answer = owner.call("always", &json!({})).await.body["result"].take();
        if answer == json!({ "generation": pool }) {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("the tool file of change {pool} does not count: {answer}");
}
