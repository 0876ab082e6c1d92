//! Who makes the call that is running, for tools of ours that tell of what their caller may see.
//!
//! Sources get the facts of a caller and nothing they could decide with; this is for who stands above the
//! gateway and is called by way of it.

use identity::Principal;

use crate::Gateway;

tokio::task_local! {
    static ASKER: Principal;
}

impl Gateway {
    /// The principal of the call that runs in this task, narrowed as its request asked for; nothing outside
    /// of a call, and in tasks that its executor spawned.
    pub fn asker() -> Option<Principal> {
        ASKER.try_with(Clone::clone).ok()
    }
}

/// Runs `execution` as the call of `principal`.
pub(crate) async fn asked_by<F: Future>(principal: Principal, execution: F) -> F::Output {
    ASKER.scope(principal, execution).await
}
