//! Tools for arithmetic, and the expression language that they share.

pub(crate) mod calculator;
pub(crate) mod expression;
mod functions;
pub(crate) mod number;
