//! The task-local principal of the running call, for built-in tools that report what their caller
//! may see.
//!
//! Sources receive the facts about a caller and nothing they could decide with; this is for code
//! above the gateway that runs as a tool.

use identity::Principal;

use crate::Gateway;

tokio::task_local! {
    static ASKER: Principal;
}

impl Gateway {
    /// Returns the principal of the call that runs in this task, with the request's restrictions.
    /// `None` outside a call, and in tasks that its executor spawned.
    pub fn asker() -> Option<Principal> {
        ASKER.try_with(Clone::clone).ok()
    }
}

/// Runs `execution` as the call of `principal`.
pub(crate) async fn asked_by<F: Future>(principal: Principal, execution: F) -> F::Output {
    ASKER.scope(principal, execution).await
}
