//! The cancel signal of a call, and a progress sink that discards everything.

use tokio_util::sync::CancellationToken;
use tool::Boxed;
use tool::executor::{Cancel, Progress};

/// Cancel signal that wraps a cancellation token.
#[derive(Debug)]
pub(crate) struct Signal(pub(crate) CancellationToken);

impl Cancel for Signal {
    fn cancelled(&self) -> Boxed<'_, ()> {
        Box::pin(self.0.cancelled())
    }
    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

/// Progress sink that discards everything.
#[derive(Debug)]
pub struct Unheard;

impl Progress for Unheard {
    fn report(&self, _: f64, _: Option<f64>, _: Option<&str>) {}
    fn wanted(&self) -> bool {
        false
    }
}
