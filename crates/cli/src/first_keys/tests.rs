use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use cli_core::data::{DataDir, FirstKey, Held, KeyChanges, KeyState};
use identity::Right;
use server_core::Keys;
use store::MemoryStore;
use tool::store::Expect;
use tool::{Level, Wall};

use super::{first_keys, recover_keys};

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
    let made = first_keys(&held, &keys, NOW, false).await.unwrap().made;
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
    assert_eq!(first_keys(&held, &keys, NOW, false).await.unwrap().made, [FirstKey::Agent]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    fs::remove_file(&file).unwrap();
    assert_eq!(first_keys(&held, &keys, NOW, false).await.unwrap().made, []);
    assert!(!file.exists());
    assert_eq!(first_keys(&held, &keys, NOW, true).await.unwrap().made, [FirstKey::Owner]);
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
    let made = first_keys(&held, &keys, NOW, false).await.unwrap().made;
    assert_eq!(made, [FirstKey::Owner, FirstKey::Agent]);
}

/// Both stayed valid for ever, and nothing said so.
#[tokio::test]
async fn a_new_owner_key_takes_the_place_of_the_lost_one() {
    let folder = tempfile::tempdir().unwrap();
    let (held, keys) = (held(folder.path()), keys().await);
    first_keys(&held, &keys, NOW, false).await.unwrap();
    let key = |which| held.data().key(which).unwrap();
    let (lost, agent) = (key(FirstKey::Owner), key(FirstKey::Agent));
    fs::remove_file(held.data().key_file(FirstKey::Owner)).unwrap();
    // The control: until it is replaced the lost key is valid.
    let id = keys.ring().verify(Some(lost.open()), NOW).unwrap().key().to_owned();
    let changes = first_keys(&held, &keys, NOW, true).await.unwrap();
    assert_eq!((changes.made, changes.revoked), (vec![FirstKey::Owner], vec![id]));
    assert!(keys.ring().verify(Some(lost.open()), NOW).is_err());
    for valid in [key(FirstKey::Owner), agent] {
        keys.ring().verify(Some(valid.open()), NOW).unwrap();
    }
}

/// A store that was lost or restored, or a key that its owner revoked: `--make-keys` did nothing, since the files
/// were there.
#[tokio::test]
async fn key_files_that_hold_no_valid_key_are_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let (held, first) = (held(folder.path()), keys().await);
    first_keys(&held, &first, NOW, false).await.unwrap();
    let (data, other) = (held.data().clone(), keys().await);
    let state = |keys: &Keys, key| data.key_state(&keys.ring(), key, NOW);
    assert_eq!(state(&first, FirstKey::Owner), KeyState::Valid, "the control");
    assert_eq!(state(&other, FirstKey::Owner), KeyState::Invalid);
    let changes = recover_keys(&held, &other, NOW).await.unwrap();
    assert_eq!(changes.made, [FirstKey::Owner, FirstKey::Agent]);
    assert_eq!(changes.set_aside.len(), 2, "{changes:?}");
    assert!(changes.set_aside.iter().all(|path| path.exists()));
    let owner = other.ring().verify(Some(data.key(FirstKey::Owner).unwrap().open()), NOW).unwrap();
    assert!(owner.may(Right::KeysWrite) && owner.level() == Level::Owner);
    // One's own key, revoked.
    let revoked = owner.key().to_owned();
    other.revoke(&revoked, NOW).await.unwrap();
    assert_eq!(state(&other, FirstKey::Owner), KeyState::Invalid);
    let changes = recover_keys(&held, &other, NOW).await.unwrap();
    assert_eq!((changes.made, changes.revoked), (vec![FirstKey::Owner], Vec::new()));
    // Where both are valid nothing is changed.
    let again = recover_keys(&held, &other, NOW).await.unwrap();
    assert_eq!(again, KeyChanges::default());
}
