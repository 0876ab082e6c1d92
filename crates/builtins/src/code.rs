//! Tools for code.

pub(crate) mod git_status;
pub(crate) mod lint_python;
