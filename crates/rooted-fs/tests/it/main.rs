//! What roots promise, tried on real files.

#[cfg(test)]
mod data;
#[cfg(test)]
mod races;
#[cfg(test)]
mod roots;
