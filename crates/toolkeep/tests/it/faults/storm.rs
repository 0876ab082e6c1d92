//! Hundreds of reloads of the configuration and of a tool file under load: put in whole, broken, half
//! written, or swapped as Kubernetes swaps a `ConfigMap`. Whatever is listed meanwhile is one of the
//! states that were written, whole; what is denied is never seen; each call has its answer and one record.
//!
//! What is half written stands in brackets, of which no beginning is a whole document: it can stand as
//! long as it likes.

mod pen;
mod watch;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::support::client::Client;
use crate::support::home::{Home, TOOLS};
use crate::support::module::{Manner, Module};
use crate::support::random::Random;
use crate::support::server::serve;
use crate::support::tries;
use pen::{Language, Pen};
use watch::Seen;

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
    let (changes, seed) = (tries(200, 1_000), Random::seed());
    println!("reloads: {language:?}, seed {seed}");
    let module = Module::start("good", Manner::Good).await;
    let home = Home::new("{}");
    home.write("tools.yaml", TOOLS);
    let mut pen = Pen::new(&home, language, module.url(), Random::new(seed));
    pen.first();
    let server = serve(&home).await;
    let owner = server.owner();
    let stop = CancellationToken::new();
    let seen = watch::begin(&server.agent(), &owner, &stop);
    for n in 1..=changes {
        change(&mut pen, &owner, n).await;
    }
    stop.cancel();
    let Seen { listings, whole, calls, wrong } = watch::end(seen).await;
    println!("reloads: {changes} under {} calls and {listings} listings", calls.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(listings > changes && calls.len() > changes, "there was load all the time");
    assert!(whole > 1, "listings showed {whole} states");
    assert_eq!(watch::records(&owner, &calls).await, Vec::<String>::new());
    told_without_rules(&mut pen, &owner).await;
    assert!(server.stop().await.success());
}

/// Control: the rule is what hides the tool, and a listing without it is told from the others.
async fn told_without_rules(pen: &mut Pen<'_>, owner: &Client) {
    assert!(watch::faults(&owner.get("/v1/tools?limit=1000").await.body, &mut (0, 0)).is_empty());
    pen.without_rules();
    let open = || async {
        let listed = owner.get("/v1/tools?limit=1000").await.body;
        watch::faults(&listed, &mut (0, 0)).iter().any(|fault| fault.contains("secret"))
    };
    while !open().await {
        sleep(Duration::from_millis(20)).await;
    }
}

/// One change, and all it takes until it counts, or is told as what it is.
async fn change(pen: &mut Pen<'_>, owner: &Client, n: usize) {
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

/// The file is told as broken, and its tools are kept.
async fn stale(owner: &Client) {
    let source = owner.source_that("pool", |source| source["state"] == "stale").await;
    assert_eq!(source["tools"], POOL + 1, "{source}");
    assert!(source["problems"][0].to_string().contains("pool."), "{source}");
}

/// The configuration is told as faulty, and the last good one counts.
async fn refused(owner: &Client) {
    let told = |source: &Value| source["problems"][0].to_string().contains("toolkeep.yaml");
    owner.source_that("configuration", told).await;
}

/// Both files count as they are.
async fn taken(owner: &Client, pen: &Pen<'_>) {
    let (pool, extra) = (pen.pool, format!("extra{}", pen.config));
    owner.source_that("pool", |source| source["state"] == "ok").await;
    owner.source_that(&extra, |source| source["state"] == "ok").await;
    assert_eq!(owner.source("configuration").await.is_none(), pen.sound);
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
