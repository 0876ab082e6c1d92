//! Tools that compute.

pub(crate) mod calculator;
pub(crate) mod expression;
mod functions;
pub(crate) mod number;
