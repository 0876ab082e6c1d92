//! Tests of the MCP endpoints that need the whole program: restarts, kills, the network.

mod durable_tasks;
mod events;
mod raw_client;
mod source_events;
