use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::{DataDir, DataDirLock, FirstKey, ServerDescriptor};

fn held(folder: &Path) -> DataDirLock {
    DataDir::new(folder.join("data")).try_lock().unwrap().unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn one_process_holds_it_and_tells_where_it_listens() {
    let folder = tempfile::tempdir().unwrap();
    let first = held(folder.path());
    let data = first.dir().clone();
    assert!(data.try_lock().unwrap().is_none() && data.is_locked());
    assert_eq!(data.read_server(), None);
    // As an older program wrote it.
    let old = format!(r#"{{"address":"127.0.0.1:8080","pid":{}}}"#, std::process::id());
    let told: ServerDescriptor = serde_json::from_str(&old).unwrap();
    first.publish_server(&told).unwrap();
    assert_eq!(data.find_running_server(), Some(told));
    assert_eq!(data.holder_pid(), Some(std::process::id()));
    assert_eq!(mode(&data.path().join("server.json")), 0o600);
    drop(first);
    // As after a kill: the file is still there, but nobody holds the directory.
    assert!(
        data.read_server().is_some() && !data.is_locked() && data.find_running_server().is_none()
    );
    let second = data.try_lock().unwrap().unwrap();
    assert_eq!(data.read_server(), None);
    drop(second);
}

#[test]
fn a_directory_that_was_open_to_others_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let held = held(folder.path());
    assert_eq!(mode(held.dir().path()), 0o700);
}

#[test]
fn a_directory_with_other_things_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("other"), "").unwrap();
    let with = |wanted| {
        fs::set_permissions(&path, fs::Permissions::from_mode(wanted)).unwrap();
        let held = DataDir::new(path.clone()).try_lock().map(drop);
        assert_eq!(mode(&path), wanted);
        drop(fs::remove_file(path.join("server.lock")));
        held
    };
    let failure = with(0o777).unwrap_err();
    assert!(failure.to_string().ends_with("contains other files and is writable by other users"));
    with(0o755).unwrap();
}

#[test]
fn a_directory_that_cannot_be_is_told() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let failure = DataDir::new(folder.path().join("file/data")).try_lock().unwrap_err();
    assert!(failure.to_string().contains("cannot be created"), "{failure}");
    let failure = DataDir::new(folder.path().to_owned()).read_key(FirstKey::Owner).unwrap_err();
    assert!(failure.to_string().contains("owner.key`: "), "{failure}");
}

#[test]
fn a_failure_on_a_full_disk_names_the_disk_and_the_fix() {
    use crate::command_error::{CommandError, ExitStatus};
    let failed = || CommandError::new(ExitStatus::ServerUnavailable, "the store: disk I/O error");
    // Of this kernel file system nothing is ever free.
    let full = DataDir::new("/proc".into()).with_full_disk_notice(failed());
    assert!(full.to_string().contains("the disk of `/proc` is full (0 KiB free)"), "{full}");
    assert!(full.render_text().contains("free disk space at `/proc`"), "{}", full.render_text());
    // The control: where there is room the failure stays as it is.
    let folder = tempfile::tempdir().unwrap();
    let other = DataDir::new(folder.path().to_owned()).with_full_disk_notice(failed());
    assert_eq!(other.to_string(), failed().to_string());
}
