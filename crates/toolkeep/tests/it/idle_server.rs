//! Tests of an idle server's processes and memory, and of the first caller's record.

use std::fs;

use crate::command_runner::{CommandHome, wait_until};

/// The processes that a process has started and that are there.
fn children(pid: u32) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let of = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children"));
    let all: Vec<_> = threads.filter_map(|thread| of(thread).ok()).collect();
    all.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect()
}

/// Files in its memory that are neither the program nor the system's libraries.
fn mapped(pid: u32) -> Vec<String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let mut files: Vec<_> = maps.lines().filter_map(|line| line.get(line.find('/')?..)).collect();
    files.sort_unstable();
    files.dedup();
    let usual = |file: &str| {
        file == env!("CARGO_BIN_EXE_toolkeep") || (file.contains(".so") && file.contains("/lib"))
    };
    files.into_iter().filter(|file| !usual(file)).map(str::to_owned).collect()
}

/// KiB of its own, without what is the program's file.
fn own(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn nothing_heavy_is_there_before_the_first_use() {
    let home = CommandHome::new();
    let serving = home.serve(&[]);
    let pid = serving.pid();
    for tool in ["python_eval", "symbolic_solve", "sql_query", "run_shell"] {
        wait_until("the built-in tools", || home.run(&["tool", "show", tool]).code == 0);
    }
    // The trial of the cage is over, and no worker was started.
    wait_until("no process beside it", || children(pid).is_empty());
    let (files, held) = (mapped(pid), own(pid));
    // The index of the store's log.
    let light = |file: &String| file.ends_with("/store.db-shm");
    assert!(files.iter().all(light), "{files:?}");
    assert!(held < 40 << 10, "{held} KiB");
    // The control: with the first call a worker comes, and is kept.
    let called = home.run(&["tool", "call", "python_eval", "expression=6*7"]);
    assert_eq!(called.out.trim(), "42", "{}", called.err);
    assert_eq!(children(pid).len(), 1);
    assert_eq!(serving.end(), 0);
}

#[test]
fn the_record_says_what_a_call_took_in_its_cage() {
    let home = CommandHome::new();
    let busy = "expression=sum([n * n % 7 for n in range(200000)])";
    assert_eq!(home.run(&["tool", "call", "python_eval", busy]).code, 0);
    assert_eq!(home.run(&["tool", "call", "calculator", "expression=6*7"]).code, 0);
    let listed = home.run(&["record", "list", "-o", "json"]).json();
    let ends: Vec<_> =
        listed["records"].as_array().unwrap().iter().filter(|it| it["kind"] == "outcome").collect();
    // Newest first: processes outside of a sandbox provide no information about one.
    assert!(ends[0]["body"].get("cage").is_none(), "{listed}");
    let cage = &ends[1]["body"]["cage"];
    assert!(["whole", "fenced"].contains(&cage["tier"].as_str().unwrap()), "{cage}");
    assert!(cage["cpu_ms"].as_u64().unwrap() > 0, "{cage}");
    assert!((1_000..4 << 20).contains(&cage["peak_kib"].as_u64().unwrap()), "{cage}");
    let call = ends[1]["call"].as_str().unwrap();
    let shown = home.run(&["record", "show", call]);
    for fact in ["cage.tier", "cage.cpu_ms", "cage.peak_kib"] {
        assert!(shown.out.contains(fact), "{}", shown.out);
    }
}
