//! An authorization server and an MCP server that requires its tokens, both on loopback and both
//! with the real protocol: OAuth 2.1 with PKCE, registration, rotating refresh tokens, scopes,
//! audiences.
//!
//! Tests configure their faults.

mod authority;
mod resource;
mod site;

pub use authority::{Authority, Habits};
pub use resource::Resource;
pub use site::Seen;
