//! Tests of the math tools through their executors.

#[cfg(test)]
mod real;
