//! Tools for code. What they run, runs in a cage or is theirs alone, never in this process.

pub(crate) mod git_status;
pub(crate) mod lint_python;
pub(crate) mod python_eval;
pub(crate) mod run_shell;
