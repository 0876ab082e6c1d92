//! Packages as they come, and as attackers make them.

#[cfg(test)]
mod packages;
