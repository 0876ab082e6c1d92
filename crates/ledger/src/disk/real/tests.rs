use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use super::{Disk as _, Open, RealDisk};
use crate::disk::sharing_dir;

#[test]
fn room_is_set_aside_without_changing_the_size_and_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let file = RealDisk.open(&path, Open::New).unwrap();
    file.append(b"123").unwrap();
    let used = || std::fs::metadata(&path).unwrap().blocks() * 512;
    if !file.reserve(3, 1 << 20).unwrap() {
        // A file system without it: the ledger then refuses everything as soon as the disk is full.
        return;
    }
    assert_eq!(file.size().unwrap(), 3);
    assert!(used() >= 1 << 20, "{} bytes are set aside", used());
    file.truncate(3).unwrap();
    assert!(used() < 1 << 16, "{} bytes are still set aside", used());
    assert_eq!(std::fs::read(&path).unwrap(), b"123");
}

#[test]
fn a_lock_is_for_one_and_ends_with_its_holder() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    let held = RealDisk.lock(&path).unwrap();
    assert_eq!(RealDisk.lock(&path).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    drop(held);
    RealDisk.lock(&path).unwrap();
}

#[test]
fn what_is_made_is_for_its_owner_only() {
    let dir = tempfile::tempdir().unwrap();
    let inner = dir.path().join("a/b");
    RealDisk.make_dir(&inner).unwrap();
    drop(RealDisk.open(&inner.join("c"), Open::New).unwrap());
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&inner) & 0o077, 0);
    assert_eq!(mode(&inner.join("c")) & 0o077, 0);
}

#[test]
fn memory_that_is_shared_is_a_new_file() {
    let dir = sharing_dir();
    let path = dir.path().join("a");
    let memory = RealDisk.share(&path, 100_000).unwrap().unwrap();
    let about = std::fs::metadata(&path).unwrap();
    assert_eq!((about.permissions().mode() & 0o077, about.len()), (0, 100_000));
    assert!(about.blocks() * 512 >= 100_000);
    assert!(memory.put(0, b"one") && memory.put(99_997, b"two"));
    for (at, bytes) in [(99_998, b"two".as_slice()), (100_000, b"x"), (usize::MAX, b"x")] {
        assert!(!memory.put(at, bytes), "{at}");
    }
    let read = || std::fs::read(&path).unwrap();
    assert_eq!((&read()[..4], &read()[99_996..]), (b"one\0".as_slice(), b"\0two".as_slice()));
    drop(memory);
    assert!(read().starts_with(b"one\0"));
    let there = RealDisk.share(&path, 100_000).unwrap_err();
    assert_eq!(there.kind(), std::io::ErrorKind::AlreadyExists);
    // What cannot have its room is not left behind.
    std::fs::remove_file(&path).unwrap();
    RealDisk.share(&path, 1 << 60).unwrap_err();
    assert!(!path.exists());
}
