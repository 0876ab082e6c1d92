//! Tests with `kill -9` at random points under load: acknowledged calls are on record, no partial
//! record exists, and running calls are unknown.
//!
//! The harness keeps its own list of what the server acknowledged, and believes nothing else.

mod call_load;
mod crash_statistics;
mod record_check;
mod segment_damage;
mod server_history;

use std::sync::Arc;
use std::time::Duration;

use ledger::{DamageKind, Disk, OsDisk};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::support::installation::Installation;
use crate::support::run_count;
use crate::support::seeded_random::Random;
use crate::support::server_process::{spawn_server, start_server};
use crash_statistics::CrashStatistics;
use server_history::ServerHistory;

/// Kill points of one data directory's life.
const PER_HISTORY: usize = 20;
/// The longest load before a kill.
const LOAD: Duration = Duration::from_millis(120);
/// Lives at once: as many as the smallest machine has processors.
const LANES: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_point_it_keeps_all_that_it_acknowledged() {
    let points = run_count(60, 1_000);
    let seed = Random::seed();
    let mut random = Random::new(seed);
    let mut left = (0..points / PER_HISTORY).map(|_| random.next()).collect::<Vec<_>>();
    let mut lanes = JoinSet::new();
    let mut total = CrashStatistics::default();
    loop {
        while lanes.len() < LANES
            && let Some(seed) = left.pop()
        {
            lanes.spawn(ServerHistory::begin(Random::new(seed)).run_kills(PER_HISTORY));
        }
        let Some(tally) = lanes.join_next().await else { break };
        total.add(&tally.unwrap());
    }
    println!("crash: seed {seed}: {total}");
    assert_eq!(total.points, points);
    assert!(total.acknowledged >= points && total.unknown > 0, "hardly any load: {total}");
    assert!(total.missing.is_empty(), "missing: {:#?}", total.missing);
    assert!(total.findings.is_empty(), "damage: {:#?}", total.findings);
    // How long a restart takes is printed and not judged: it depends on what else the machine does.
    assert!(total.restarts() >= points, "a server did not restart: {total}");
}

/// Positive control: a truncated end is reported as a lost acknowledged record, and a flipped bit
/// as damage.
#[tokio::test]
async fn the_harness_sees_a_record_that_was_cut_off_or_changed() {
    let home = Installation::with_tools();
    let server = start_server(&home).await;
    let agent = server.agent();
    let mut acknowledged = Vec::new();
    for n in 0..20 {
        acknowledged.push(call_load::make_call(&agent, call_load::CallWork::nth(n)).await.unwrap());
    }
    let owner = server.owner();
    for ack in &acknowledged {
        assert_eq!(record_check::acknowledged(&owner, ack).await, Ok(()));
    }
    server.kill().await;
    // An outcome at least, even where a checkpoint came behind it.
    segment_damage::truncate_segment(&home.records(), 400);
    let server = start_server(&home).await;
    let owner = server.owner();
    let mut missing = Vec::new();
    for ack in &acknowledged {
        missing.extend(record_check::acknowledged(&owner, ack).await.err());
    }
    println!("crash control: 400 bytes cut off, {} of 20 missing: {missing:?}", missing.len());
    assert!((1..=4).contains(&missing.len()), "{missing:?}");
    assert_eq!(missing.last().map(|missing| &missing.id), acknowledged.last().map(|ack| &ack.id));
    assert!(server.stop().await.success());
    let disk: Arc<dyn Disk> = Arc::new(OsDisk);
    let found = || ledger::verify_record(&home.records(), &disk, &[]).unwrap().findings;
    // The missing record stays a finding, and the changed one is another.
    let cut = found();
    assert!(cut.iter().any(|finding| finding.damage == DamageKind::MissingRecords), "{cut:?}");
    segment_damage::corrupt_segment(&home.records());
    assert!(found().len() > cut.len());
}

/// The first start makes keys and keeps them in files: however far it came, the next one ends it.
#[tokio::test]
async fn killed_in_its_first_start_it_begins_anew() {
    let seed = Random::seed();
    let mut random = Random::new(seed);
    let (homes, mut kills) = (run_count(6, 60), 0);
    for _ in 0..homes {
        let home = Installation::with_tools();
        for _ in 0..3 {
            let starting = spawn_server(&home);
            sleep(random.duration_below(server_history::START_MS)).await;
            starting.kill().await;
            kills += 1;
        }
        let server = start_server(&home).await;
        let ack = call_load::make_call(&server.agent(), call_load::CallWork::nth(1)).await.unwrap();
        assert_eq!(record_check::acknowledged(&server.owner(), &ack).await, Ok(()), "seed {seed}");
        assert!(server.stop().await.success());
    }
    println!("crash in the first start: seed {seed}: {kills} kills in {homes} homes");
}
