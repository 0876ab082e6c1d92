//! Tools for code. They run code in a sandbox or a separate interpreter, never in this process.

pub(crate) mod git_status;
pub(crate) mod lint_python;
pub(crate) mod python_eval;
pub(crate) mod run_shell;
