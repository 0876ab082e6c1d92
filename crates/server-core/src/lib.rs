//! What every interface of the server stands on: its state, who asks, hosts and origins, errors, keys and
//! issuers, and how routes and bodies are declared and read.
//!
//! It holds no decision: whoever may do a thing is the gateway's and the policy's to say.

pub mod auth;
pub mod body;
pub mod call_result;
pub mod context;
pub mod counts;
pub mod error;
pub mod held;
pub mod hidden_characters;
pub mod hosts;
pub mod issuers;
pub mod keys;
pub mod lists;
pub mod metrics;
pub mod node_rights;
pub mod packed;
pub mod pending_connections;
pub mod programs;
pub mod query;
pub mod room;
pub mod route;
pub mod seal;
pub mod state;
pub mod status;
pub mod steady_clock;
pub mod streams;

pub use counts::Counts;
pub use error::ApiError;
pub use hosts::Hosts;
pub use issuers::{Issuers, KeySource, Trusted};
pub use keys::Keys;
pub use programs::Programs;
pub use state::{Doors, MAX_BODY, Notices, Parts};
pub use steady_clock::SteadyClock;
