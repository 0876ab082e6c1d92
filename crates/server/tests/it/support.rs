//! Shared fixtures: a server with known tools and a plain HTTP client.

pub(crate) mod browser;
pub(crate) mod client;
pub(crate) mod configuration;
pub(crate) mod executors;
pub(crate) mod rmcp_peer;
pub(crate) mod test_server;
pub(crate) mod token_issuer;
pub(crate) mod tools;

pub(crate) use browser::{Browser, Page};
pub(crate) use client::{Client, Reply};
pub(crate) use executors::Gate;
pub(crate) use test_server::{FixtureServer, ServerSetup, within_a_minute};
