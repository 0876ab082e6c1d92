//! Tests that no descendant of a child survives.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use sandbox::process::{
    ChildExit, ChildProcess, CommandSpec, OutputTail, ProcessLauncher, SpawnError,
};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

use crate::marks::{carriers, kill, mark, runs, until, wait_until};

const BIN: &str = env!("CARGO_BIN_EXE_sandbox-launch");
/// Name, script, and number of its processes.
const TREES: [(&str, &str, usize); 6] = [
    ("plain", "exec sleep 600", 1),
    ("session", "setsid sleep 600 & exec sleep 600", 2),
    ("double", "(setsid sh -c '(sleep 600 &)' &) ; exec sleep 600", 2),
    ("deaf", "trap '' TERM; setsid sleep 600 & sleep 600; sleep 600", 3),
    ("quiet", "setsid sleep 600 </dev/null >/dev/null 2>&1 & exec sleep 600 <&- >&- 2>&-", 2),
    (
        "storm",
        "i=0; while [ $i -lt 50 ]; do i=$((i+1)); setsid sh -c 'trap \"\" TERM; sleep 600 & sleep 600' & done; wait",
        151,
    ),
];

fn launcher() -> ProcessLauncher {
    ProcessLauncher::new(PathBuf::from(BIN), vec![OsString::from("__launch")])
}

fn shell(script: &str, mark: &str) -> CommandSpec {
    CommandSpec {
        command: "sh".to_owned(),
        args: vec!["-c".to_owned(), script.to_owned()],
        env: vec![("TK_MARK".to_owned(), mark.into())],
        ..CommandSpec::default()
    }
}

async fn grown(name: &str, script: &str, count: usize) -> (ChildProcess, String) {
    let mark = mark(name);
    let child = launcher().spawn_child(&shell(script, &mark)).unwrap();
    until(&mark, |found| found >= count).await;
    (child, mark)
}

async fn output(spec: &CommandSpec) -> (String, ChildExit) {
    let mut child = launcher().spawn_child(spec).unwrap();
    let mut text = String::new();
    child.take_stdout().unwrap().read_to_string(&mut text).await.unwrap();
    (text, child.wait_ended().await)
}

#[tokio::test]
async fn a_killed_tree_is_gone_when_kill_resolves() {
    for (name, script, count) in TREES {
        let (child, mark) = grown(name, script, count).await;
        let supervisor = child.supervisor_pid().unwrap();
        child.shut_down(Duration::from_millis(50)).await;
        assert_eq!(carriers(&mark), [0; 0], "{name}");
        assert!(!runs(supervisor), "{name}");
    }
}

#[tokio::test]
async fn a_dropped_tree_goes_by_itself() {
    for (name, script, count) in TREES {
        let (child, mark) = grown(name, script, count).await;
        let supervisor = child.supervisor_pid().unwrap();
        drop(child);
        until(&mark, |found| found == 0).await;
        wait_until("supervisor gone", || !runs(supervisor)).await;
    }
}

#[tokio::test]
async fn a_tree_goes_with_a_toolkeep_that_was_killed() {
    for (name, script, count) in TREES {
        let mark = mark(name);
        let script = format!("export TK_MARK='{mark}'; {script}");
        #[expect(clippy::disallowed_methods, reason = "the test must be the parent")]
        let mut holder = std::process::Command::new(BIN);
        let mut holder =
            holder.args(["hold", "sh", "-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
        // The holder has the marker in its arguments; `exec sleep` has it in the environment only.
        until(&mark, |found| found > count).await;
        holder.kill().unwrap();
        holder.wait().unwrap();
        until(&mark, |found| found == 0).await;
    }
}

#[tokio::test]
async fn the_command_dies_with_a_supervisor_that_was_killed() {
    let (mut child, mark) = grown("lost", "sleep 600 & sleep 600", 3).await;
    child.wait_started().await.unwrap();
    kill(child.supervisor_pid().unwrap().cast_signed());
    assert_eq!(child.wait_ended().await, ChildExit::SupervisorLost);
    until(&mark, |found| found == 0).await;
}

#[tokio::test]
async fn a_supervisor_that_is_asked_to_end_takes_the_tree_along() {
    let (mut child, mark) = grown("asked", "setsid sleep 600 & sleep 600", 3).await;
    let supervisor =
        rustix::process::Pid::from_raw(child.supervisor_pid().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(supervisor, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait_ended().await, ChildExit::Signal(15));
    assert_eq!(carriers(&mark), [0; 0]);
}

#[tokio::test]
async fn a_relay_of_short_lived_sessions_is_caught() {
    let relay = "setsid sh -c \"$RELAY\" & exit 0";
    let mark = mark("relay");
    let mut spec = shell("sh -c \"$RELAY\"; sleep 600", &mark);
    spec.env.push(("RELAY".to_owned(), relay.into()));
    let mut child = launcher().spawn_child(&spec).unwrap();
    child.wait_started().await.unwrap();
    until(&mark, |found| found >= 2).await;
    child.shut_down(Duration::from_millis(10)).await;
    assert_eq!(carriers(&mark), [0; 0]);
}

#[tokio::test]
async fn what_the_command_leaves_behind_goes_when_it_ends_and_its_code_is_told() {
    let mark = mark("leftover");
    let mut child =
        launcher().spawn_child(&shell("setsid sleep 600 & (sleep 600 &); exit 7", &mark)).unwrap();
    assert_eq!(child.wait_ended().await, ChildExit::Code(7));
    assert_eq!(child.wait_ended().await, ChildExit::Code(7), "asked again");
    assert_eq!(carriers(&mark), [0; 0]);
}

#[tokio::test]
async fn a_child_that_listens_has_its_grace() {
    let mark = mark("grace");
    let script = "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.01; done";
    let mut child = launcher().spawn_child(&shell(script, &mark)).unwrap();
    let mut lines = BufReader::new(child.take_stdout().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "ready");
    child.shut_down(Duration::from_mins(1)).await;
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "bye");
    assert_eq!(lines.next_line().await.unwrap(), None);
}

#[tokio::test]
async fn many_starts_and_stops_leave_nothing() {
    let mark = mark("many");
    let rounds = if std::env::var_os("TOOLKEEP_DEEP").is_some() { 1000 } else { 100 };
    let mut supervisors = Vec::new();
    for round in 0..rounds {
        let (_, script, _) = TREES[round % 5];
        let mut child = launcher().spawn_child(&shell(script, &mark)).unwrap();
        supervisors.extend(child.supervisor_pid());
        // Covers every phase of a start: before the request is read, during the fork, and after it.
        match round % 4 {
            0 => drop(child),
            1 => child.shut_down(Duration::ZERO).await,
            2 => {
                child.wait_started().await.unwrap();
                drop(child);
            }
            _ => {
                child.wait_started().await.unwrap();
                tokio::time::sleep(Duration::from_millis(round as u64 % 7)).await;
                child.shut_down(Duration::from_millis(5)).await;
            }
        }
    }
    until(&mark, |found| found == 0).await;
    // Also reaped, including those whose child was dropped.
    let listed = |pid: &u32| std::path::Path::new(&format!("/proc/{pid}")).exists();
    wait_until("supervisors gone", || !supervisors.iter().any(listed)).await;
}

#[tokio::test]
async fn control_kill_on_drop_alone_leaves_a_session_behind() {
    let mark = mark("control");
    #[expect(clippy::disallowed_methods, reason = "the naive way, for comparison")]
    let mut naive = std::process::Command::new("sh");
    naive.args(["-c", "setsid sleep 600 & exec sleep 600"]).env("TK_MARK", &mark);
    let child = tokio::process::Command::from(naive).kill_on_drop(true).spawn().unwrap();
    until(&mark, |found| found == 2).await;
    drop(child);
    until(&mark, |found| found == 1).await;
    let left = carriers(&mark);
    for &pid in &left {
        kill(pid);
    }
    assert_eq!(left.len(), 1);
}

#[tokio::test]
async fn streams_pass_through_and_no_sibling_holds_them_open() {
    let mut first = launcher()
        .spawn_child(&CommandSpec { command: "cat".to_owned(), ..CommandSpec::default() })
        .unwrap();
    let second = launcher().spawn_child(&shell("exec sleep 600", "sibling")).unwrap();
    let mut stdin = first.take_stdin().unwrap();
    stdin.write_all(b"hello").await.unwrap();
    drop(stdin);
    let mut text = String::new();
    first.take_stdout().unwrap().read_to_string(&mut text).await.unwrap();
    assert_eq!((text.as_str(), first.wait_ended().await), ("hello", ChildExit::Code(0)));
    assert!(first.take_stdin().is_none() && first.take_stdout().is_none());
    second.shut_down(Duration::ZERO).await;
}

#[tokio::test]
async fn the_end_of_standard_output_is_seen_while_the_child_goes_on() {
    let mut child =
        launcher().spawn_child(&shell("echo on >&2; exec >&-; exec sleep 600", "eof")).unwrap();
    let mut text = String::new();
    child.take_stdout().unwrap().read_to_string(&mut text).await.unwrap();
    let tail = OutputTail::default();
    let draining = tail.clone().drain_stream(child.take_stderr().unwrap());
    child.shut_down(Duration::ZERO).await;
    assert_eq!((draining.await, tail.to_lossy_string().as_str()), (3, "on\n"));
}

#[tokio::test]
async fn a_child_gets_three_descriptors_and_the_listed_environment() {
    let open = std::fs::File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&open, rustix::io::FdFlags::empty()).unwrap();
    let (text, exit) = output(&shell("echo /proc/$$/fd/*; env", "fds")).await;
    assert_eq!(exit, ChildExit::Code(0));
    let (fds, env) = text.split_once('\n').unwrap();
    let fds: Vec<_> = fds.split(' ').filter_map(|path| path.rsplit('/').next()).collect();
    // dash opens the listed folder and closes it before it prints, but its number is in the list.
    assert!(fds.len() <= 4 && fds[..3] == ["0", "1", "2"], "{fds:?}");
    let names: Vec<_> = env.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    assert!(names.contains(&"TK_MARK") && names.contains(&"PATH"), "{names:?}");
    let own = ["TK_MARK", "PWD", "OLDPWD", "_", "SHLVL"];
    let known = |name: &&str| own.contains(name) || sandbox::process::INHERITED_ENV.contains(name);
    assert!(names.iter().all(known), "{names:?}");
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let none = CommandSpec { command: "toolkeep-no-such".to_owned(), ..CommandSpec::default() };
    let nowhere = CommandSpec { cwd: Some(PathBuf::from("/no/such")), ..shell("true", "cwd") };
    let unfit = CommandSpec { command: "/etc/passwd".to_owned(), ..CommandSpec::default() };
    for (spec, words) in [(none, "in its `PATH`"), (nowhere, "`/no/such`"), (unfit, "executable")] {
        let mut child = launcher().spawn_child(&spec).unwrap();
        let error = child.wait_started().await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(matches!(&error, SpawnError::CommandFailed { what, .. } if
            child.wait_ended().await == ChildExit::NotStarted(what.clone())));
    }
    let broken = ProcessLauncher::new(PathBuf::from("/no/such/supervisor"), Vec::new());
    assert!(matches!(
        broken.spawn_child(&shell("true", "x")),
        Err(SpawnError::SupervisorFailed(_))
    ));
}

#[tokio::test]
async fn the_folder_and_the_path_of_the_child_are_the_given_ones() {
    let folder = tempfile::tempdir().unwrap();
    let spec = CommandSpec { cwd: Some(folder.path().to_owned()), ..shell("pwd -P", "cwd") };
    assert_eq!(
        output(&spec).await.0.trim_end(),
        folder.path().canonicalize().unwrap().to_str().unwrap()
    );
    let mut elsewhere = shell("true", "path");
    elsewhere.env.push(("PATH".to_owned(), folder.path().to_str().unwrap().into()));
    assert!(matches!(output(&elsewhere).await.1, ChildExit::NotStarted(_)));
}
