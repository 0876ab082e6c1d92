//! Optional layers around the calls of a source: redaction of secrets, and one retry.
//!
//! Timeouts belong to the pipeline. The retry repeats only calls that are read-only or idempotent.

mod call_retry;
mod redacted_source;
pub mod redaction;

pub use option_types::ToolSelection;

pub use call_retry::{RetryOnceExecutor, RetrySource};
pub use redacted_source::{RedactedExecutor, RedactedSource};
