//! Context of the call that runs a program, and a cancel signal for segments without such a call.

use tool::BoxFuture;
use tool::executor::{CancelSignal, ProgressSink};

/// Context of the call that runs a program: cancellation, progress and usage report.
#[derive(Clone, Copy)]
pub struct ParentCall<'a> {
    /// Fires when the call is cancelled.
    pub cancel_signal: &'a dyn CancelSignal,
    /// Receiver of progress reports.
    pub progress: &'a dyn ProgressSink,
    /// Receives the interpreter's resource usage.
    pub report_usage: &'a (dyn Fn(tool::SandboxUsage) + Send + Sync),
}

impl std::fmt::Debug for ParentCall<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParentCall").finish_non_exhaustive()
    }
}

/// Cancel signal that never fires, for segments that no call waits for.
pub(crate) struct NeverCancelled;

impl CancelSignal for NeverCancelled {
    fn cancelled(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn is_cancelled(&self) -> bool {
        false
    }
}
