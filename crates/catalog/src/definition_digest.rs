//! SHA-256 digest of a catalog definition, as received from its source.
//!
//! Key order and white space do not count, everything else does: numbers keep their spelling, so
//! that a change beyond 64-bit precision is still a change.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use tool::{Digest, Json};

/// Version of the digest algorithm, hashed first.
const DIGEST_VERSION: &[u8] = b"toolkeep definition 1\n";

/// Returns the SHA-256 over the canonical text of `received`.
pub fn definition_digest(received: &Json) -> Digest {
    let mut hash = Sha256::new();
    hash.update(DIGEST_VERSION);
    hash_value(received.as_str(), &mut hash);
    Digest(hash.finalize().into())
}

/// Hashes sorted objects, compact arrays, strings in serde_json's own escaping and numbers as
/// given. The text was validated, so its depth is bounded and every branch below finds its input.
fn hash_value(text: &str, out: &mut Sha256) {
    let text = text.trim();
    match text.as_bytes().first() {
        Some(b'{') => {
            let members: BTreeMap<String, &RawValue> =
                serde_json::from_str(text).unwrap_or_default();
            out.update(b"{");
            for (key, value) in members {
                hash_string(&key, out);
                out.update(b":");
                hash_value(value.get(), out);
                out.update(b",");
            }
            out.update(b"}");
        }
        Some(b'[') => {
            let elements: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
            out.update(b"[");
            for element in elements {
                hash_value(element.get(), out);
                out.update(b",");
            }
            out.update(b"]");
        }
        Some(b'"') => hash_string(&serde_json::from_str::<String>(text).unwrap_or_default(), out),
        _ => out.update(text),
    }
}

fn hash_string(text: &str, out: &mut Sha256) {
    out.update(b"\"");
    out.update(text.len().to_le_bytes());
    out.update(text);
}

#[cfg(test)]
mod tests {
    use tool::{Digest, Json, JsonLimits};

    fn digest(text: &str) -> Digest {
        super::definition_digest(&Json::parse(text.to_owned(), JsonLimits::DEFINITION).unwrap())
    }

    #[test]
    fn order_and_space_do_not_count() {
        assert_eq!(
            digest(r#"{"a":[1,{"b":2,"c":3}]}"#),
            digest(r#" { "a" : [1,{"c":3, "b":2}] } "#)
        );
        assert_eq!(digest(r#""\u0061/""#), digest(r#""a\/""#));
    }

    #[test]
    fn everything_else_counts() {
        let texts = [
            "[1,2]",
            "[2,1]",
            "[12]",
            "[[1],2]",
            "{}",
            "[]",
            "\"\"",
            "null",
            "[1.0,2]",
            "{\"a\":1}",
            "{\"a\":\"1\"}",
            "{\"a\":1,\"b\":1}",
            "[123456789012345678901]",
            "[123456789012345678902]",
            "[\"a\",\"b\"]",
            "[\"a\\\",\\\"b\"]",
            "[\"ab\"]",
        ];
        for (i, a) in texts.iter().enumerate() {
            for b in &texts[i + 1..] {
                assert_ne!(digest(a), digest(b), "{a} {b}");
            }
        }
    }
}
