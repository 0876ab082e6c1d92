//! What other servers write, where the registry is shared.
//!
//! One task follows, so that there is never more than one refresh at once. It listens first and reads
//! then, so that nothing falls between; what is newer in memory by then stays.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tool::node::NodeFault;
use tool::{StoreError, Version};

use super::Registry;
use super::state::Shared;
use crate::keep::Change;

/// Between two tries to be heard.
const FIRST: Duration = Duration::from_millis(100);
const LAST: Duration = Duration::from_secs(1);

impl Registry {
    /// Follows what others write, for ever. While what keeps the registry is away, what is known is
    /// served from memory and said to be stale.
    pub async fn follow(&self) {
        let mut wait = FIRST;
        loop {
            if let Err(error) = self.shared.followed(&mut wait).await {
                self.shared.set_stale(Some(error.to_string()));
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LAST);
        }
    }
}

impl Shared {
    /// Ends where the line broke.
    async fn followed(&self, wait: &mut Duration) -> Result<(), StoreError> {
        // Nobody else writes: there is nothing to hear.
        let Some(mut heard) = self.keep.listen().await? else {
            return std::future::pending().await;
        };
        self.refresh().await?;
        *wait = FIRST;
        loop {
            match heard.next().await? {
                Change::Written(row) => {
                    let newer = |old: Option<Version>| old.is_none_or(|old| old < row.version);
                    self.settle(&row.key, Some(&row), newer);
                }
                Change::Touched(key) => self
                    .read_again(&key)
                    .await
                    .map_err(|fault| StoreError::Unavailable(fault.to_string()))?,
            }
        }
    }

    /// Reads all. What was written here in the meantime is newer, and stays.
    pub(super) async fn refresh(&self) -> Result<(), StoreError> {
        let before = self.versions();
        let top = before.iter().map(|(_, version)| *version).max();
        let rows = self.keep.all().await?;
        for row in &rows {
            let holds = |old: Option<Version>| old <= top || old < Some(row.version);
            self.settle(&row.key, Some(row), holds);
        }
        let there: HashSet<&str> = rows.iter().map(|row| row.key.as_str()).collect();
        for (key, _) in before.iter().filter(|(key, _)| !there.contains(key.as_str())) {
            self.settle(key, None, |old| old <= top);
        }
        self.set_stale(None);
        Ok(())
    }

    /// Reads one key anew, because somebody else wrote it. Of those who want that at once one reads, and
    /// all have what it read.
    pub(crate) async fn read_again(&self, key: &str) -> Result<(), NodeFault> {
        loop {
            let mut others = match self.reading.enter(key) {
                Turn::Own(own) => {
                    let read = self.read_one(key).await;
                    own.told.send_replace(Some(read.clone()));
                    return read;
                }
                Turn::Others(others) => others,
            };
            // Who read may have been given up.
            if let Ok(read) = others.wait_for(Option::is_some).await
                && let Some(read) = read.clone()
            {
                return read;
            }
        }
    }

    async fn read_one(&self, key: &str) -> Result<(), NodeFault> {
        let seen = self.version_of(key);
        let row = self.keep.get(key).await;
        let row = row.map_err(|error| NodeFault::Unavailable(error.to_string()))?;
        self.settle(key, row.as_ref(), |old| old == seen);
        Ok(())
    }
}

/// What came of one reading; nothing while it runs.
type Told = Option<Result<(), NodeFault>>;

/// The keys that are read now.
#[derive(Debug, Default)]
pub(super) struct Reading(Mutex<HashMap<String, watch::Receiver<Told>>>);

/// Whose turn it is to read a key.
enum Turn<'a> {
    Own(Own<'a>),
    Others(watch::Receiver<Told>),
}

/// Ends its turn where it is dropped.
struct Own<'a> {
    reading: &'a Reading,
    key: String,
    told: watch::Sender<Told>,
}

impl Reading {
    fn enter(&self, key: &str) -> Turn<'_> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(others) = all.get(key) {
            return Turn::Others(others.clone());
        }
        let (told, others) = watch::channel(None);
        all.insert(key.to_owned(), others);
        Turn::Own(Own { reading: self, key: key.to_owned(), told })
    }
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        self.reading.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}
