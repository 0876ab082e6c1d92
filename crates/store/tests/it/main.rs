//! One suite over both stores, and what only the file has.
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod file;
