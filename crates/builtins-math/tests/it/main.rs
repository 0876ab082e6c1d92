//! The tools as they are offered.

#[cfg(test)]
mod real;
