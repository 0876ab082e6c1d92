//! Optional layers around the calls of a source: redaction of secrets, and one retry.
//!
//! Timeouts belong to the pipeline. The retry repeats only calls that are read-only or idempotent.

mod redacted;
pub mod redaction;
mod retry;
mod tool_selection;

pub use redacted::{Redacted, RedactedExecutor};
pub use retry::{RetryOnce, Retrying};
pub use tool_selection::ToolSelection;
