//! The life of one data directory: servers in it, one after the other, each killed.

use std::sync::Arc;

use ledger::{Checkpoint, CutWhy, Disk, RealDisk};
use tokio::time::sleep;

use super::check::{acknowledged, newest};
use super::load::{Ack, Load};
use super::tally::Tally;
use super::{LOAD, tear};
use crate::support::client::Client;
use crate::support::home::Home;
use crate::support::random::Random;
use crate::support::server::{Server, serve, start};

/// Acknowledged calls of earlier lives that are looked up again after each restart.
const AGAIN: usize = 10;
/// One in so many kills is followed by a kill of the next server while it starts.
const WHILE_STARTING: u64 = 8;
/// One in so many kills leaves a torn write.
const TORN: u64 = 4;
/// Longer than a start takes.
pub(crate) const START_MS: u64 = 250;

pub(crate) struct History {
    home: Home,
    random: Random,
    tally: Tally,
    acks: Vec<Ack>,
    /// So many of them were looked up since they were acknowledged.
    seen_acks: usize,
    /// Records up to this number were gone through.
    seen: u64,
    /// Checkpoints as a careful operator keeps them elsewhere.
    kept: Vec<Checkpoint>,
}

impl History {
    pub(crate) fn begin(random: Random) -> Self {
        Self {
            home: Home::with_tools(),
            random,
            tally: Tally::default(),
            acks: Vec::new(),
            seen_acks: 0,
            seen: 0,
            kept: Vec::new(),
        }
    }

    /// Lives through so many kills, and one orderly end.
    pub(crate) async fn live(mut self, kills: usize) -> Tally {
        for _ in 0..kills {
            let server = self.look_back().await;
            let load = Load::on(&server.agent(), &mut self.random);
            sleep(self.random.within_ms(u64::try_from(LOAD.as_millis()).unwrap())).await;
            server.kill().await;
            self.tally.points += 1;
            let acks = load.acknowledged().await;
            self.tally.acknowledged += acks.len();
            self.tally.with_effects += acks.iter().filter(|ack| ack.work.has_effects()).count();
            self.acks.extend(acks);
            self.verify();
            if self.random.below(TORN) == 0
                && tear::torn_write(&self.home.records(), &mut self.random)
            {
                self.tally.torn += 1;
                assert!(self.verify() > 0, "the torn write is not seen");
            }
            if self.random.below(WHILE_STARTING) == 0 {
                let starting = start(&self.home);
                sleep(self.random.within_ms(START_MS)).await;
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

    /// Starts a server and looks for everything that was acknowledged, and for what was under way.
    async fn look_back(&mut self) -> Server {
        let server = serve(&self.home).await;
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

    /// What was under way is unknown: to who asks for the call, and to who checks the record.
    async fn open_calls(&mut self, owner: &Client) {
        let newest = newest(owner, self.seen).await;
        for call in &newest.open {
            let state = owner.record(call).await;
            assert_eq!(state.body["status"], "unknown", "{:?}", state.body);
        }
        self.seen = newest.last;
        self.tally.unknown += newest.open.len();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let report = ledger::verify(&self.home.records(), &disk, &[]).unwrap();
        let unknown = report.writers.iter().map(|writer| writer.unknown).sum::<u64>();
        assert_eq!(u64::try_from(self.tally.unknown).unwrap(), unknown, "{report:?}");
    }

    /// Checks the record while no server has it. Whatever a crash leaves is cut off and no finding;
    /// answers how many such ends there are.
    fn verify(&mut self) -> usize {
        let mut torn = 0;
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let report = ledger::verify(&self.home.records(), &disk, &self.kept).unwrap();
        for finding in &report.findings {
            self.tally.findings.push(format!("{finding:?}"));
        }
        for writer in &report.writers {
            let cuts = writer.cuts.iter().filter(|cut| cut.why == CutWhy::Torn);
            let lost = cuts.clone().map(|cut| cut.records).sum::<u64>();
            assert_eq!(lost, 0, "whole records were cut off: {writer:?}");
            torn += cuts.count();
            self.kept.extend(writer.checkpoint.clone());
        }
        torn
    }
}
