//! Names that mark credentials among headers, variables, options and query parameters.

/// Parts of credential names, in lower case.
const CREDENTIAL_WORDS: [&str; 11] = [
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
pub(super) fn is_credential_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    CREDENTIAL_WORDS.iter().any(|part| name.contains(part))
}
