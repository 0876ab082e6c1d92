use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::{DataDir, FirstKey, Held, Server};

fn held(folder: &Path) -> Held {
    DataDir::at(folder.join("data")).hold().unwrap().unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn one_process_holds_it_and_tells_where_it_listens() {
    let folder = tempfile::tempdir().unwrap();
    let first = held(folder.path());
    let data = first.data().clone();
    assert!(data.hold().unwrap().is_none() && data.is_held());
    assert_eq!(data.server(), None);
    // As an older program wrote it.
    let old = format!(r#"{{"address":"127.0.0.1:8080","pid":{}}}"#, std::process::id());
    let told: Server = serde_json::from_str(&old).unwrap();
    first.tell_server(&told).unwrap();
    assert_eq!(data.running_server(), Some(told));
    assert_eq!(data.holder(), Some(std::process::id()));
    assert_eq!(mode(&data.path().join("server.json")), 0o600);
    drop(first);
    // As after a kill: the file is still there, but nobody holds the directory.
    assert!(data.server().is_some() && !data.is_held() && data.running_server().is_none());
    let second = data.hold().unwrap().unwrap();
    assert_eq!(data.server(), None);
    drop(second);
}

#[test]
fn a_directory_that_was_open_to_others_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let held = held(folder.path());
    assert_eq!(mode(held.data().path()), 0o700);
}

#[test]
fn a_directory_with_other_things_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("other"), "").unwrap();
    let with = |wanted| {
        fs::set_permissions(&path, fs::Permissions::from_mode(wanted)).unwrap();
        let held = DataDir::at(path.clone()).hold().map(drop);
        assert_eq!(mode(&path), wanted);
        drop(fs::remove_file(path.join("server.lock")));
        held
    };
    let failure = with(0o777).unwrap_err();
    assert!(failure.to_string().ends_with("holds other things, and others may write to it"));
    with(0o755).unwrap();
}

#[test]
fn a_directory_that_cannot_be_is_told() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let failure = DataDir::at(folder.path().join("file/data")).hold().unwrap_err();
    assert!(failure.to_string().contains("cannot be made"), "{failure}");
    let failure = DataDir::at(folder.path().to_owned()).key(FirstKey::Owner).unwrap_err();
    assert!(failure.to_string().contains("owner.key` cannot be read"), "{failure}");
}

#[test]
fn a_failure_on_a_full_disk_names_the_disk_and_the_fix() {
    use crate::failure::{Exit, Failure};
    let failed = || Failure::new(Exit::NoServer, "the store: disk I/O error");
    // Of this kernel file system nothing is ever free.
    let full = DataDir::at("/proc".into()).on_full_disk(failed());
    assert!(full.to_string().contains("the disk of `/proc` is full (0 KiB free)"), "{full}");
    assert!(full.text().contains("free space on the disk of `/proc`"), "{}", full.text());
    // The control: where there is room the failure stays as it is.
    let folder = tempfile::tempdir().unwrap();
    let other = DataDir::at(folder.path().to_owned()).on_full_disk(failed());
    assert_eq!(other.to_string(), failed().to_string());
}
