//! Runs of the MCP conformance suites: the fixture alone, the fixture behind Toolkeep, and Toolkeep
//! as client.
//!
//! They require the programs of `cargo xtask provision` and fail without them. Known failures are
//! listed in `tests/conformance/` with a reason for each line: an unlisted failure and a listed one
//! that passes both fail the test.

mod client_suite;
mod fixture_suite;
mod gateway_suite;
mod known_failures;
pub(crate) mod suite_run;
