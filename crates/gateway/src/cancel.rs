//! Giving a call up.

use tokio_util::sync::CancellationToken;
use tool::Boxed;
use tool::executor::{Cancel, Progress};

/// A cancel signal on a token.
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

/// Progress that nobody wants.
#[derive(Debug)]
pub struct Unheard;

impl Progress for Unheard {
    fn report(&self, _: f64, _: Option<f64>, _: Option<&str>) {}
    fn wanted(&self) -> bool {
        false
    }
}
