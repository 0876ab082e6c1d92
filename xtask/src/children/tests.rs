use std::process::Command;

use super::{MARKER, adopt_orphans, find, leftovers, parse_stat, quiet};

#[test]
fn names_with_parentheses_are_read() {
    let process = parse_stat(7, "7 (a) b (c) S 42 7 7 0").unwrap();
    assert_eq!((process.parent, process.state), (42, 'S'));
    assert!(parse_stat(7, "7 a S 42").is_none());
}

#[test]
fn both_streams_and_the_status_come_back() {
    let ended = quiet(Command::new("sh").args(["-c", "echo one; echo two >&2; exit 3"])).unwrap();
    assert_eq!(ended.status.code(), Some(3));
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("one\n", "two\n"));
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
        quiet(Command::new("sh").args(["-c", script]).env(MARKER, &id)).unwrap();
    }
    let found = leftovers(&id);
    let of = |word: &str| found.iter().find(|left| left.command == word);
    let (plain, hidden) = (of("sleep 300"), of("sleep 302"));
    assert!(plain.is_some() && hidden.is_some(), "{found:?}");
    let environ = |left: &super::Leftover| {
        super::Process { pid: left.pid, parent: 0, state: 'S' }.carries(&format!("{MARKER}={id}"))
    };
    assert!(!environ(hidden.unwrap()), "the marker was to be missing here");
    assert_eq!(leftovers(&id), [], "all were ended");
    assert!(find("no such run").is_empty());
}
