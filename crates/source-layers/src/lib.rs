//! Layers that an operator asks for around the calls of any source: secrets taken out of answers, and one retry.
//!
//! Time limits are not here: the pipeline has them. Nothing here makes a call twice that may change
//! something twice.

mod redacted;
pub mod redaction;
mod retry;
mod tool_selection;

pub use redacted::{Redacted, RedactedExecutor};
pub use retry::{RetryOnce, Retrying};
pub use tool_selection::ToolSelection;
