//! Tests of roots on real files.

#[cfg(test)]
mod data;
#[cfg(test)]
mod races;
#[cfg(test)]
mod roots;
