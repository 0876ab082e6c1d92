//! No process of a sandbox outlives its call: not by a new session, a double fork or ignored
//! signals.

use std::time::{Duration, Instant};

use sandbox::SandboxLevel;

use super::{launcher, sandbox_spec, shell, work};
use crate::marks::{carriers, mark};

const TREES: [&str; 4] = [
    "setsid sleep 600 & exec sleep 600",
    "(setsid sh -c '(sleep 600 &)' &) ; exec sleep 600",
    "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 600 & sleep 600' & sleep 600; sleep 600",
    "i=0; while :; do setsid sh -c '(sleep 600 &) &' ; i=$((i+1)); done",
];

/// Pseudo-random sequence seeded by the process id, so that a run can be reproduced.
fn spread(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

#[tokio::test]
async fn nothing_is_left_of_what_is_cancelled_at_any_moment() {
    let deep = std::env::var_os("TOOLKEEP_DEEP").is_some();
    let rounds: u64 = if deep { 1_000 } else { 200 };
    let mut seed = 0x9e37_79b9_7f4a_7c15 ^ u64::from(std::process::id());
    let mark = mark("cancel");
    let mut seen = 0;
    for round in 0..rounds {
        let folder = work();
        let tier = if round % 4 == 3 { SandboxLevel::NoNamespaces } else { SandboxLevel::Full };
        let tree = TREES[usize::try_from(spread(&mut seed) % 4).unwrap()];
        let mut spec = shell(sandbox_spec(tier, &folder), tree);
        spec.env.push(("TK_MARK".to_owned(), mark.as_str().into()));
        let child = launcher().spawn_child(&spec).unwrap();
        tokio::time::sleep(Duration::from_micros(spread(&mut seed) % 40_000)).await;
        seen += carriers(&mark).len();
        // Half of them are shut down, half only dropped, as when a caller disconnects.
        if spread(&mut seed).is_multiple_of(2) {
            child.shut_down(Duration::from_millis(20)).await;
        } else {
            drop(child);
        }
    }
    assert!(seen > 100, "the trees did not grow: {seen}");
    let began = Instant::now();
    while !carriers(&mark).is_empty() {
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", carriers(&mark));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Control: killing the started process and its group leaves the others.
#[test]
fn killing_the_group_alone_leaves_a_session() {
    let mark = mark("left");
    let mut child = std::process::Command::new("setsid")
        .args(["sh", "-c", TREES[0]])
        .env("TK_MARK", &mark)
        .spawn()
        .unwrap();
    let began = Instant::now();
    let group = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    let left_it = |pid: &i32| {
        let of = rustix::process::getpgid(rustix::process::Pid::from_raw(*pid));
        // The first process is in the test's own group until it has created one.
        *pid != group.as_raw_nonzero().get() && of.is_ok_and(|of| of != group)
    };
    while !carriers(&mark).iter().any(left_it) && began.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(5));
    }
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    child.wait().unwrap();
    let left = carriers(&mark);
    assert!(!left.is_empty());
    for pid in left {
        crate::marks::kill(pid);
    }
}
