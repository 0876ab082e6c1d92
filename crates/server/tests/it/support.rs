//! What the tests share: a server with known tools, and a plain HTTP client.

pub(crate) mod bench;
pub(crate) mod client;
pub(crate) mod executors;
pub(crate) mod issuer;
pub(crate) mod peer;
pub(crate) mod tools;

pub(crate) use bench::{Server, Setup, soon};
pub(crate) use client::{Client, Reply};
pub(crate) use executors::Gate;
