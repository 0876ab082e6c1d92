//! Checks of the key files: existence, permissions, and validity of their keys.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use identity::KeyRecord;
use server_core::KeyStore;
use store::SqliteStore;
use tool::Clock as _;

use super::CheckFinding;
use super::checks::is_private;
use crate::store::rejected_rows;
use cli_core::command_error::ExitStatus;
use cli_core::data_dir::{DataDir, FirstKey, KeyState, RECOVER};
use cli_core::rest_client::{RequestPath, RestClient};
use host::clock::SystemClock;

const SUBJECT: &str = "key";

/// Checks existence and permissions of the key files.
pub(super) fn key_file_findings(data_dir: &DataDir) -> Vec<CheckFinding> {
    FirstKey::ALL.into_iter().map(|key| key_file_finding(data_dir, key)).collect()
}

fn key_file_finding(data: &DataDir, key: FirstKey) -> CheckFinding {
    let path = data.key_file(key);
    let shown = path.display();
    match std::fs::metadata(&path).map(|metadata| metadata.permissions().mode() & 0o777) {
        Ok(mode) if is_private(mode) => CheckFinding::ok(SUBJECT, shown.to_string()),
        Ok(mode) => {
            let detail = format!("{shown} is readable by other users (mode {mode:03o})");
            let fix =
                format!("chmod 600 '{shown}', and revoke the key if this machine has other users");
            CheckFinding::error(SUBJECT, detail, fix)
        }
        Err(_) => {
            let fix = format!(
                "nothing to do if you store the key elsewhere; if it is lost, \
                               {RECOVER}"
            );
            CheckFinding::warning(SUBJECT, format!("{shown} does not exist"), fix)
        }
    }
}

/// Checks the keys in the files against the store.
pub(super) async fn stored_key_findings(data_dir: &DataDir) -> Vec<CheckFinding> {
    // Opening a missing store would create one; a damaged one is a separate finding.
    let path = data_dir.store_file();
    if !path.exists() || SqliteStore::check_file(&path).is_err() {
        return Vec::new();
    }
    let Ok(store) = SqliteStore::open_file(&path) else { return Vec::new() };
    let Ok((keys, _)) = KeyStore::load(Arc::new(store), None).await else { return Vec::new() };
    let (ring, now) = (keys.key_ring(), SystemClock::default().wall_now());
    let unfit: Vec<_> =
        rejected_rows(data_dir).unwrap_or_default().into_iter().map(|row| row.key).collect();
    let is_valid = |key: FirstKey| match data_dir.key_state(&ring, key, now) {
        KeyState::Invalid => false,
        KeyState::Missing => true,
        KeyState::Valid => {
            let presented = data_dir.read_key(key).ok();
            let who = presented.and_then(|key| ring.verify_key(Some(key.expose()), now).ok());
            who.is_none_or(|who| {
                let row = format!("{}{}", KeyRecord::STORE_PREFIX, who.key_id());
                !unfit.contains(&row)
            })
        }
    };
    let invalid = FirstKey::ALL.into_iter().filter(|key| !is_valid(*key));
    invalid.map(|key| invalid_key_finding(data_dir, key)).collect()
}

/// Checks the keys in the files against the running server.
pub(super) async fn server_key_findings(
    data_dir: &DataDir,
    client: &RestClient,
) -> Vec<CheckFinding> {
    let mut findings = Vec::new();
    for key in FirstKey::ALL {
        let Ok(presented) = data_dir.read_key(key) else { continue };
        let client = client.with_key(presented);
        let answer = client
            .get_json(&RequestPath::from_segments("/v1/tools", &[]).with_query("limit", Some(1)))
            .await;
        if answer.is_err_and(|failure| failure.exit_status() == ExitStatus::Refused) {
            findings.push(invalid_key_finding(data_dir, key));
        }
    }
    findings
}

fn invalid_key_finding(data: &DataDir, key: FirstKey) -> CheckFinding {
    let path = data.key_file(key);
    let detail =
        format!("{} contains an invalid key (unknown, expired or revoked)", path.display());
    CheckFinding::error(SUBJECT, detail, format!("{RECOVER}, which creates a new key"))
}
