//! Tools that run code. It runs in a cage, never in this process.

pub(crate) mod python_eval;
pub(crate) mod run_shell;
