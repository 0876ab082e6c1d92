//! Executors around executors. What a source's operator asks for is wrapped around its executors when
//! they are wired: first the place among those that run, then another try inside it.
//!
//! Time limits are not here: the pipeline has them. Nothing here makes a call twice that may change
//! something.

mod concurrency;
mod retry;

pub use concurrency::{Concurrency, Gate};
pub use retry::RetryOnce;
