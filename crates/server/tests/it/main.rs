//! Tests of a complete server in this process, called over TCP on its own port.

#[cfg(test)]
mod admission;
#[cfg(test)]
mod approvals;
#[cfg(test)]
mod attack_data;
#[cfg(test)]
mod authorization_matrix;
#[cfg(test)]
mod caller_identity;
#[cfg(test)]
mod claimed_identity;
#[cfg(test)]
mod connection_limits;
#[cfg(test)]
mod connection_polls;
#[cfg(test)]
mod connections;
#[cfg(test)]
mod console;
#[cfg(test)]
mod discovery;
#[cfg(test)]
mod file_ledger;
#[cfg(test)]
mod grpc;
#[cfg(test)]
mod interfaces;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod mcp;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod module_api;
#[cfg(test)]
mod node_tools;
#[cfg(test)]
mod openapi;
#[cfg(test)]
mod plugins;
#[cfg(test)]
mod policy;
#[cfg(test)]
mod programs;
#[cfg(test)]
mod real;
#[cfg(test)]
mod rest;
#[cfg(test)]
mod search_views;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tool_packages;
