//! Taint rows in the store, one per caller, so that a restart clears no caller's taint.
//!
//! A row is written when taint is added, and again while its caller makes calls. An unreadable row
//! may belong to anyone: then all callers count as marked until it expires.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use policy::SessionTaint;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tool::store::WritePrecondition;
use tool::{Digest, FastMap, Json, MonotonicTime, Store, StoreError, Version, WallTime};

use super::{
    CallerTaint, MAX_CALLERS, OwnedTaintSubject, REWRITE_INTERVAL, TAINT_LIFETIME, TaintSubject,
    TaintTracker, WrittenTaint,
};
use crate::Gateway;

/// Store prefix of all taint rows.
const TAINT_PREFIX: &str = "taint/";
/// Number of rows per scan.
const SCAN_ROWS: usize = 500;
/// Delay before a failed write is retried.
const RETRY_DELAY: Duration = Duration::from_secs(5);
/// Lifetime of a row after its last write, including the interval in which the caller may have
/// called again.
const ROW_LIFETIME: Duration = TAINT_LIFETIME.saturating_add(REWRITE_INTERVAL);

/// Stored taint of one caller.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TaintRow {
    key: String,
    subject: String,
    untrusted: bool,
    private: bool,
    #[serde(rename = "at")]
    written_at: WallTime,
}

impl TaintRow {
    /// Returns the store key, a hash of fixed length.
    fn store_key(key: &str, subject: &str) -> String {
        let mut hash = Sha256::new();
        hash.update(key);
        hash.update([0]);
        hash.update(subject);
        format!("{TAINT_PREFIX}{}", Digest(hash.finalize().into()))
    }

    fn is_valid(&self, now: WallTime) -> bool {
        Duration::from_millis(now.0.saturating_sub(self.written_at.0)) < ROW_LIFETIME
    }
}

impl TaintTracker {
    fn take_pending_writes(&self) -> FastMap<u64, OwnedTaintSubject> {
        let mut kept = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut kept.pending_writes)
    }

    fn caller_state(&self, id: u64) -> Option<CallerTaint> {
        let kept = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        kept.callers.get(&id).copied()
    }

    fn set_written(&self, id: u64, written: WrittenTaint) {
        let mut kept = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = kept.callers.get_mut(&id) {
            seen.written = Some(written);
        }
    }

    /// Marks all callers until the overflow expires.
    fn mark_everyone(&self, now: MonotonicTime) {
        let mut kept = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        kept.overflow_since = Some(now);
        self.is_any_marked.store(true, Ordering::Release);
    }

    /// Restores a row, as if its caller had just made a call.
    fn restore_row(&self, row: &TaintRow, (now, version): (MonotonicTime, Version)) {
        let TaintRow { key, subject, untrusted, private, .. } = row;
        let taint = SessionTaint { has_untrusted: *untrusted, has_private: *private };
        let id = self.caller_hash(TaintSubject { root_key_id: key, subject });
        let mut kept = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.reserve_slot(id, now) {
            let written = Some(WrittenTaint { taint, last_call: now, version });
            kept.callers.insert(id, CallerTaint { taint, last_call: now, written });
        }
        self.is_any_marked.store(true, Ordering::Release);
    }

    /// Writes pending rows. Rows that could not be written stay pending.
    async fn write_pending(&self, store: &dyn Store, now: WallTime) -> Result<(), StoreError> {
        let mut due = self.take_pending_writes();
        while let Some(id) = due.keys().next().copied() {
            let (Some(subject), Some(seen)) = (due.remove(&id), self.caller_state(id)) else {
                continue;
            };
            let wrote = self.write_row(store, (id, seen), &subject, now).await;
            if let Err(error) = wrote {
                due.insert(id, subject);
                let mut kept = self.table.lock().unwrap_or_else(PoisonError::into_inner);
                kept.pending_writes.extend(due);
                return Err(error);
            }
        }
        Ok(())
    }

    async fn write_row(
        &self,
        store: &dyn Store,
        (id, seen): (u64, CallerTaint),
        whose: &OwnedTaintSubject,
        at: WallTime,
    ) -> Result<(), StoreError> {
        let SessionTaint { has_untrusted: untrusted, has_private: private } = seen.taint;
        let OwnedTaintSubject { root_key_id: key, subject } = whose.clone();
        let name = TaintRow::store_key(&key, &subject);
        let row = TaintRow { key, subject, untrusted, private, written_at: at };
        let bytes = || Some(Json::encode(&row).bytes().clone());
        let known = seen.written.map(|written| written.version);
        let version = match store.put_value(&name, precondition_for(known), bytes()).await {
            Err(StoreError::Conflict { .. }) => {
                // Another server wrote or removed it.
                let there = store.get_value(&name).await?.map(|row| row.version);
                store.put_value(&name, precondition_for(there), bytes()).await?
            }
            version => version?,
        };
        let CallerTaint { taint, last_call, .. } = seen;
        self.set_written(id, WrittenTaint { taint, last_call, version });
        Ok(())
    }
}

fn precondition_for(version: Option<Version>) -> WritePrecondition {
    version.map_or(WritePrecondition::Absent, WritePrecondition::Version)
}

impl Gateway {
    /// Restores the taint of callers after a restart, and removes expired rows.
    pub(crate) async fn restore_taints(&self, store: &dyn Store) {
        let mono = self.components.clock.monotonic_now();
        if let Err(error) = self.visit_taint_rows(store, Some(mono)).await {
            tracing::error!(
                %error,
                "cannot read the taints of callers; all callers are treated as tainted"
            );
            self.taint_tracker.mark_everyone(mono);
        }
    }

    /// Visits all rows: restores valid ones if `up` is given, and removes expired ones.
    async fn visit_taint_rows(
        &self,
        store: &dyn Store,
        up: Option<MonotonicTime>,
    ) -> Result<(), StoreError> {
        let wall = self.components.clock.wall_now();
        let mut after = None::<String>;
        for _ in 0..=MAX_CALLERS / SCAN_ROWS {
            let rows = store.scan_prefix(TAINT_PREFIX, after.as_deref(), SCAN_ROWS).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = Some(last.key.clone());
            for row in &rows {
                let read: Option<TaintRow> = serde_json::from_slice(&row.bytes).ok();
                match (read, up) {
                    (Some(read), None) if read.is_valid(wall) => continue,
                    (Some(read), Some(mono)) if read.is_valid(wall) => {
                        self.taint_tracker.restore_row(&read, (mono, row.version));
                        continue;
                    }
                    (None, Some(mono)) => {
                        tracing::error!(key = row.key, "cannot read a taint of a caller");
                        self.taint_tracker.mark_everyone(mono);
                        // It stays until everything that it may have contained has expired: a
                        // second start must see it too.
                        continue;
                    }
                    _ => {}
                }
                // A row that was written again meanwhile stays.
                drop(
                    store.put_value(&row.key, WritePrecondition::Version(row.version), None).await,
                );
            }
        }
        Ok(())
    }

    /// Writes all pending taint; returns true if everything was written.
    pub(crate) async fn write_taints(&self, store: &dyn Store) -> bool {
        match self.taint_tracker.write_pending(store, self.components.clock.wall_now()).await {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, "cannot store the taints of callers yet");
                false
            }
        }
    }

    /// Writes taint continuously. Never returns.
    pub(crate) async fn run_taint_writer(&self, store: &dyn Store) {
        let mut swept = self.components.clock.monotonic_now();
        loop {
            tokio::select! {
                () = self.taint_tracker.write_notify.notified() => {}
                () = tokio::time::sleep(ROW_LIFETIME) => {}
            }
            while !self.write_taints(store).await {
                tokio::time::sleep(RETRY_DELAY).await;
            }
            let now = self.components.clock.monotonic_now();
            if now.saturating_duration_since(swept) >= ROW_LIFETIME {
                swept = now;
                drop(self.visit_taint_rows(store, None).await);
            }
        }
    }
}

#[cfg(test)]
mod tests;
