//! Checks of the key files: existence, permissions, and validity of their keys.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use identity::KeyRecord;
use server_core::Keys;
use store::SqliteStore;
use tool::Clock as _;

use super::Finding;
use super::checks::is_private;
use crate::store::rejected;
use cli_core::client::{Client, Path};
use cli_core::data::{DataDir, FirstKey, KeyState, RECOVER};
use cli_core::failure::Exit;
use host::clock::SystemClock;

const WHAT: &str = "key";

/// Checks existence and permissions of the key files.
pub(super) fn files(data: &DataDir) -> Vec<Finding> {
    FirstKey::ALL.into_iter().map(|key| file(data, key)).collect()
}

fn file(data: &DataDir, key: FirstKey) -> Finding {
    let path = data.key_file(key);
    let shown = path.display();
    match std::fs::metadata(&path).map(|metadata| metadata.permissions().mode() & 0o777) {
        Ok(mode) if is_private(mode) => Finding::good(WHAT, shown.to_string()),
        Ok(mode) => {
            let detail = format!("{shown} can be read by others (mode {mode:03o})");
            let fix =
                format!("chmod 600 '{shown}', and revoke the key if others are on this machine");
            Finding::wrong(WHAT, detail, fix)
        }
        Err(_) => {
            let fix = format!("fine if you keep it elsewhere; where it is lost, {RECOVER}");
            Finding::doubtful(WHAT, format!("{shown} is not there"), fix)
        }
    }
}

/// Checks the keys in the files against the store.
pub(super) async fn offline(data: &DataDir) -> Vec<Finding> {
    // Opening a missing store would create one; a damaged one is a separate finding.
    let path = data.store();
    if !path.exists() || SqliteStore::check(&path).is_err() {
        return Vec::new();
    }
    let Ok(store) = SqliteStore::open(&path) else { return Vec::new() };
    let Ok((keys, _)) = Keys::read(Arc::new(store), None).await else { return Vec::new() };
    let (ring, now) = (keys.ring(), SystemClock::default().wall());
    let unfit: Vec<_> = rejected(data).unwrap_or_default().into_iter().map(|row| row.key).collect();
    let is_valid = |key: FirstKey| match data.key_state(&ring, key, now) {
        KeyState::Invalid => false,
        KeyState::Missing => true,
        KeyState::Valid => {
            let presented = data.key(key).ok();
            let who = presented.and_then(|key| ring.verify(Some(key.open()), now).ok());
            who.is_none_or(|who| {
                let row = format!("{}{}", KeyRecord::STORE_PREFIX, who.key());
                !unfit.contains(&row)
            })
        }
    };
    let invalid = FirstKey::ALL.into_iter().filter(|key| !is_valid(*key));
    invalid.map(|key| finding(data, key)).collect()
}

/// Checks the keys in the files against the running server.
pub(super) async fn online(data: &DataDir, client: &Client) -> Vec<Finding> {
    let mut findings = Vec::new();
    for key in FirstKey::ALL {
        let Ok(presented) = data.key(key) else { continue };
        let client = client.with_key(presented);
        let answer = client.get(&Path::new("/v1/tools", &[]).with("limit", Some(1))).await;
        if answer.is_err_and(|failure| failure.exit() == Exit::Refused) {
            findings.push(finding(data, key));
        }
    }
    findings
}

fn finding(data: &DataDir, key: FirstKey) -> Finding {
    let path = data.key_file(key);
    let detail =
        format!("{} holds a key that is not valid (unknown, expired or revoked)", path.display());
    Finding::wrong(WHAT, detail, format!("{RECOVER}: it makes a new key"))
}
