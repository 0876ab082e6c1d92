//! OAuth test servers on loopback: an authorization server, and an MCP server that requires its
//! tokens. Both speak the real protocol: OAuth 2.1 with PKCE, registration, rotating refresh
//! tokens, scopes and audiences.
//!
//! Tests configure their faults.

mod authorization_server;
mod protected_server;
mod recording_server;

pub use authorization_server::{AuthorityBehavior, AuthorizationServer};
pub use protected_server::ProtectedServer;
pub use recording_server::RecordedRequest;
