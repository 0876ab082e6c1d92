use std::process::Command;

use super::{RUN_VARIABLE, adopt_orphans, end_leftovers, find_leftovers, parse_stat, run_quiet};

#[test]
fn names_with_parentheses_are_read() {
    let process = parse_stat(7, "7 (a) b (c) S 42 7 7 0").unwrap();
    assert_eq!((process.parent_pid, process.state), (42, 'S'));
    assert!(parse_stat(7, "7 a S 42").is_none());
}

#[test]
fn both_streams_and_the_status_come_back() {
    let ended =
        run_quiet(Command::new("sh").args(["-c", "echo one; echo two >&2; exit 3"])).unwrap();
    assert_eq!(ended.status.code(), Some(3));
    assert_eq!((ended.stdout_text.as_str(), ended.stderr_text.as_str()), ("one\n", "two\n"));
}

/// A child that clears its environment, leaves its session and forks again, and the one that does
/// not: both are found and ended. The marker alone would miss the first.
#[test]
fn nothing_hides_from_the_search() {
    adopt_orphans().unwrap();
    let id = format!("hiding-{}", std::process::id());
    for script in
        ["sleep 300 >&- 2>&- &", "setsid env -i /bin/sh -c 'sleep 301 & sleep 302' >&- 2>&- &"]
    {
        run_quiet(Command::new("sh").args(["-c", script]).env(RUN_VARIABLE, &id)).unwrap();
    }
    let found = end_leftovers(&id);
    let of = |word: &str| found.iter().find(|left| left.command_line == word);
    let (plain, hidden) = (of("sleep 300"), of("sleep 302"));
    assert!(plain.is_some() && hidden.is_some(), "{found:?}");
    let environ = |left: &super::LeftoverProcess| {
        super::ProcessEntry { pid: left.pid, parent_pid: 0, state: 'S' }
            .has_variable(&format!("{RUN_VARIABLE}={id}"))
    };
    assert!(!environ(hidden.unwrap()), "the marker was to be missing here");
    assert_eq!(end_leftovers(&id), [], "all were ended");
    assert!(find_leftovers("no such run").is_empty());
}
