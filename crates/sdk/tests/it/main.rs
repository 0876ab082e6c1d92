//! Nodes on the loopback: called over gRPC, registered with a registry that remembers.

#[cfg(test)]
mod macros;
#[cfg(test)]
mod nodes;
#[cfg(test)]
mod registry;
