//! Files while somebody else swaps what a path means.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rooted_fs::rooted_dir::{AccessMode, RootedDir, WriteMode};
use rustix::fs::{CWD, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

const OUTSIDE: &[u8] = b"OUTSIDE";
const INSIDE: &[u8] = b"inside!";

/// Pairs of paths, each exchanged for ever by a thread of its own.
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

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
    }
}

/// `root/d` and a link to `outside`; `root/e` and a link to a file there; `root/x/y` and a folder
/// outside from which the same steps up lead elsewhere.
fn stage(at: &Path) -> Vec<(PathBuf, PathBuf)> {
    let path = |name: &str| at.join(name);
    for folder in ["root/d", "root/x/y", "outside/y"] {
        fs::create_dir_all(path(folder)).unwrap();
    }
    for file in ["root/d/f", "root/e", "root/f"] {
        fs::write(path(file), INSIDE).unwrap();
    }
    for file in ["outside/f", "outside/only", "f"] {
        fs::write(path(file), OUTSIDE).unwrap();
    }
    symlink(path("outside"), path("root/l")).unwrap();
    symlink(path("outside/f"), path("root/s")).unwrap();
    [("root/d", "root/l"), ("root/e", "root/s"), ("root/x/y", "outside/y")]
        .map(|(a, b)| (path(a), path(b)))
        .to_vec()
}

/// The control escapes within some thousand rounds.
fn rounds() -> usize {
    if std::env::var_os("TOOLKEEP_DEEP").is_some() { 3_000_000 } else { 100_000 }
}

#[test]
fn nothing_outside_is_reached_while_paths_are_swapped() {
    let folder = tempfile::tempdir().unwrap();
    let pairs = stage(folder.path());
    let root = RootedDir::open_root(folder.path().join("root"), AccessMode::ReadWrite).unwrap();
    let links = RootedDir::open_root(folder.path().join("root"), AccessMode::ReadOnly)
        .unwrap()
        .follow_dir_symlinks();
    let swappers = Swappers::start(pairs);
    let (mut inside, mut refused, mut listed) = (0_usize, 0_usize, 0_usize);
    for round in 0..rounds() {
        let (root, path) = (
            if round % 2 == 0 { &root } else { &links },
            ["d/f", "e", "x/y/../../f", "l/f"][round / 2 % 4],
        );
        match root.read_file(path, 100) {
            Ok(content) => {
                assert_eq!(content, INSIDE, "{path}");
                inside += 1;
            }
            Err(_) => refused += 1,
        }
        if round % 16 == 0
            && let Ok(listing) = root.list_dir("d", 10)
        {
            assert!(listing.entries.iter().all(|entry| entry.name != "only"));
            listed += 1;
        }
        // A write waits for the disk, so there are fewer.
        if round % 512 == 0 {
            for path in ["d/w", "l/w", "e", "x/y/../../w"] {
                let _raced = root.write_file(path, INSIDE, WriteMode::Overwrite);
            }
        }
    }
    swappers.end();
    println!("{inside} read, {refused} refused, 0 from outside");
    assert!(inside > 0 && refused > 0 && listed > 0, "{inside} {refused} {listed}");
    let mut names: Vec<_> = fs::read_dir(folder.path().join("outside"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["f", "only", "y"]);
    assert_eq!(fs::read(folder.path().join("outside/f")).unwrap(), OUTSIDE);
    assert_eq!(fs::read(folder.path().join("f")).unwrap(), OUTSIDE);
    assert!(!folder.path().join("w").exists());
}

#[test]
fn a_step_up_is_taken_however_much_is_renamed_elsewhere() {
    let temporary = tempfile::tempdir().unwrap();
    let pairs = stage(temporary.path());
    let still = temporary.path().join("still");
    fs::create_dir_all(still.join("a/b")).unwrap();
    fs::write(still.join("f"), INSIDE).unwrap();
    let root = RootedDir::open_root(&still, AccessMode::ReadOnly).unwrap();
    let path = format!("{}f", "a/b/../../".repeat(100));
    let swappers = Swappers::start(pairs);
    // The control: one look-up of the kernel's own is refused.
    let folder = fs::File::open(&still).unwrap();
    let (flags, beneath) = (OFlags::RDONLY, ResolveFlags::BENEATH);
    let naive = || rustix::fs::openat2(&folder, path.as_str(), flags, Mode::empty(), beneath);
    let refused = (0..1_000_000).find_map(|_| naive().err());
    for _ in 0..1000 {
        assert_eq!(root.read_file(&path, 100).unwrap(), INSIDE);
    }
    swappers.end();
    assert_eq!(refused, Some(Errno::AGAIN));
}

#[test]
fn control_to_check_the_path_and_then_open_it_gets_outside() {
    let folder = tempfile::tempdir().unwrap();
    let pairs = stage(folder.path());
    let root = folder.path().join("root").canonicalize().unwrap();
    let swappers = Swappers::start(pairs);
    let naive = |path: &str| {
        let path = root.join(path);
        let real = path.canonicalize().ok().filter(|real| real.starts_with(&root))?;
        thread::yield_now();
        fs::read(real).ok()
    };
    let escaped = (0..1_000_000)
        .any(|round| naive(["d/f", "e"][round % 2]).is_some_and(|content| content == OUTSIDE));
    swappers.end();
    assert!(escaped, "the control must get outside, or the race above proves nothing");
}
