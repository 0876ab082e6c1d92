//! The tasks extension of 2026-07-28: calls that continue after their client received a task id,
//! and the requests about them.
//!
//! A task is the same call, continued by this process: one intent and one outcome, even without a
//! listener. Its result is what the call would have returned.

mod asked;
mod kept;
mod state;

use std::sync::Arc;

use gateway::{Detached, Request};
use tokio::time::sleep;

use super::result::Written;
use super::run::Finish;

pub(crate) use asked::{answer, listened};
pub(crate) use kept::Kept;
pub(crate) use state::Task;

/// A task that belongs to its request until the call detaches; otherwise it is removed with the
/// request.
struct Offered(Option<Arc<Task>>);

impl Offered {
    fn keep(mut self) -> Option<Arc<Task>> {
        self.0.take()
    }
}

impl Drop for Offered {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.forget();
        }
    }
}

/// Runs a call until it returns or becomes a task. In that case the response is the task, and the
/// call continues in the background.
pub(crate) async fn run(finish: Finish, task: Arc<Task>, mut request: Box<Request>) -> Written {
    let cancel = task.cancel.clone();
    request.task = Some(Box::new(Detached { task: Arc::clone(&task) as _, cancel }));
    let (doors, id) = (finish.doors.clone(), finish.id.clone());
    let offered = Offered(Some(Arc::clone(&task)));
    let mut work = Box::pin(finish.answered(request));
    tokio::select! {
        biased;
        (written, _) = &mut work => return written,
        () = task.begun() => {}
    }
    let created = task.created(&id);
    let Some(task) = offered.keep() else { return created };
    drop(doors.mcp.tasks.spawn(async move {
        let (written, status) = work.await;
        task.end(written, status);
        sleep(task.left()).await;
        task.forget();
    }));
    created
}
