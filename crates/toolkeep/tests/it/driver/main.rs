//! For the tests of this crate only: what a conformance suite starts as the client under test.

use std::process::ExitCode;

fn main() -> ExitCode {
    testkit::mcp_driver::main()
}
