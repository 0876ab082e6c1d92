//! Test binary of this crate: the client under test that a conformance suite starts.

use std::process::ExitCode;

fn main() -> ExitCode {
    testkit::mcp_driver::run_driver()
}
