use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use super::{Disk as _, OpenMode, OsDisk};

#[test]
fn room_is_set_aside_without_changing_the_size_and_given_back() {
    // The directory for temporary files may be on a file system that cannot; that for shared memory is on none.
    let places = [std::env::temp_dir(), "/dev/shm".into()].into_iter();
    let dirs = places.filter_map(|place| tempfile::tempdir_in(place).ok());
    let (dir, file) = dirs
        .map(|dir| {
            let file = OsDisk.open_file(&dir.path().join("a"), OpenMode::Truncate).unwrap();
            file.append_bytes(b"123").unwrap();
            (dir, file)
        })
        .find(|(_, file)| file.allocate_range(3, 1 << 20).unwrap())
        .expect("this test needs a file system with `fallocate`");
    let path = dir.path().join("a");
    let used = || std::fs::metadata(&path).unwrap().blocks() * 512;
    assert_eq!(file.file_size().unwrap(), 3);
    assert!(used() >= 1 << 20, "{} bytes are set aside", used());
    file.truncate_to(3).unwrap();
    assert!(used() < 1 << 16, "{} bytes are still set aside", used());
    assert_eq!(std::fs::read(&path).unwrap(), b"123");
}

#[test]
fn a_lock_is_for_one_and_ends_with_its_holder() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    let held = OsDisk.lock_file(&path).unwrap();
    assert_eq!(OsDisk.lock_file(&path).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    drop(held);
    OsDisk.lock_file(&path).unwrap();
}

#[test]
fn what_is_made_is_for_its_owner_only() {
    let dir = tempfile::tempdir().unwrap();
    let inner = dir.path().join("a/b");
    OsDisk.create_dir_all(&inner).unwrap();
    drop(OsDisk.open_file(&inner.join("c"), OpenMode::Truncate).unwrap());
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&inner) & 0o077, 0);
    assert_eq!(mode(&inner.join("c")) & 0o077, 0);
}

#[test]
fn bytes_in_the_middle_are_replaced_and_the_boot_has_one_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    OsDisk.open_file(&path, OpenMode::Truncate).unwrap().append_bytes(b"0123456789").unwrap();
    let file = OsDisk.open_file(&path, OpenMode::Update).unwrap();
    file.write_at(3, b"abc").unwrap();
    file.write_at(0, b"x").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"x12abc6789");
    assert!(OsDisk.open_file(&dir.path().join("b"), OpenMode::Update).is_err());
    assert_eq!(OsDisk.boot_id(), OsDisk.boot_id());
    assert_ne!(OsDisk.boot_id(), Some([0; 16]));
}
