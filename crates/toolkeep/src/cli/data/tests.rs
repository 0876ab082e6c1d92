use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use identity::Right;
use server::Keys;
use store::MemoryStore;
use tool::store::Expect;
use tool::{Level, Wall};

use super::{DataDir, FirstKey, Held, Server};

const NOW: Wall = Wall(1_000);

fn held(folder: &Path) -> Held {
    DataDir::at(folder.join("data")).hold().unwrap().unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

async fn keys() -> Keys {
    Keys::read(Arc::new(MemoryStore::new()), None).await.unwrap().0
}

#[tokio::test]
async fn the_first_start_makes_both_keys_for_their_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (held, keys) = (held(folder.path()), keys().await);
    let made = held.first_keys(&keys, NOW, false).await.unwrap();
    assert_eq!(made, [FirstKey::Owner, FirstKey::Agent]);
    assert_eq!(mode(held.data().path()), 0o700);
    assert_eq!(keys.reload().await.unwrap(), []);
    let ring = keys.ring();
    let who = |key| {
        assert_eq!(mode(&held.data().key_file(key)), 0o600);
        ring.verify(Some(held.data().key(key).unwrap().open()), NOW).unwrap()
    };
    let (owner, agent) = (who(FirstKey::Owner), who(FirstKey::Agent));
    assert_eq!((owner.level(), owner.agent()), (Level::Owner, false));
    assert!(owner.may(Right::Approve) && owner.may(Right::KeysWrite));
    assert_eq!((agent.level(), agent.agent()), (Level::User, true));
    assert!(!agent.may(Right::Approve) && !agent.may(Right::KeysWrite));
    let names: Vec<_> =
        fs::read_dir(held.data().path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().ends_with(".new")), "{names:?}");
}

#[tokio::test]
async fn keys_are_never_overwritten_and_a_removed_one_stays_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (held, keys) = (held(folder.path()), keys().await);
    let file = held.data().key_file(FirstKey::Owner);
    fs::write(&file, "mine").unwrap();
    assert_eq!(held.first_keys(&keys, NOW, false).await.unwrap(), [FirstKey::Agent]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    fs::remove_file(&file).unwrap();
    assert_eq!(held.first_keys(&keys, NOW, false).await.unwrap(), []);
    assert!(!file.exists());
    assert_eq!(held.first_keys(&keys, NOW, true).await.unwrap(), [FirstKey::Owner]);
    assert!(
        keys.ring().verify(Some(held.data().key(FirstKey::Owner).unwrap().open()), NOW).is_ok()
    );
}

#[tokio::test]
async fn a_first_start_that_broke_off_is_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let (held, keys) = (held(folder.path()), keys().await);
    // The record of a key whose file was never written, and half a file.
    keys.store().put("key/lost", Expect::Absent, Some("{}".into())).await.unwrap();
    fs::write(held.data().path().join("owner.new"), "tk_ha").unwrap();
    let made = held.first_keys(&keys, NOW, false).await.unwrap();
    assert_eq!(made, [FirstKey::Owner, FirstKey::Agent]);
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
