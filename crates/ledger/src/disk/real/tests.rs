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

/// A file with room for `room` bytes, and its path.
fn roomy(
    dir: &std::path::Path,
    room: u64,
) -> (std::sync::Arc<dyn super::DiskFile>, std::path::PathBuf) {
    let path = dir.join("a");
    let file = RealDisk.open(&path, Open::New).unwrap();
    assert!(file.reserve(0, room).unwrap(), "these tests need a file system with `fallocate`");
    (file, path)
}

/// What stands in a file, without the zeros behind it.
fn written(path: &std::path::Path) -> Vec<u8> {
    let mut all = std::fs::read(path).unwrap();
    while all.last() == Some(&0) {
        all.pop();
    }
    all
}

#[test]
fn what_is_appended_is_seen_at_once_with_and_without_room() {
    let dir = sharing_dir();
    let (file, path) = roomy(dir.path(), 700 << 10);
    let mut all = Vec::new();
    // Past the first window, past the room, and into room that is set aside later.
    for round in 0_u32..3_000 {
        let bytes = vec![b'a' + u8::try_from(round % 26).unwrap(); 1 + round as usize % 977];
        assert_eq!(file.append(&bytes).unwrap(), bytes.len());
        all.extend_from_slice(&bytes);
        assert_eq!(file.size().unwrap(), all.len() as u64);
        if round % 250 == 0 {
            assert_eq!(written(&path), all, "round {round}");
        }
        if round == 2_000 {
            assert!(file.reserve(all.len() as u64, 2 << 20).unwrap());
        }
    }
    file.sync().unwrap();
    assert_eq!(written(&path), all);
    let (mut read, end) = (vec![0; 10], all.len() as u64);
    assert_eq!(file.read_at(end - 4, &mut read).unwrap(), 4, "behind the end is nothing");
    file.truncate(end - 1).unwrap();
    all.pop();
    assert_eq!(std::fs::read(&path).unwrap(), all, "cut to the byte");
    file.append(b"again").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), [all.as_slice(), b"again"].concat());
}

#[test]
fn memory_is_shared_where_there_is_room_and_only_there() {
    let dir = sharing_dir();
    let (file, path) = roomy(dir.path(), 1 << 20);
    let maps = || std::fs::read_to_string("/proc/self/maps").unwrap();
    let name = path.to_str().unwrap().to_owned();
    file.append(b"one").unwrap();
    assert!(maps().contains(&name));
    file.sync().unwrap();
    assert!(maps().contains(&name), "for some bytes it stays");
    file.append(&vec![b'x'; 100_000]).unwrap();
    file.sync().unwrap();
    assert!(!maps().contains(&name), "given back before much is synced");
    file.append(b"more").unwrap();
    assert!(maps().contains(&name), "and had again");
    file.truncate(3).unwrap();
    assert!(!maps().contains(&name));
    file.append(b"two").unwrap();
    assert!(!maps().contains(&name), "what was set aside was given back");
    assert_eq!(written(&path), b"onetwo");
}
