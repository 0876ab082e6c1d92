//! Tests that faulty sources, stubborn child processes and broken configurations do not affect
//! other calls.

mod client_churn;
mod config_reload;
mod dead_sources;
mod faulty_sources;
mod orphan_processes;
mod policy_reload;
mod reload_storm;
