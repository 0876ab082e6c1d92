//! Tests of nodes on the loopback, called over gRPC and registered with a recording registry.

#[cfg(test)]
mod macros;
#[cfg(test)]
mod nodes;
#[cfg(test)]
mod registry;
