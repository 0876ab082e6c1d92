//! Text format of API keys: prefix, id and secret, and the digest of the complete text.

use sha2::{Digest as _, Sha256};
use tool::Digest;

use super::KeyId;
use super::key_id::is_valid_id;

/// Prefix of every key, so that scanners for leaked secrets find it.
const KEY_PREFIX: &str = "tk_";
/// Number of base64url digits of 256 bits.
const SECRET_CHARS: usize = 43;

/// Returns the complete text of a key.
pub(super) fn encode_key(id: &KeyId, random: &[u8; 32]) -> String {
    format!("{KEY_PREFIX}{id}_{}", encode_base64url(random))
}

/// Returns the id of a key, if the text has the format of a key.
pub(crate) fn parse_key_id(presented: &str) -> Option<&str> {
    // Base64url contains `_` too, so the first one after the prefix ends the id, which has none.
    let (id, secret) = presented.strip_prefix(KEY_PREFIX)?.split_once('_')?;
    let digits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (is_valid_id(id) && secret.len() == SECRET_CHARS && secret.bytes().all(digits)).then_some(id)
}

/// Returns the SHA-256 of the complete key text with its id: a hash moved to another record matches
/// nothing.
pub(crate) fn key_digest(key: &str) -> Digest {
    Digest(Sha256::digest(key.as_bytes()).into())
}

/// Encodes base64 with `-` and `_`, without padding (RFC 4648, section 5).
pub(super) fn encode_base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let group = |chunk: &[u8]| {
        let bits =
            (0..3).fold(0, |bits, at| bits << 8 | u32::from(chunk.get(at).copied().unwrap_or(0)));
        let digit = move |at: usize| DIGITS.get((bits >> (18 - 6 * at) & 63) as usize).copied();
        (0..=chunk.len()).filter_map(digit).map(char::from).collect::<Vec<_>>()
    };
    bytes.chunks(3).flat_map(group).collect()
}
