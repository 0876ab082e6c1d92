//! Paths that try to get out.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rooted_fs::rooted_dir::{AccessMode, FileAccessError, RootedDir, WriteMode};
use rustix::fs::{CWD, FileType, Mode};
use testkit::shared_data::read_rows_as;

/// One row: what it has depends on its family.
type Row = BTreeMap<String, Value>;

fn text<'a>(row: &'a Row, field: &str) -> &'a str {
    row.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// What lies in every folder above the root: the usual targets.
const BAITS: [&str; 5] = ["etc/passwd", "WINDOWS/win.ini", "boot.ini", "winnt/win.ini", ONLY];
/// A name that no row has, so that it is seen where a folder outside is listed.
const ONLY: &str = "only-outside-73";

/// Everything below `at`, but not below `without`.
fn tree(at: &Path, without: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path()) {
        if entry == without {
            continue;
        }
        if entry.is_dir() {
            found.insert(entry.clone(), Vec::new());
            tree(&entry, without, found);
        } else {
            found.insert(entry.clone(), fs::read(&entry).unwrap());
        }
    }
}

/// What joining the path reads: of regular files only, as some rows name endless devices.
fn naively(path: &Path) -> Option<Vec<u8>> {
    let size = fs::metadata(path).ok().filter(fs::Metadata::is_file)?.len();
    let mut content = Vec::new();
    if size < 1 << 20 {
        fs::File::open(path).ok()?.take(1 << 20).read_to_end(&mut content).ok()?;
    }
    Some(content)
}

/// All that can be done with one path; answers how much that is.
fn attack(root: &RootedDir, path: &str) -> usize {
    if let Ok(content) = root.read_file(path, 1 << 20) {
        assert!(content == b"inside" || content == b"written", "{path:?}");
    }
    drop(root.read_metadata(path));
    if let Ok(listing) = root.list_dir(path, 1000) {
        assert!(!path.starts_with('/'), "{path:?}");
        assert!(listing.entries.iter().all(|entry| entry.name != ONLY), "{path:?}");
    }
    match root.write_file(path, b"written", WriteMode::CreateNew) {
        Ok(()) => assert_eq!(root.read_file(path, 100).unwrap(), b"written"),
        Err(error) => {
            assert!(
                matches!(
                    error,
                    FileAccessError::NotFound { .. } | FileAccessError::AlreadyExists { .. }
                ),
                "{path:?}: {error}"
            );
        }
    }
    drop(root.create_dir(path));
    5
}

#[test]
fn no_path_of_the_list_gets_out() {
    let rows = read_rows_as::<Row>("attacks/path_traversal.jsonl");
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("a/b/c/root");
    fs::create_dir_all(inside.join("sub")).unwrap();
    fs::write(inside.join("sub/own"), "inside").unwrap();
    for above in ["", "a", "a/b", "a/b/c"] {
        for bait in BAITS {
            let path = folder.path().join(above).join(bait);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "OUTSIDE").unwrap();
        }
    }
    let mut before = BTreeMap::new();
    tree(folder.path(), &inside, &mut before);
    let root = RootedDir::open_root(&inside, AccessMode::ReadWrite).unwrap();
    let passwd = fs::read("/etc/passwd").unwrap();
    assert!(root.list_dir("sub", 10).is_ok(), "the root works");
    let (mut tried, mut naive) = (0, 0);
    for path in rows.iter().filter(|row| row.contains_key("path")).map(|row| text(row, "path")) {
        let there = fs::symlink_metadata(path).is_ok();
        // As given, and from further below.
        tried += attack(&root, path) + attack(&root, &format!("sub/{path}"));
        assert_eq!(fs::symlink_metadata(path).is_ok(), there, "{path:?} was made outside");
        let naively = naively(&inside.join(path)).unwrap_or_default();
        naive += usize::from(naively == b"OUTSIDE" || naively == passwd);
    }
    let mut after = BTreeMap::new();
    tree(folder.path(), &inside, &mut after);
    println!("{tried} accesses, 0 outside; joining the path reads outside in {naive} rows");
    assert_eq!(before, after);
    assert!(tried > 9000, "{tried}");
    assert!(naive > 20, "the control must fail on some rows");
}

/// Rows that need a file system of their own kind; those not here are in `roots`.
#[test]
fn rows_of_states_are_all_known() {
    let rows = read_rows_as::<Row>("attacks/path_traversal.jsonl");
    let known = [
        "symlink-file",
        "symlink-dir",
        "symlink-parent",
        "hardlink",
        "bind-mount",
        "magic-link",
        "fifo",
        "device",
        "directory-as-file",
        "growing-file",
        "proc-file-size-0",
        "write-over-symlink",
        "enoent-oracle",
        "disk-full",
        "invalid-utf8",
    ];
    // Patterns are not for this crate.
    let elsewhere = ["glob-bomb"];
    for row in rows.iter().filter(|row| row.contains_key("scenario")) {
        let scenario = text(row, "scenario");
        assert!(
            known.contains(&scenario) || elsewhere.contains(&scenario),
            "no test for `{scenario}`"
        );
    }
    // A device made for this, where that is permitted.
    let folder = tempfile::tempdir().unwrap();
    let zero = rustix::fs::makedev(1, 5);
    if rustix::fs::mknodat(
        CWD,
        folder.path().join("z"),
        FileType::CharacterDevice,
        Mode::RWXU,
        zero,
    )
    .is_ok()
    {
        let root = RootedDir::open_root(folder.path(), AccessMode::ReadOnly).unwrap();
        assert!(matches!(root.read_file("z", 10), Err(FileAccessError::NotRegularFile { .. })));
    }
}
