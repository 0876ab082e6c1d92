//! Who uses a background server: each client holds a shared lock for as long as it lives.
//!
//! A server that finds no client for long enough takes the lock for itself and keeps it until it has ended, so that
//! no client joins it meanwhile.

use std::io;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::lock::Lock;
use crate::data::DataDir;

const FILE: &str = "clients.lock";
/// Between two looks for clients.
const LOOK: Duration = Duration::from_millis(500);

/// This process as a client.
#[derive(Debug)]
pub struct Client {
    _lock: Lock,
}

impl Client {
    /// `None` while a server that nobody used is ending.
    pub(crate) fn join(data: &DataDir) -> io::Result<Option<Self>> {
        Ok(Lock::shared(data, FILE)?.map(|lock| Self { _lock: lock }))
    }
}

/// No client, for as long as this lives.
#[derive(Debug)]
pub struct Unused {
    lock: Option<Lock>,
}

impl Unused {
    /// `None` where there is a client.
    pub(super) fn now(data: &DataDir) -> io::Result<Option<Self>> {
        Ok(Lock::exclusive(data, FILE)?.map(|lock| Self { lock: Some(lock) }))
    }

    /// Whether clients are locked out; not where there is no directory any more.
    pub fn is_locked(&self) -> bool {
        self.lock.is_some()
    }
}

/// Resolves when no client was there for `idle`, or the data directory has been removed.
pub async fn until_unused(data: &DataDir, idle: Duration) -> Unused {
    // So that a file that is missing later means that the directory is gone.
    drop(Lock::shared(data, FILE));
    let mut since = Instant::now();
    loop {
        sleep(LOOK.min(idle)).await;
        match Lock::exclusive_there(data, FILE) {
            Ok(Some(lock)) if since.elapsed() >= idle => return Unused { lock: Some(lock) },
            Ok(Some(_)) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Unused { lock: None },
            // Where it cannot be told, it is used.
            Ok(None) | Err(_) => since = Instant::now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, timeout};

    use super::{Client, DataDir, until_unused};

    const IDLE: Duration = Duration::from_millis(50);

    fn data() -> (tempfile::TempDir, DataDir) {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::at(folder.path().join("data"));
        data.make().unwrap();
        (folder, data)
    }

    #[tokio::test]
    async fn a_server_stays_while_it_has_a_client_and_for_a_while_after() {
        let (_folder, data) = data();
        let client = Client::join(&data).unwrap().unwrap();
        let second = Client::join(&data).unwrap().unwrap();
        assert!(timeout(10 * IDLE, until_unused(&data, IDLE)).await.is_err());
        drop(client);
        assert!(timeout(10 * IDLE, until_unused(&data, IDLE)).await.is_err());
        drop(second);
        let began = Instant::now();
        let unused = until_unused(&data, IDLE).await;
        assert!(began.elapsed() >= IDLE);
        // Who comes now does not join what is ending, and may start anew once it has ended.
        assert!(Client::join(&data).unwrap().is_none());
        drop(unused);
        assert!(Client::join(&data).unwrap().is_some());
    }

    #[tokio::test]
    async fn a_server_whose_data_directory_was_removed_ends() {
        let (folder, data) = data();
        let _client = Client::join(&data).unwrap().unwrap();
        let removed = async {
            // The control: up to here it stays.
            tokio::time::sleep(IDLE).await;
            drop(folder);
            Instant::now()
        };
        let (unused, removed) = tokio::join!(until_unused(&data, 1_000 * IDLE), removed);
        assert!(removed.elapsed() < 100 * IDLE && !unused.is_locked());
    }
}
