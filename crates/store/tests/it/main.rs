//! One suite over both stores, what only the file has, and the caches.
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod file;
#[cfg(test)]
mod kept;
#[cfg(test)]
mod real;
#[cfg(test)]
mod row_macs;
