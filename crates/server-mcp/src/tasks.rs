//! The tasks extension of MCP 2026-07-28: calls that continue after their client received a task
//! id, and the requests about them.
//!
//! A task is the same call, continued by this process: one intent and one outcome, even without a
//! listener. Its result is what the call would have returned.

mod call_task;
mod task_methods;
mod task_state;
mod task_store;

use std::sync::Arc;

use gateway::{CallRequest, TaskRequest};
use tokio::time::sleep;

use super::call_completion::CallCompletion;
use super::result_encoding::EncodedResult;

pub(crate) use call_task::CallTask;
pub(crate) use task_methods::{handle_task_method, subscribed_tasks};
pub(crate) use task_store::TaskStore;

/// A task that belongs to its request until the call detaches; otherwise it is removed with the
/// request.
struct TaskReservation(Option<Arc<CallTask>>);

impl TaskReservation {
    fn commit_task(mut self) -> Option<Arc<CallTask>> {
        self.0.take()
    }
}

impl Drop for TaskReservation {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.remove_from_store();
        }
    }
}

/// Runs a call until it returns or becomes a task. In that case the response is the task, and the
/// call continues in the background.
pub(crate) async fn run_detachable(
    completion: CallCompletion,
    task: Arc<CallTask>,
    mut request: Box<CallRequest>,
) -> EncodedResult {
    let cancel = task.cancel.clone();
    request.task =
        Some(Box::new(TaskRequest { task: Arc::clone(&task) as _, cancellation: cancel }));
    let (state, id) = (completion.state.clone(), completion.request_id.clone());
    let offered = TaskReservation(Some(Arc::clone(&task)));
    let mut work = Box::pin(completion.execute_for_task(request, Arc::clone(&task)));
    tokio::select! {
        biased;
        (written, _) = &mut work => return written,
        () = task.wait_created() => {}
    }
    let created = task.creation_result(&id);
    let Some(task) = offered.commit_task() else { return created };
    drop(state.mcp_components.background_tasks.spawn(async move {
        let (written, status) = work.await;
        task.finish_call(written, status);
        sleep(task.remaining_ttl()).await;
        task.remove_from_store();
    }));
    created
}
