//! The MCP conformance suites: against the fixture alone, against Toolkeep with the fixture behind
//! it, and with Toolkeep as the client.
//!
//! They need what `cargo xtask provision` installs and fail where it is not there. What is known to
//! fail stands in `tests/conformance/`, with a reason for each line: a failure that is not listed and
//! a listed one that passes both fail the test.

mod alone;
mod client;
mod lane;
mod ratchet;
pub(crate) mod suite;
