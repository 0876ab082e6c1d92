//! The shared lock by which clients keep a background server alive: each holds it as long as it
//! lives.
//!
//! A server without clients for long enough takes the lock exclusively and keeps it until it has
//! ended, so that no client joins meanwhile.

use std::io;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::lock_file::LockFile;
use crate::data_dir::DataDir;

const CLIENTS_LOCK: &str = "clients.lock";
/// Interval between two checks for clients.
const CLIENT_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The registration of this process as a client.
#[derive(Debug)]
pub struct ClientLock {
    _lock: LockFile,
}

impl ClientLock {
    /// Registers this process; `None` while an unused server is ending.
    pub(crate) fn join(data_dir: &DataDir) -> io::Result<Option<Self>> {
        Ok(LockFile::try_shared(data_dir, CLIENTS_LOCK)?.map(|lock| Self { _lock: lock }))
    }
}

/// An exclusive lock that keeps clients away as long as it lives.
#[derive(Debug)]
pub struct IdleLock {
    lock: Option<LockFile>,
}

impl IdleLock {
    /// Tries to lock out clients; `None` if there is a client.
    pub(super) fn try_lock(data_dir: &DataDir) -> io::Result<Option<Self>> {
        Ok(LockFile::try_exclusive(data_dir, CLIENTS_LOCK)?.map(|lock| Self { lock: Some(lock) }))
    }

    /// Whether clients are locked out; false if the directory no longer exists.
    pub fn is_locked(&self) -> bool {
        self.lock.is_some()
    }
}

/// Resolves when there was no client for `idle`, or when the data directory was removed.
pub async fn wait_until_idle(data_dir: &DataDir, idle: Duration) -> IdleLock {
    // Creates the file, so that a missing file later means that the directory is gone.
    drop(LockFile::try_shared(data_dir, CLIENTS_LOCK));
    let mut since = Instant::now();
    loop {
        sleep(CLIENT_POLL_INTERVAL.min(idle)).await;
        match LockFile::try_exclusive_existing(data_dir, CLIENTS_LOCK) {
            Ok(Some(lock)) if since.elapsed() >= idle => return IdleLock { lock: Some(lock) },
            Ok(Some(_)) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return IdleLock { lock: None };
            }
            // On an error, assume that a client is there.
            Ok(None) | Err(_) => since = Instant::now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, timeout};

    use super::{ClientLock, DataDir, wait_until_idle};

    const IDLE: Duration = Duration::from_millis(50);

    fn data() -> (tempfile::TempDir, DataDir) {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::new(folder.path().join("data"));
        data.create_dir().unwrap();
        (folder, data)
    }

    #[tokio::test]
    async fn a_server_stays_while_it_has_a_client_and_for_a_while_after() {
        let (_folder, data) = data();
        let client = ClientLock::join(&data).unwrap().unwrap();
        let second = ClientLock::join(&data).unwrap().unwrap();
        assert!(timeout(10 * IDLE, wait_until_idle(&data, IDLE)).await.is_err());
        drop(client);
        assert!(timeout(10 * IDLE, wait_until_idle(&data, IDLE)).await.is_err());
        drop(second);
        let began = Instant::now();
        let unused = wait_until_idle(&data, IDLE).await;
        assert!(began.elapsed() >= IDLE);
        // Who comes now does not join what is ending, and may start anew once it has ended.
        assert!(ClientLock::join(&data).unwrap().is_none());
        drop(unused);
        assert!(ClientLock::join(&data).unwrap().is_some());
    }

    #[tokio::test]
    async fn a_server_whose_data_directory_was_removed_ends() {
        let (folder, data) = data();
        let _client = ClientLock::join(&data).unwrap().unwrap();
        let removed = async {
            // The control: up to here it stays.
            tokio::time::sleep(IDLE).await;
            drop(folder);
            Instant::now()
        };
        let (unused, removed) = tokio::join!(wait_until_idle(&data, 1_000 * IDLE), removed);
        assert!(removed.elapsed() < 100 * IDLE && !unused.is_locked());
    }
}
