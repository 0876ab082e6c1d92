//! The rows of tasks in the store: written when a call becomes a task and when it ends.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tool::store::WritePrecondition;
use tool::{CallId, Json, Store, StoreError};
use uuid::Uuid;

use super::stored_task::StoredTask;
use super::task_store::MAX_TASKS;

/// Store prefix of the tasks.
const STORE_PREFIX: &str = "mcp_task/";
/// Store rows read per page.
const SCAN_PAGE_ROWS: usize = 16;

/// The rows of all tasks; empty until a store is set, as in an embedding program.
#[derive(Debug, Default)]
pub(super) struct TaskRows(OnceLock<Arc<dyn Store>>);

impl TaskRows {
    /// Sets the store, which should be encrypted: results may be confidential.
    pub(super) fn set_store(&self, store: Arc<dyn Store>) {
        // A second store would split the rows; the first one stays.
        drop(self.0.set(store));
    }

    /// Writes the first row of a task.
    pub(super) async fn insert_row(&self, call: CallId, row: &StoredTask) {
        self.write_row(call, WritePrecondition::Absent, row).await;
    }

    /// Writes a later row of a task, unless its row was removed.
    pub(super) async fn replace_row(&self, call: CallId, row: &StoredTask) {
        let Some(store) = self.0.get() else { return };
        if let Ok(Some(before)) = store.get_value(&row_key(call)).await {
            self.write_row(call, WritePrecondition::Version(before.version), row).await;
        }
    }

    async fn write_row(&self, call: CallId, expect: WritePrecondition, row: &StoredTask) {
        let Some(store) = self.0.get() else { return };
        let bytes = Json::encode(row).bytes().clone();
        if let Err(error) = store.put_value(&row_key(call), expect, Some(bytes)).await {
            tracing::warn!(%call, %error, "cannot store a task: it would not survive a restart");
        }
    }

    /// Removes rows. One that cannot be removed now is removed by the next process.
    pub(super) async fn remove_rows(&self, calls: Vec<CallId>) {
        let Some(store) = self.0.get() else { return };
        for call in calls {
            if let Ok(Some(row)) = store.get_value(&row_key(call)).await {
                drop(
                    store.put_value(&row.key, WritePrecondition::Version(row.version), None).await,
                );
            }
        }
    }

    /// Reads the rows of earlier processes. A row that cannot be read is reported and ignored.
    pub(super) async fn read_rows(&self) -> Result<Vec<(CallId, StoredTask)>, StoreError> {
        let Some(store) = self.0.get() else { return Ok(Vec::new()) };
        let (mut rows, mut after) = (Vec::new(), None::<String>);
        while rows.len() < MAX_TASKS {
            let page = store.scan_prefix(STORE_PREFIX, after.as_deref(), SCAN_PAGE_ROWS).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.key.clone());
            rows.extend(page.iter().filter_map(|row| parse_row(&row.key, &row.bytes)));
        }
        Ok(rows)
    }
}

fn parse_row(key: &str, bytes: &Bytes) -> Option<(CallId, StoredTask)> {
    let call = key.strip_prefix(STORE_PREFIX).and_then(|id| Uuid::parse_str(id).ok()).map(CallId);
    let row = serde_json::from_slice::<StoredTask>(bytes).ok();
    if call.is_none() || row.is_none() {
        tracing::error!(row = key, "cannot read a stored task; it is ignored");
    }
    call.zip(row)
}

fn row_key(call: CallId) -> String {
    format!("{STORE_PREFIX}{call}")
}
