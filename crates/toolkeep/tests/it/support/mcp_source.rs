//! The tests' MCP server as a source of a configuration.

use std::path::PathBuf;

use super::process_marks::MARK_VARIABLE;
use super::server_process::TOOLKEEP;

/// The program `it-mcp`, which is an example of this crate and is built with its tests.
pub(crate) fn program() -> PathBuf {
    let program = PathBuf::from(TOOLKEEP).parent().unwrap().join("examples/it-mcp");
    assert!(program.exists(), "no `it-mcp`: build it with `cargo build -p toolkeep --examples`");
    program
}

/// One entry of `sources`: a child with the behavior `mode` and the environment mark `mark`.
pub(crate) fn source(name: &str, mode: &str, mark: &str) -> String {
    let program = program();
    format!(
        "  - {{ name: {name}, mcp: {{ command: '{}', args: [{mode}], env: {{ {MARK_VARIABLE}: {mark} }} }} }}\n",
        program.display()
    )
}
