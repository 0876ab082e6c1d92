//! Taint rows in the store, one per caller, so that a restart clears no caller's taint.
//!
//! A row is written when taint is added, and again while its caller makes calls. An unreadable row
//! may belong to anyone: then all callers count as marked until it expires.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use policy::Taint;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tool::store::Expect;
use tool::{Digest, Json, Map, Mono, Store, StoreError, Version, Wall};

use super::{CALLERS, QUIET, REFRESH, Seen, Taints, Whose};
use crate::Gateway;

/// Store prefix of all taint rows.
const PREFIX: &str = "taint/";
/// Number of rows per scan.
const PAGE: usize = 500;
/// Delay before a failed write is retried.
const AGAIN: Duration = Duration::from_secs(5);
/// Lifetime of a row after its last write, including the interval in which the caller may have
/// called again.
const LIFE: Duration = QUIET.saturating_add(REFRESH);

/// Stored taint of one caller.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    key: String,
    subject: String,
    untrusted: bool,
    private: bool,
    at: Wall,
}

impl Row {
    /// Returns the store key, a hash of fixed length.
    fn name(key: &str, subject: &str) -> String {
        let mut hash = Sha256::new();
        hash.update(key);
        hash.update([0]);
        hash.update(subject);
        format!("{PREFIX}{}", Digest(hash.finalize().into()))
    }

    fn counts(&self, now: Wall) -> bool {
        Duration::from_millis(now.0.saturating_sub(self.at.0)) < LIFE
    }
}

impl Taints {
    fn take_due(&self) -> Map<u64, (String, String)> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut kept.due)
    }

    fn seen(&self, id: u64) -> Option<Seen> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.callers.get(&id).copied()
    }

    fn wrote(&self, id: u64, written: (Taint, Mono, Version)) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = kept.callers.get_mut(&id) {
            seen.written = Some(written);
        }
    }

    /// Marks all callers until the overflow expires.
    fn all(&self, now: Mono) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.over = Some(now);
        self.any.store(true, Ordering::Release);
    }

    /// Restores a row, as if its caller had just made a call.
    fn take_up(&self, row: &Row, (now, version): (Mono, Version)) {
        let Row { key, subject, untrusted, private, .. } = row;
        let taint = Taint { untrusted: *untrusted, private: *private };
        let id = self.id(Whose { key, subject });
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.room(id, now) {
            let written = Some((taint, now, version));
            kept.callers.insert(id, Seen { taint, last: now, written });
        }
        self.any.store(true, Ordering::Release);
    }

    /// Writes pending rows. Rows that could not be written stay pending.
    async fn write(&self, store: &dyn Store, now: Wall) -> Result<(), StoreError> {
        let mut due = self.take_due();
        while let Some(id) = due.keys().next().copied() {
            let (Some((key, subject)), Some(seen)) = (due.remove(&id), self.seen(id)) else {
                continue;
            };
            let wrote = self.write_one(store, (id, seen), (&key, &subject), now).await;
            if let Err(error) = wrote {
                due.insert(id, (key, subject));
                let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.due.extend(due);
                return Err(error);
            }
        }
        Ok(())
    }

    async fn write_one(
        &self,
        store: &dyn Store,
        (id, seen): (u64, Seen),
        (key, subject): (&str, &str),
        at: Wall,
    ) -> Result<(), StoreError> {
        let Taint { untrusted, private } = seen.taint;
        let (name, key, subject) = (Row::name(key, subject), key.to_owned(), subject.to_owned());
        let row = Row { key, subject, untrusted, private, at };
        let bytes = || Some(Json::of(&row).bytes().clone());
        let known = seen.written.map(|(_, _, version)| version);
        let version = match store.put(&name, expect(known), bytes()).await {
            Err(StoreError::Conflict { .. }) => {
                // Another server wrote or removed it.
                let there = store.get(&name).await?.map(|row| row.version);
                store.put(&name, expect(there), bytes()).await?
            }
            version => version?,
        };
        self.wrote(id, (seen.taint, seen.last, version));
        Ok(())
    }
}

fn expect(version: Option<Version>) -> Expect {
    version.map_or(Expect::Absent, Expect::Version)
}

impl Gateway {
    /// Restores the taint of callers after a restart, and removes expired rows.
    pub(crate) async fn restore_taints(&self, store: &dyn Store) {
        let mono = self.parts.clock.mono();
        if let Err(error) = self.each_taint(store, Some(mono)).await {
            tracing::error!(%error, "what callers saw cannot be read: everyone counts as marked");
            self.taints.all(mono);
        }
    }

    /// Visits all rows: restores valid ones if `up` is given, and removes expired ones.
    async fn each_taint(&self, store: &dyn Store, up: Option<Mono>) -> Result<(), StoreError> {
        let wall = self.parts.clock.wall();
        let mut after = None::<String>;
        for _ in 0..=CALLERS / PAGE {
            let rows = store.scan(PREFIX, after.as_deref(), PAGE).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = Some(last.key.clone());
            for row in &rows {
                let read: Option<Row> = serde_json::from_slice(&row.bytes).ok();
                match (read, up) {
                    (Some(read), None) if read.counts(wall) => continue,
                    (Some(read), Some(mono)) if read.counts(wall) => {
                        self.taints.take_up(&read, (mono, row.version));
                        continue;
                    }
                    (None, Some(mono)) => {
                        tracing::error!(key = row.key, "who saw what cannot be read");
                        self.taints.all(mono);
                        // It stays until everything that it may have contained has expired: a
                        // second start must see it too.
                        continue;
                    }
                    _ => {}
                }
                // A row that was written again meanwhile stays.
                drop(store.put(&row.key, Expect::Version(row.version), None).await);
            }
        }
        Ok(())
    }

    /// Writes all pending taint; returns true if everything was written.
    pub(crate) async fn write_taints(&self, store: &dyn Store) -> bool {
        match self.taints.write(store, self.parts.clock.wall()).await {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, "what callers have seen is not kept yet");
                false
            }
        }
    }

    /// Writes taint continuously. Never returns.
    pub(crate) async fn keep_taints(&self, store: &dyn Store) {
        let mut swept = self.parts.clock.mono();
        loop {
            tokio::select! {
                () = self.taints.news.notified() => {}
                () = tokio::time::sleep(LIFE) => {}
            }
            while !self.write_taints(store).await {
                tokio::time::sleep(AGAIN).await;
            }
            let now = self.parts.clock.mono();
            if now.since(swept) >= LIFE {
                swept = now;
                drop(self.each_taint(store, None).await);
            }
        }
    }
}

#[cfg(test)]
mod tests;
