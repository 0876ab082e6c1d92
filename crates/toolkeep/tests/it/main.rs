//! The binary: as people run it, on real input, under load, under faults and under the axe.

#[cfg(test)]
mod authorization;
#[cfg(test)]
mod background;
#[cfg(test)]
mod cage;
#[cfg(test)]
mod clients;
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod data;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod held;
#[cfg(test)]
mod http_stack;
#[cfg(test)]
mod idle;
#[cfg(test)]
mod language;
#[cfg(test)]
mod makefile;
#[cfg(test)]
mod matrix;
#[cfg(test)]
mod modules;
#[cfg(test)]
mod newcomer;
#[cfg(test)]
mod nodes;
#[cfg(test)]
mod operator;
#[cfg(test)]
mod plugins;
#[cfg(test)]
mod program;
#[cfg(test)]
mod programs;
#[cfg(test)]
mod real;
#[cfg(test)]
mod record;
#[cfg(test)]
mod root;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod serve;
#[cfg(test)]
#[path = "../../../builtins-llm/src/tests/small_model.rs"]
mod small_model;
#[cfg(test)]
mod source_wait;
#[cfg(test)]
mod stdio;
#[cfg(test)]
mod store_rows;
#[cfg(test)]
mod story;
#[cfg(test)]
mod support;
#[cfg(test)]
mod support_real;
#[cfg(test)]
mod traps;
#[cfg(test)]
mod without_server;
