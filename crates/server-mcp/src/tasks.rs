//! The tasks extension of MCP 2026-07-28: calls that continue after their client received a task
//! id, and the requests about them.
//!
//! A task is the same call, continued by this process: one intent and one outcome, even without a
//! listener. Its result is what the call would have returned. Tasks are stored, so that a later
//! process answers for them, and continues a call whose source continued it.

mod call_task;
mod durable_state;
mod stored_task;
mod task_continuation;
mod task_methods;
mod task_rows;
mod task_state;
mod task_store;

use std::pin::Pin;
use std::sync::Arc;

use gateway::{CallRequest, TaskRequest};
use tokio::sync::oneshot;
use tokio::time::sleep;
use tool::call_outcome::CallStatus;

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
    let (row_written, when_written) = oneshot::channel();
    drop(state.mcp_components.background_tasks.spawn(async move {
        let insert = async {
            task.insert_row().await;
            // The receiver is gone if the client has disconnected.
            let _gone = row_written.send(());
        };
        let run = async {
            let ((), end) = tokio::join!(insert, work);
            end
        };
        run_to_end(Arc::clone(&task), Box::pin(run)).await;
    }));
    // A client that knows the id finds the task after a restart.
    drop(when_written.await);
    created
}

/// Runs the call of a task to its end and keeps the result until the task expires.
async fn run_to_end(
    task: Arc<CallTask>,
    work: Pin<Box<impl Future<Output = (EncodedResult, CallStatus)>>>,
) {
    let (written, status) = work.await;
    if task.finish_call(written, status) {
        task.replace_row().await;
    }
    sleep(task.remaining_ttl()).await;
    task.remove_from_store();
    task.store.flush_removals().await;
}
