//! Names under which credentials are sent: of headers, variables, options and query parameters.

/// Parts of such names, in lower case.
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

/// Whether a value of this name is a credential.
pub(super) fn names_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    PARTS.iter().any(|part| name.contains(part))
}
