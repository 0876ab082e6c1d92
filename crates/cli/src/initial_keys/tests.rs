use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use cli_core::data_dir::{DataDir, DataDirLock, FirstKey, KeyChanges, KeyState};
use identity::Right;
use server_core::KeyStore;
use store::MemoryStore;
use tool::store::WritePrecondition;
use tool::{PermissionLevel, WallTime};

use super::{create_initial_keys, recover_keys};

const NOW: WallTime = WallTime(1_000);

fn held(folder: &Path) -> DataDirLock {
    DataDir::new(folder.join("data")).try_lock().unwrap().unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

async fn keys() -> KeyStore {
    KeyStore::load(Arc::new(MemoryStore::new()), None).await.unwrap().0
}

#[tokio::test]
async fn the_first_start_makes_both_keys_for_their_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (held, keys) = (held(folder.path()), keys().await);
    let made = create_initial_keys(&held, &keys, NOW, false).await.unwrap().made;
    assert_eq!(made, [FirstKey::Owner, FirstKey::Agent]);
    assert_eq!(mode(held.dir().path()), 0o700);
    assert_eq!(keys.reload().await.unwrap(), []);
    let ring = keys.key_ring();
    let who = |key| {
        assert_eq!(mode(&held.dir().key_file(key)), 0o600);
        ring.verify_key(Some(held.dir().read_key(key).unwrap().expose()), NOW).unwrap()
    };
    let (owner, agent) = (who(FirstKey::Owner), who(FirstKey::Agent));
    assert_eq!((owner.level(), owner.is_agent()), (PermissionLevel::Owner, false));
    assert!(owner.has_right(Right::Approve) && owner.has_right(Right::KeysWrite));
    assert_eq!((agent.level(), agent.is_agent()), (PermissionLevel::User, true));
    assert!(!agent.has_right(Right::Approve) && !agent.has_right(Right::KeysWrite));
    let names: Vec<_> =
        fs::read_dir(held.dir().path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().ends_with(".new")), "{names:?}");
}

#[tokio::test]
async fn keys_are_never_overwritten_and_a_removed_one_stays_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (held, keys) = (held(folder.path()), keys().await);
    let file = held.dir().key_file(FirstKey::Owner);
    fs::write(&file, "mine").unwrap();
    assert_eq!(
        create_initial_keys(&held, &keys, NOW, false).await.unwrap().made,
        [FirstKey::Agent]
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    fs::remove_file(&file).unwrap();
    assert_eq!(create_initial_keys(&held, &keys, NOW, false).await.unwrap().made, []);
    assert!(!file.exists());
    assert_eq!(create_initial_keys(&held, &keys, NOW, true).await.unwrap().made, [FirstKey::Owner]);
    assert!(
        keys.key_ring()
            .verify_key(Some(held.dir().read_key(FirstKey::Owner).unwrap().expose()), NOW)
            .is_ok()
    );
}

#[tokio::test]
async fn a_first_start_that_broke_off_is_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let (held, keys) = (held(folder.path()), keys().await);
    // The record of a key whose file was never written, and half a file.
    keys.store().put_value("key/lost", WritePrecondition::Absent, Some("{}".into())).await.unwrap();
    fs::write(held.dir().path().join("owner.new"), "tk_ha").unwrap();
    let made = create_initial_keys(&held, &keys, NOW, false).await.unwrap().made;
    assert_eq!(made, [FirstKey::Owner, FirstKey::Agent]);
}

/// Both stayed valid for ever, and nothing said so.
#[tokio::test]
async fn a_new_owner_key_takes_the_place_of_the_lost_one() {
    let folder = tempfile::tempdir().unwrap();
    let (held, keys) = (held(folder.path()), keys().await);
    create_initial_keys(&held, &keys, NOW, false).await.unwrap();
    let key = |which| held.dir().read_key(which).unwrap();
    let (lost, agent) = (key(FirstKey::Owner), key(FirstKey::Agent));
    fs::remove_file(held.dir().key_file(FirstKey::Owner)).unwrap();
    // The control: until it is replaced the lost key is valid.
    let id = keys.key_ring().verify_key(Some(lost.expose()), NOW).unwrap().key_id().to_owned();
    let changes = create_initial_keys(&held, &keys, NOW, true).await.unwrap();
    assert_eq!((changes.made, changes.revoked), (vec![FirstKey::Owner], vec![id]));
    assert!(keys.key_ring().verify_key(Some(lost.expose()), NOW).is_err());
    for valid in [key(FirstKey::Owner), agent] {
        keys.key_ring().verify_key(Some(valid.expose()), NOW).unwrap();
    }
}

/// A store that was lost or restored, or a key that its owner revoked: `--make-keys` did nothing, since the files
/// were there.
#[tokio::test]
async fn key_files_that_hold_no_valid_key_are_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let (held, first) = (held(folder.path()), keys().await);
    create_initial_keys(&held, &first, NOW, false).await.unwrap();
    let (data, other) = (held.dir().clone(), keys().await);
    let state = |keys: &KeyStore, key| data.key_state(&keys.key_ring(), key, NOW);
    assert_eq!(state(&first, FirstKey::Owner), KeyState::Valid, "the control");
    assert_eq!(state(&other, FirstKey::Owner), KeyState::Invalid);
    let changes = recover_keys(&held, &other, NOW).await.unwrap();
    assert_eq!(changes.made, [FirstKey::Owner, FirstKey::Agent]);
    assert_eq!(changes.set_aside.len(), 2, "{changes:?}");
    assert!(changes.set_aside.iter().all(|path| path.exists()));
    let owner = other
        .key_ring()
        .verify_key(Some(data.read_key(FirstKey::Owner).unwrap().expose()), NOW)
        .unwrap();
    assert!(owner.has_right(Right::KeysWrite) && owner.level() == PermissionLevel::Owner);
    // One's own key, revoked.
    let revoked = owner.key_id().to_owned();
    other.revoke_key(&revoked, NOW).await.unwrap();
    assert_eq!(state(&other, FirstKey::Owner), KeyState::Invalid);
    let changes = recover_keys(&held, &other, NOW).await.unwrap();
    assert_eq!((changes.made, changes.revoked), (vec![FirstKey::Owner], Vec::new()));
    // Where both are valid nothing is changed.
    let again = recover_keys(&held, &other, NOW).await.unwrap();
    assert_eq!(again, KeyChanges::default());
}
