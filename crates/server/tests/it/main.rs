//! A whole server in this process, on a port of its own, spoken to over TCP.

#[cfg(test)]
mod admission;
#[cfg(test)]
mod approvals;
#[cfg(test)]
mod catalogue;
#[cfg(test)]
mod claims;
#[cfg(test)]
mod cluster;
#[cfg(test)]
mod connection_limits;
#[cfg(test)]
mod connections;
#[cfg(test)]
mod data;
#[cfg(test)]
mod doors;
#[cfg(test)]
mod facades;
#[cfg(test)]
mod files;
#[cfg(test)]
mod grpc;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod matrix;
#[cfg(test)]
mod mcp;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod openapi;
#[cfg(test)]
mod plugins;
#[cfg(test)]
mod policy;
#[cfg(test)]
mod programs;
#[cfg(test)]
mod rest;
#[cfg(test)]
mod support;
#[cfg(test)]
mod who;
