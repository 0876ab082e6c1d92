//! The program under a kernel that refuses something: user namespaces, Landlock or the network.

use std::path::PathBuf;

use crate::command_runner::{CommandHome, ProgramOutput};

/// The program under test.
pub(crate) const TOOLKEEP: &str = env!("CARGO_BIN_EXE_toolkeep");

/// The example that installs the filter and runs a program.
pub(crate) fn filter_program() -> PathBuf {
    let program = PathBuf::from(TOOLKEEP).parent().unwrap().join("examples/it-without");
    assert!(
        program.exists(),
        "no `it-without`: build it with `cargo build -p toolkeep --examples`"
    );
    program
}

/// Runs a command in a home under a kernel that refuses `what`.
pub(crate) fn run_without(home: &CommandHome, what: &str, line: &[&str]) -> ProgramOutput {
    home.run_program(filter_program(), &[&[what, TOOLKEEP], line].concat())
}
