//! Race tests of the file tools: another thread swaps their paths during the calls.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rustix::fs::{CWD, RenameFlags};
use serde_json::{Value, json};

use crate::stage::Stage;

/// Exchanges pairs of paths until it is dropped.
struct Swappers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Swappers {
    fn start(pairs: Vec<(PathBuf, PathBuf)>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let run = |(a, b): (PathBuf, PathBuf)| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    rustix::fs::renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).unwrap();
                }
            })
        };
        let threads = pairs.into_iter().map(run).collect();
        Self { stop, threads }
    }
}

impl Drop for Swappers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

/// Creates `work/d` with a link to `outside`, and `work/e` with a link to a file there. Also
/// creates a repository with a link to one outside, on another branch.
fn scene(work: &Path, outside: &Path) -> Vec<(PathBuf, PathBuf)> {
    fs::create_dir_all(work.join("d")).unwrap();
    fs::create_dir_all(outside).unwrap();
    for (folder, words) in [(work, "inside!"), (outside, "OUTSIDE")] {
        fs::write(folder.join("f"), words).unwrap();
        let repo = folder.join("repo/.git");
        for part in ["objects", "refs/heads"] {
            fs::create_dir_all(repo.join(part)).unwrap();
        }
        fs::write(repo.join("HEAD"), format!("ref: refs/heads/{words:.6}\n")).unwrap();
        fs::write(repo.join("config"), "[core]\n\trepositoryformatversion = 0\n").unwrap();
    }
    for file in ["d/f", "e"] {
        fs::write(work.join(file), "inside!").unwrap();
    }
    fs::write(outside.join("only"), "OUTSIDE").unwrap();
    symlink(outside, work.join("l")).unwrap();
    symlink(outside.join("f"), work.join("s")).unwrap();
    symlink(outside.join("repo"), work.join("other")).unwrap();
    [("d", "l"), ("e", "s"), ("repo", "other")].map(|(a, b)| (work.join(a), work.join(b))).to_vec()
}

/// The control escapes within some thousand rounds.
fn rounds() -> usize {
    if std::env::var_os("TOOLKEEP_DEEP").is_some() { 3_000_000 } else { 30_000 }
}

fn call(round: usize) -> (&'static str, Value) {
    let path = ["d/f", "e", "l/f", "s"][round % 4];
    let written = ["d/w", "l/w"][round / 512 % 2];
    match round % 512 {
        // A write waits for the disk, so there are fewer.
        0 => ("write_file", json!({ "path": written, "content": "inside!" })),
        // Each starts a worker, so there are even fewer.
        7 if round % 4_096 == 7 => ("git_status", json!({ "repo_path": "repo" })),
        it if it % 16 == 3 => ("list_directory", json!({ "path": "d" })),
        _ => ("read_file", json!({ "path": path })),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_tool_gets_outside_while_paths_are_swapped() {
    let stage = Stage::with(Some(crate::git_status::launcher()), None).await;
    let (work, outside) = (stage.work(), stage.home.path().join("outside"));
    let swappers = Swappers::start(scene(&work, &outside));
    let (mut inside, mut refused) = (0, 0);
    for round in 0..rounds() {
        let (tool, args) = call(round);
        match stage.call(tool, &args).await {
            Ok(told) => {
                let told = told.to_string();
                let out = told.contains("OUTSID") || told.contains("\"only\"");
                assert!(!out, "{tool} {args}: {told}");
                inside += 1;
            }
            Err(_) => refused += 1,
        }
    }
    drop(swappers);
    println!("{} calls: {inside} answered, {refused} refused, 0 from outside", rounds());
    assert!(inside > 0 && refused > 0, "{inside} {refused}");
    let names = fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, ["f", "only", "repo"]);
    assert_eq!(fs::read(outside.join("f")).unwrap(), b"OUTSIDE");
}

/// Control: checking a path before opening it escapes.
#[test]
fn the_naive_way_gets_outside() {
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("work");
    let swappers = Swappers::start(scene(&work, &folder.path().join("outside")));
    let root = work.canonicalize().unwrap();
    let naive = |path: &str| {
        let path = root.join(path);
        let real = path.canonicalize().ok().filter(|real| real.starts_with(&root))?;
        thread::yield_now();
        fs::read(real).ok()
    };
    let escaped = (0..1_000_000)
        .any(|round| naive(["d/f", "e"][round % 2]).is_some_and(|it| it == b"OUTSIDE"));
    drop(swappers);
    assert!(escaped, "the control must get outside, or the race proves nothing");
}
