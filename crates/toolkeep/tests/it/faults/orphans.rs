//! Children that fork away and do not listen: after each end of the server, however it ended, nobody
//! is left.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::support::child;
use crate::support::home::Home;
use crate::support::marks::{Known, MARK, carriers, children, eventually, mark, running};
use crate::support::random::Random;
use crate::support::server::{Server, start};
use crate::support::tries;

/// Two children, with one each that forked away.
const FAMILY: usize = 4;
/// How long a tree may take to go. Its supervisor gives it half a second; machines are shared.
const GONE: Duration = Duration::from_secs(20);
/// Installations at once.
const LANES: usize = 4;

#[derive(Debug, Default)]
struct Numbers {
    asked: usize,
    killed: usize,
    /// Killed before it is known how far its children came.
    killed_early: usize,
    /// Nobody was left when a server that was asked to end had ended.
    at_once: usize,
    left: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_hundred_starts_and_stops_nobody_is_left() {
    let (seed, starts) = (Random::seed(), tries(100, 1_000));
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let random = Random::new(seed.wrapping_add(u64::try_from(lane).unwrap()));
        lanes.spawn(start_and_stop(starts / LANES, random));
    }
    let mut all = Numbers::default();
    for numbers in lanes.join_all().await {
        all.asked += numbers.asked;
        all.killed += numbers.killed;
        all.killed_early += numbers.killed_early;
        all.at_once += numbers.at_once;
        all.left += numbers.left;
    }
    println!("starts and stops: seed {seed}: {starts} starts: {all:?}");
    assert_eq!((all.asked + all.killed + all.killed_early, all.left), (starts, 0));
    // Who asks a server to end waits for its children with it.
    assert_eq!(all.at_once, all.asked);
}

async fn start_and_stop(times: usize, mut random: Random) -> Numbers {
    let mark = mark();
    let sources = [child::source("a", "family", &mark), child::source("b", "family", &mark)];
    let home = Home::new(&format!("version: 1\nsources:\n{}", sources.concat()));
    let mut numbers = Numbers::default();
    for nth in 0..times {
        let starting = start(&home);
        let known = match nth % 4 {
            1 => {
                let (server, known) = with_family(starting.ready().await, &mark).await;
                server.kill().await;
                numbers.killed += 1;
                known
            }
            3 => {
                sleep(random.within_ms(500)).await;
                let known = children(starting.pid());
                starting.kill().await;
                numbers.killed_early += 1;
                known
            }
            _ => {
                let (server, known) = with_family(starting.ready().await, &mark).await;
                assert!(server.stop().await.success());
                numbers.asked += 1;
                numbers.at_once += usize::from(carriers(&mark).is_empty() && running(&known) == 0);
                known
            }
        };
        if !eventually(GONE, || carriers(&mark).is_empty() && running(&known) == 0).await {
            numbers.left += carriers(&mark).len() + running(&known);
        }
    }
    numbers
}

/// Waits until both children and those that forked away are there; knows their supervisors then.
async fn with_family(server: Server, mark: &str) -> (Server, BTreeSet<Known>) {
    let server = server.settled().await;
    let there = eventually(GONE, || carriers(mark).len() == FAMILY).await;
    assert!(there, "the family never came: {}", server.said());
    let known = children(server.pid);
    assert_eq!(known.len(), 2, "one supervisor for each child");
    (server, known)
}

/// Positive control: the same child started and killed the plain way leaves the one that forked away.
#[tokio::test]
async fn killing_the_child_alone_would_leave_the_one_that_forked_away() {
    let mark = mark();
    let mut command = Command::new(child::program());
    command.arg("family").env(MARK, &mark).kill_on_drop(true);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let alone = || carriers(&mark).len() == FAMILY / 2 && carriers(&mark).into_iter().any(is_leaf);
    assert!(eventually(GONE, alone).await);
    child.kill().await.unwrap();
    let left = carriers(&mark);
    for pid in &left {
        let pid = Pid::from_raw(pid.cast_signed()).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    }
    assert_eq!(left.len(), 1);
}

fn is_leaf(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.ends_with(b"leaf\0"))
}
