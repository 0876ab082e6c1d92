//! Port that observes calls at the end of the pipeline.

use std::fmt;

use identity::Principal;
use tool::ToolKey;

/// Observes calls of every interface that succeeded. Called on the call path: it must not block, and may
/// forget calls. It sees no arguments and no results.
pub trait CallObserver: Send + Sync + fmt::Debug {
    /// Notifies of a call that succeeded and whose outcome is recorded.
    fn notify_success(&self, principal: &Principal, tool: &ToolKey);
}
