//! The cancel signal of a call, and a progress sink that discards everything.

use tokio_util::sync::CancellationToken;
use tool::BoxFuture;
use tool::executor::{CancelSignal, ProgressSink};

/// Cancel signal that wraps a cancellation token.
#[derive(Debug)]
pub(crate) struct TokenCancelSignal(pub(crate) CancellationToken);

impl CancelSignal for TokenCancelSignal {
    fn cancelled(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.cancelled())
    }
    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

/// Progress sink that discards everything.
#[derive(Debug)]
pub struct NoopProgress;

impl ProgressSink for NoopProgress {
    fn report_progress(&self, _: f64, _: Option<f64>, _: Option<&str>) {}
    fn has_listener(&self) -> bool {
        false
    }
}
