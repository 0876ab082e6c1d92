//! The tasks of this process, with their owners and limits.
//!
//! A task id is the encrypted call id, bound to key and endpoint: only its recipient can use it,
//! and nobody can forge one. The running call is in memory; a row of the store answers for the task
//! after a restart.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tool::{CallId, Clock, Secret, Store, StoreError, WallTime};
use uuid::Uuid;

use super::call_task::CallTask;
use super::stored_task::TaskRights;
use super::task_rows::TaskRows;
use crate::request_context::{EndpointCaller, RequestContext};
use server_core::sealing_key::SealingKey;

/// Maximum duration of a call that became a task.
pub(super) const MAX_TASK_DURATION: Duration = Duration::from_hours(1);
/// Time for which a task can be queried, from its creation.
pub(super) const TASK_TTL: Duration = Duration::from_mins(70);
/// Maximum number of tasks of one root key, including finished ones that are kept.
pub(super) const MAX_TASKS_PER_KEY: usize = 64;
/// Maximum number of tasks that run at one source, which leaves capacity for other calls.
pub(super) const MAX_TASKS_PER_SOURCE: usize = 128;
/// Maximum number of tasks in total.
pub(super) const MAX_TASKS: usize = 1_024;
/// Maximum bytes of stored results per root key.
const MAX_RESULT_BYTES_PER_KEY: usize = 16 << 20;
/// Maximum bytes of stored results in total.
const MAX_RESULT_BYTES: usize = 64 << 20;

/// The organization, key and endpoint that a task belongs to.
pub(super) type TaskOwner = [Box<str>; 3];

/// The store of all tasks; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct TaskStore {
    sealing_key: Arc<SealingKey>,
    table: Arc<Mutex<TaskTable>>,
    rows: Arc<TaskRows>,
}

#[derive(Debug, Default)]
struct TaskTable {
    tasks: HashMap<CallId, Arc<CallTask>>,
    closed: bool,
    /// Tasks whose rows are still to be removed.
    removed: Vec<CallId>,
}

/// The root key whose limits apply to the caller's tasks.
fn root_key_of(caller: EndpointCaller<'_>) -> Box<str> {
    format!("{}/{}", caller.principal.org().as_str(), caller.principal.limit_key_id()).into()
}

impl TaskStore {
    pub(crate) fn new(secret: &Secret) -> Self {
        Self {
            sealing_key: Arc::new(SealingKey::new(secret, "toolkeep mcp task")),
            table: Arc::default(),
            rows: Arc::default(),
        }
    }

    /// Creates a task for a call that may detach.
    pub(crate) fn reserve_task(
        &self,
        request: &RequestContext<'_>,
        client_tool_name: Option<String>,
    ) -> Arc<CallTask> {
        let caller = request.caller;
        let owner = caller.endpoint.owner_binding(caller.principal).map(Into::into);
        CallTask::new(
            self.clone(),
            (owner, root_key_of(caller)),
            TaskRights::new(caller.principal, client_tool_name),
            request.client_capabilities(),
            Arc::clone(&caller.state.components.clock),
        )
    }

    /// Stores tasks in `store` from now on, and restores those of earlier processes. Returns how many
    /// can still be queried.
    pub(crate) async fn restore_tasks(
        &self,
        store: Arc<dyn Store>,
        clock: &Arc<dyn Clock>,
    ) -> Result<usize, StoreError> {
        self.rows.set_store(store);
        let rows = self.rows.read_rows().await?;
        let restored = {
            let mut all = self.lock_table();
            for (call, row) in rows {
                let task = CallTask::from_row(self.clone(), row, Arc::clone(clock));
                all.tasks.insert(call, task);
            }
            all.remove_expired(clock.wall_now());
            all.tasks.len()
        };
        self.flush_removals().await;
        Ok(restored)
    }

    pub(super) fn rows(&self) -> &TaskRows {
        &self.rows
    }

    /// Removes the rows of removed tasks.
    pub(super) async fn flush_removals(&self) {
        let removed = std::mem::take(&mut self.lock_table().removed);
        self.rows.remove_rows(removed).await;
    }

    /// Removes tasks that have expired.
    pub(crate) async fn remove_expired(&self, now: WallTime) {
        self.lock_table().remove_expired(now);
        self.flush_removals().await;
    }

    fn lock_table(&self) -> MutexGuard<'_, TaskTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Encrypts the task id of a call; `None` if no randomness is available.
    pub(super) fn seal_task_id(&self, owner: &TaskOwner, call: CallId) -> Option<String> {
        let binding = owner.each_ref().map(|part| &**part);
        self.sealing_key.seal_bytes(&binding, call.0.as_bytes())
    }

    /// Finds the task of an id that was issued to this caller at this endpoint.
    pub(crate) fn find_task(&self, caller: EndpointCaller<'_>, id: &str) -> Option<Arc<CallTask>> {
        let binding = caller.endpoint.owner_binding(caller.principal);
        let plain = self.sealing_key.open_sealed(&binding, id)?;
        let call = CallId(Uuid::from_slice(&plain).ok()?);
        let now = caller.state.components.clock.wall_now();
        let mut all = self.lock_table();
        all.remove_expired(now);
        all.tasks.get(&call).map(Arc::clone)
    }

    /// Adds a task. Returns false if there are too many.
    pub(super) fn try_insert(&self, call: CallId, task: Arc<CallTask>, now: WallTime) -> bool {
        let mut all = self.lock_table();
        all.remove_expired(now);
        let source = task.source();
        let beside = all.tasks.values().filter(|other| other.runs_at_source(source.as_ref()));
        let room = !all.closed
            && beside.count() < MAX_TASKS_PER_SOURCE
            && all.evict_fetched_until(&task, |all, mine| {
                all.tasks_of_owner(mine).count() < MAX_TASKS_PER_KEY
            })
            && all.evict_fetched_until(&task, |all, _| all.tasks.len() < MAX_TASKS);
        if room {
            all.tasks.insert(call, task);
        }
        room
    }

    /// Makes room for a result of `bytes` bytes. Returns false if the limits do not allow it.
    pub(super) fn reserve_result_bytes(&self, task: &CallTask, bytes: usize) -> bool {
        let mut all = self.lock_table();
        let sum = |tasks: &mut dyn Iterator<Item = &Arc<CallTask>>| -> usize {
            tasks.map(|task| task.stored_bytes()).sum()
        };
        all.evict_fetched_until(task, |all, mine| {
            sum(&mut all.tasks_of_owner(mine)) + bytes <= MAX_RESULT_BYTES_PER_KEY
        }) && all.evict_fetched_until(task, |all, _| {
            sum(&mut all.tasks.values()) + bytes <= MAX_RESULT_BYTES
        })
    }

    pub(super) fn remove_task(&self, call: CallId) {
        self.lock_table().remove_task(call);
    }

    /// Cancels all running calls and accepts no new tasks. A later process continues those that their
    /// source continues.
    pub(crate) fn cancel_all(&self) {
        let mut all = self.lock_table();
        all.closed = true;
        all.tasks.values().for_each(|task| task.suspend_call());
    }
}

impl TaskTable {
    /// Removes expired tasks and cancels those that still run.
    fn remove_expired(&mut self, now: WallTime) {
        let removed = &mut self.removed;
        self.tasks.retain(|call, task| {
            let holds = !task.is_expired(now);
            if !holds {
                task.cancel.cancel();
                removed.push(*call);
            }
            holds
        });
    }

    fn remove_task(&mut self, call: CallId) {
        if self.tasks.remove(&call).is_some() {
            self.removed.push(call);
        }
    }

    /// The tasks of the same root key as `mine`.
    fn tasks_of_owner<'a>(&'a self, mine: &'a CallTask) -> impl Iterator<Item = &'a Arc<CallTask>> {
        self.tasks.values().filter(|task| task.has_same_owner(mine))
    }

    /// Removes fetched results, oldest first, until `enough` is satisfied: of this root key first,
    /// then of any. Returns false if none is left.
    fn evict_fetched_until(
        &mut self,
        mine: &CallTask,
        enough: impl Fn(&Self, &CallTask) -> bool,
    ) -> bool {
        while !enough(self, mine) {
            let fetched = self.tasks.iter().filter(|(_, task)| task.was_fetched());
            // Ids sort by time.
            let oldest = fetched.min_by_key(|(call, task)| (!task.has_same_owner(mine), **call));
            let Some(call) = oldest.map(|(call, _)| *call) else { return false };
            self.remove_task(call);
        }
        true
    }
}
