//! Tools for arithmetic, and the expression language that they share.

pub(crate) mod calculator;
pub(crate) mod exact_number;
pub(crate) mod expression;
mod function_table;
