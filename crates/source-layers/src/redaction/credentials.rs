//! Names that mark credentials among headers, variables, options and query parameters.

/// Parts of credential names, in lower case.
const PARTS: [&str; 11] = [
    "auth",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "key",
    "cookie",
    "credential",
    "session",
    "signature",
];

/// Returns whether a value with this name is a credential.
pub(super) fn names_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    PARTS.iter().any(|part| name.contains(part))
}
