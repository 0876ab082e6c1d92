//! What an operator asks for around the calls of a source.
//!
//! Time limits are not here: the pipeline has them. Nothing here makes a call twice that may change
//! something twice.

mod redacted;
mod retry;

pub use redacted::{Redacted, RedactedExecutor};
pub use retry::{RetryOnce, Retrying};
