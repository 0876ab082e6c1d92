//! The history of one data directory: a series of servers, each killed.

use std::sync::Arc;

use ledger::{DiscardReason, Disk, LedgerCheckpoint, OsDisk};
use tokio::time::sleep;

use super::call_load::{Acknowledgement, Load};
use super::crash_statistics::CrashStatistics;
use super::record_check::{acknowledged, newest};
use super::{LOAD, segment_damage};
use crate::support::installation::Installation;
use crate::support::rest_client::Client;
use crate::support::seeded_random::Random;
use crate::support::server_process::{Server, spawn_server, start_server};

/// Acknowledged calls of earlier runs that are looked up again after each restart.
const AGAIN: usize = 10;
/// One in so many kills is followed by a kill of the next server while it starts.
const WHILE_STARTING: u64 = 8;
/// One in so many kills leaves a torn write.
const TORN: u64 = 4;
/// Longer than a start takes.
pub(crate) const START_MS: u64 = 250;

pub(crate) struct ServerHistory {
    home: Installation,
    random: Random,
    tally: CrashStatistics,
    acks: Vec<Acknowledgement>,
    /// Number of lookups since the calls were acknowledged.
    seen_acks: usize,
    /// Records up to this number were gone through.
    seen: u64,
    /// Checkpoints as a careful operator keeps them elsewhere.
    kept: Vec<LedgerCheckpoint>,
}

impl ServerHistory {
    pub(crate) fn begin(random: Random) -> Self {
        Self {
            home: Installation::with_tools(),
            random,
            tally: CrashStatistics::default(),
            acks: Vec::new(),
            seen_acks: 0,
            seen: 0,
            kept: Vec::new(),
        }
    }

    /// Lives through so many kills, and one orderly end.
    pub(crate) async fn run_kills(mut self, kills: usize) -> CrashStatistics {
        for _ in 0..kills {
            let server = self.look_back().await;
            let load = Load::on(&server.agent(), &mut self.random);
            sleep(self.random.duration_below(u64::try_from(LOAD.as_millis()).unwrap())).await;
            server.kill().await;
            self.tally.points += 1;
            let acks = load.acknowledged().await;
            self.tally.acknowledged += acks.len();
            self.tally.with_effects += acks.iter().filter(|ack| ack.work.has_effects()).count();
            self.acks.extend(acks);
            self.verify();
            if self.random.next_below(TORN) == 0
                && segment_damage::torn_write(&self.home.records(), &mut self.random)
            {
                self.tally.torn += 1;
                assert!(self.verify() > 0, "the torn write is not seen");
            }
            if self.random.next_below(WHILE_STARTING) == 0 {
                let starting = spawn_server(&self.home);
                sleep(self.random.duration_below(START_MS)).await;
                starting.kill().await;
                self.tally.while_starting += 1;
                self.verify();
            }
        }
        let server = self.look_back().await;
        assert!(server.stop().await.success());
        self.verify();
        self.tally
    }

    /// Starts a server and looks up all acknowledged calls and those that were running.
    async fn look_back(&mut self) -> Server {
        let server = start_server(&self.home).await;
        self.tally.ready.push(server.ready);
        let owner = server.owner();
        let mut again = Vec::new();
        if self.seen_acks > 0 {
            again.extend((0..AGAIN).map(|_| self.random.index(self.seen_acks)));
        }
        for at in again.into_iter().chain(self.seen_acks..self.acks.len()) {
            self.tally.looked_up += 1;
            self.tally.missing.extend(acknowledged(&owner, &self.acks[at]).await.err());
        }
        self.seen_acks = self.acks.len();
        self.open_calls(&owner).await;
        server
    }

    /// Calls that were running are unknown, both in queries and in the verification of the record.
    async fn open_calls(&mut self, owner: &Client) {
        let newest = newest(owner, self.seen).await;
        for call in &newest.open {
            let state = owner.fetch_record(call).await;
            assert_eq!(state.body["status"], "unknown", "{:?}", state.body);
        }
        self.seen = newest.last;
        self.tally.unknown += newest.open.len();
        let disk: Arc<dyn Disk> = Arc::new(OsDisk);
        let report = ledger::verify_record(&self.home.records(), &disk, &[]).unwrap();
        let unknown = report.writers.iter().map(|writer| writer.unknown_calls).sum::<u64>();
        assert_eq!(u64::try_from(self.tally.unknown).unwrap(), unknown, "{report:?}");
    }

    /// Checks the record while no server has it. Whatever a crash leaves is cut off and no finding;
    /// answers how many such ends there are.
    fn verify(&mut self) -> usize {
        let mut torn = 0;
        let disk: Arc<dyn Disk> = Arc::new(OsDisk);
        let report = ledger::verify_record(&self.home.records(), &disk, &self.kept).unwrap();
        for finding in &report.findings {
            self.tally.findings.push(format!("{finding:?}"));
        }
        for writer in &report.writers {
            let cuts = writer.discarded.iter().filter(|cut| cut.reason == DiscardReason::TornWrite);
            let lost = cuts.clone().map(|cut| cut.records).sum::<u64>();
            assert_eq!(lost, 0, "whole records were cut off: {writer:?}");
            torn += cuts.count();
            self.kept.extend(writer.last_checkpoint.clone());
        }
        torn
    }
}
