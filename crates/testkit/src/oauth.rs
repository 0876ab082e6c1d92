//! An authorization server and an MCP server that wants its tokens, both on loopback and both speaking
//! the real protocol: OAuth 2.1 with PKCE, registration, refresh tokens that rotate, scopes, audiences.
//! What they do wrong is set by the test.

mod authority;
mod resource;
mod site;

pub use authority::{Authority, Habits};
pub use resource::Resource;
pub use site::Seen;
