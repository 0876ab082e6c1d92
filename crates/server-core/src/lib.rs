//! The foundation that all server interfaces share: the server state, authentication, allowed hosts
//! and origins, errors, keys and token issuers, and how routes and request bodies are declared and
//! decoded.
//!
//! It makes no authorization decision: those belong to the gateway and the policy.

pub mod admission;
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
