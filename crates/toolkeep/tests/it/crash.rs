//! `kill -9` at random points under load: whatever was acknowledged is on record, nothing half-written
//! is, and what was under way is unknown.
//!
//! The harness keeps its own list of what the server acknowledged, and believes nothing else.

mod check;
mod history;
mod load;
mod tally;
mod tear;

use std::sync::Arc;
use std::time::Duration;

use ledger::{Disk, Fault, RealDisk};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::support::home::Home;
use crate::support::random::Random;
use crate::support::server::{serve, start};
use crate::support::tries;
use history::History;
use tally::Tally;

/// Kill points of one data directory's life.
const PER_HISTORY: usize = 20;
/// The longest load before a kill.
const LOAD: Duration = Duration::from_millis(120);
/// Lives at once: as many as the smallest machine has processors.
const LANES: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_point_it_keeps_all_that_it_acknowledged() {
    let points = tries(200, 1_000);
    let seed = Random::seed();
    let mut random = Random::new(seed);
    let mut left = (0..points / PER_HISTORY).map(|_| random.next()).collect::<Vec<_>>();
    let mut lanes = JoinSet::new();
    let mut total = Tally::default();
    loop {
        while lanes.len() < LANES
            && let Some(seed) = left.pop()
        {
            lanes.spawn(History::begin(Random::new(seed)).live(PER_HISTORY));
        }
        let Some(tally) = lanes.join_next().await else { break };
        total.add(&tally.unwrap());
    }
    println!("crash: seed {seed}: {total}");
    assert_eq!(total.points, points);
    assert!(total.acknowledged >= points && total.unknown > 0, "hardly any load: {total}");
    assert!(total.missing.is_empty(), "missing: {:#?}", total.missing);
    assert!(total.findings.is_empty(), "damage: {:#?}", total.findings);
    // A machine that others use may be slow for a moment, so a few may take longer.
    assert!(total.slow().saturating_mul(20) <= total.restarts(), "slow restarts: {total}");
}

/// Positive control: an end that was cut off by hand is an acknowledged record lost, a bit that was
/// turned is damage, and the harness says so.
#[tokio::test]
async fn the_harness_sees_a_record_that_was_cut_off_or_changed() {
    let home = Home::with_tools();
    let server = serve(&home).await;
    let agent = server.agent();
    let mut acknowledged = Vec::new();
    for n in 0..20 {
        acknowledged.push(load::one(&agent, load::Work::nth(n)).await.unwrap());
    }
    let owner = server.owner();
    for ack in &acknowledged {
        assert_eq!(check::acknowledged(&owner, ack).await, Ok(()));
    }
    server.kill().await;
    // An outcome at least, even where a checkpoint came behind it.
    tear::cut_off(&home.records(), 400);
    let server = serve(&home).await;
    let owner = server.owner();
    let mut missing = Vec::new();
    for ack in &acknowledged {
        missing.extend(check::acknowledged(&owner, ack).await.err());
    }
    println!("crash control: 400 bytes cut off, {} of 20 missing: {missing:?}", missing.len());
    assert!((1..=4).contains(&missing.len()), "{missing:?}");
    assert_eq!(missing.last().map(|missing| &missing.id), acknowledged.last().map(|ack| &ack.id));
    assert!(server.stop().await.success());
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let found = || ledger::verify(&home.records(), &disk, &[]).unwrap().findings;
    // What is missing stays a finding, and what was changed is another one.
    let cut = found();
    assert!(cut.iter().any(|finding| finding.fault == Fault::Missing), "{cut:?}");
    tear::change(&home.records());
    assert!(found().len() > cut.len());
}

/// The first start makes keys and keeps them in files: however far it came, the next one ends it.
#[tokio::test]
async fn killed_in_its_first_start_it_begins_anew() {
    let seed = Random::seed();
    let mut random = Random::new(seed);
    let (homes, mut kills) = (tries(12, 60), 0);
    for _ in 0..homes {
        let home = Home::with_tools();
        for _ in 0..3 {
            let starting = start(&home);
            sleep(random.within_ms(history::START_MS)).await;
            starting.kill().await;
            kills += 1;
        }
        let server = serve(&home).await;
        let ack = load::one(&server.agent(), load::Work::nth(1)).await.unwrap();
        assert_eq!(check::acknowledged(&server.owner(), &ack).await, Ok(()), "seed {seed}");
        assert!(server.stop().await.success());
    }
    println!("crash in the first start: seed {seed}: {kills} kills in {homes} homes");
}
