//! Tests that no forked or deaf child process survives the end of the server.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::support::installation::Installation;
use crate::support::mcp_source;
use crate::support::process_marks::{
    MARK_VARIABLE, ProcessIdentity, children, count_running, marked_processes, new_mark, wait_until,
};
use crate::support::run_count;
use crate::support::seeded_random::Random;
use crate::support::server_process::{Server, spawn_server};

/// Two children, with one each that forked away.
const FAMILY: usize = 4;
/// Time limit for the end of a process tree. Its supervisor allows half a second; machines are
/// shared.
const GONE: Duration = Duration::from_secs(20);
/// Installations at once.
const LANES: usize = 4;

#[derive(Debug, Default)]
struct OrphanFigures {
    asked: usize,
    killed: usize,
    /// Killed before it is known how far its children came.
    killed_early: usize,
    /// No process remained when a terminated server had ended.
    at_once: usize,
    left: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_many_starts_and_stops_nobody_is_left() {
    let (seed, starts) = (Random::seed(), run_count(40, 1_000));
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let random = Random::new(seed.wrapping_add(u64::try_from(lane).unwrap()));
        lanes.spawn(start_and_stop(starts / LANES, random));
    }
    let mut all = OrphanFigures::default();
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

async fn start_and_stop(times: usize, mut random: Random) -> OrphanFigures {
    let mark = new_mark();
    let sources =
        [mcp_source::source("a", "family", &mark), mcp_source::source("b", "family", &mark)];
    let home = Installation::new(&format!("version: 1\nsources:\n{}", sources.concat()));
    let mut numbers = OrphanFigures::default();
    for nth in 0..times {
        let starting = spawn_server(&home);
        let known = match nth % 4 {
            1 => {
                let (server, known) = with_family(starting.wait_until_ready().await, &mark).await;
                server.kill().await;
                numbers.killed += 1;
                known
            }
            3 => {
                sleep(random.duration_below(500)).await;
                let known = children(starting.pid());
                starting.kill().await;
                numbers.killed_early += 1;
                known
            }
            _ => {
                let (server, known) = with_family(starting.wait_until_ready().await, &mark).await;
                assert!(server.stop().await.success());
                numbers.asked += 1;
                numbers.at_once +=
                    usize::from(marked_processes(&mark).is_empty() && count_running(&known) == 0);
                known
            }
        };
        if !wait_until(GONE, || marked_processes(&mark).is_empty() && count_running(&known) == 0)
            .await
        {
            numbers.left += marked_processes(&mark).len() + count_running(&known);
        }
    }
    numbers
}

/// Waits until both children and those that forked away are there; knows their supervisors then.
async fn with_family(server: Server, mark: &str) -> (Server, BTreeSet<ProcessIdentity>) {
    let server = server.wait_for_sources().await;
    let there = wait_until(GONE, || marked_processes(mark).len() == FAMILY).await;
    assert!(there, "the family never came: {}", server.log_text());
    let known = children(server.pid);
    assert_eq!(known.len(), 2, "one supervisor for each child");
    (server, known)
}

/// Positive control: the same child started and killed the plain way leaves the one that forked away.
#[tokio::test]
async fn killing_the_child_alone_would_leave_the_one_that_forked_away() {
    let mark = new_mark();
    let mut command = Command::new(mcp_source::program());
    command.arg("family").env(MARK_VARIABLE, &mark).kill_on_drop(true);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let alone = || {
        marked_processes(&mark).len() == FAMILY / 2
            && marked_processes(&mark).into_iter().any(is_leaf)
    };
    assert!(wait_until(GONE, alone).await);
    child.kill().await.unwrap();
    let left = marked_processes(&mark);
    for pid in &left {
        let pid = Pid::from_raw(pid.cast_signed()).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    }
    assert_eq!(left.len(), 1);
}

fn is_leaf(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.ends_with(b"leaf\0"))
}
