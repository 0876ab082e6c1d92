//! The MCP server of the tests, as a source of a configuration.

use std::path::PathBuf;

use super::marks::MARK;
use super::server::TOOLKEEP;

/// The program `it-mcp`, which is an example of this crate and is built with its tests.
pub(crate) fn program() -> PathBuf {
    let program = PathBuf::from(TOOLKEEP).parent().unwrap().join("examples/it-mcp");
    assert!(program.exists(), "no `it-mcp`: build it with `cargo build -p toolkeep --examples`");
    program
}

/// One entry of `sources`: a child that behaves as `mode` says and carries `mark`.
pub(crate) fn source(name: &str, mode: &str, mark: &str) -> String {
    let program = program();
    format!(
        "  - {{ name: {name}, mcp: {{ command: '{}', args: [{mode}], env: {{ {MARK}: {mark} }} }} }}\n",
        program.display()
    )
}
