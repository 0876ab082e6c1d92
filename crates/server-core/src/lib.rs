//! Shared foundation of the server interfaces: server state, authentication, allowed hosts and
//! origins, errors, keys and token issuers. It also declares routes and decodes request bodies.
//!
//! It makes no authorization decision: those belong to the gateway and the policy.

pub mod admission;
pub mod allowed_hosts;
pub mod attention_list;
pub mod authentication;
pub mod authorization_checks;
pub mod body;
pub mod body_budget;
pub mod call_activity;
pub mod call_counters;
pub mod call_history;
pub mod call_result;
pub mod child_calls;
pub mod configuration_file;
pub mod decision_explanation;
pub mod error;
pub mod event_log;
mod generation_cache;
pub mod gzip_response;
pub mod hidden_characters;
pub mod http_status;
pub mod key_delegation;
pub mod key_management;
pub mod key_store;
pub mod metrics;
pub mod node_management;
pub mod node_rights;
pub mod org_management;
pub mod page_query;
pub mod pending_call;
pub mod pending_connections;
pub mod persona_management;
pub mod pin_review;
pub mod plugin_management;
pub mod poll_times;
pub mod program_runner;
pub mod provider_forms;
pub mod public_address;
pub mod query_string;
pub mod record_export;
pub mod record_list;
pub mod record_storage;
pub mod record_verification;
pub mod request_restrictions;
pub mod role_management;
pub mod route;
pub mod sealing_key;
pub mod server_state;
pub mod sign_in_links;
pub mod source_addition;
pub mod source_list;
pub mod source_login;
pub mod steady_clock;
pub mod stream_limits;
pub mod token_issuers;
pub mod tool_access;
pub mod tool_lists;
pub mod tool_search;
pub mod tool_switches;
pub mod toolset_management;
pub mod user_management;
pub mod webhook;

pub use allowed_hosts::Hosts;
pub use call_counters::CallCounters;
pub use error::ApiError;
pub use event_log::EventLog;
pub use key_store::KeyStore;
pub use option_types::{ListingMode, ListingOptions};
pub use program_runner::ProgramRunner;
pub use server_state::{DEFAULT_MAX_BODY_BYTES, PendingCallOptions, ServerComponents, ServerState};
pub use steady_clock::SteadyClock;
pub use token_issuers::{IssuerTrust, JwksProvider, TokenIssuers};

#[cfg(test)]
mod tests;
