//! Tests of the binary: as users run it, on real input, under load, with faults and with kills.

#[cfg(test)]
mod added_sources;
#[cfg(test)]
mod approvals;
#[cfg(test)]
mod attack_data;
#[cfg(test)]
mod authorization;
#[cfg(test)]
mod background;
#[cfg(test)]
mod clients;
#[cfg(test)]
mod command_runner;
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod guide_commands;
#[cfg(test)]
mod http_stack;
#[cfg(test)]
mod idle_server;
#[cfg(test)]
mod inherited_holes;
#[cfg(test)]
mod interface_matrix;
#[cfg(test)]
mod language_model;
#[cfg(test)]
mod makefile;
#[cfg(test)]
mod mcp;
#[cfg(test)]
mod modules;
#[cfg(test)]
mod mount_namespace;
#[cfg(test)]
mod nodes;
#[cfg(test)]
mod offline_commands;
#[cfg(test)]
mod operator_output;
#[cfg(test)]
mod plugins;
#[cfg(test)]
mod program_description;
#[cfg(test)]
mod programs;
#[cfg(test)]
mod real;
#[cfg(test)]
mod real_support;
#[cfg(test)]
mod record_commands;
#[cfg(test)]
mod refused_kernel;
#[cfg(test)]
mod sandbox_levels;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod server_commands;
#[cfg(test)]
#[path = "../../../builtins-llm/src/tests/small_model.rs"]
mod small_model;
#[cfg(test)]
mod source_wait;
#[cfg(test)]
mod stdio_transport;
#[cfg(test)]
mod store_rows;
#[cfg(test)]
mod support;
#[cfg(test)]
mod upgrade_check;
#[cfg(test)]
mod user_stories;
