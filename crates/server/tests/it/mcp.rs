//! Tests of the MCP interface with raw JSON-RPC.

pub(crate) mod all_sources;
mod calls;
pub(crate) mod cancel;
mod client_requests;
mod events;
mod extension_methods;
mod item_pages;
mod legacy;
mod listing_modes;
mod malformed_messages;
mod modern;
mod progress;
mod random_views;
mod rmcp_client;
mod search_mode;
mod sessions;
mod skills;
mod source;
mod source_events;
pub(crate) mod streams;
pub(crate) mod tasks;
mod toolsets;
