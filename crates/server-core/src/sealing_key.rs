//! Sealed state that a client carries for the server and can neither read nor change.
//!
//! AES-256-GCM-SIV, which tolerates a repeated nonce, with a key derived from the installation's
//! secret: every server of an installation opens what another one sealed. The library is already
//! used for TLS.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::{digest, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tool::Secret;

/// Maximum length of a sealed text in bytes.
pub(crate) const MAX_SEALED_BYTES: usize = 128 << 10;

/// A sealing key for one purpose.
pub struct SealingKey(Option<RandomizedNonceKey>);

impl SealingKey {
    /// Derives the key. `label` names the purpose: keys of different labels are independent.
    pub fn new(secret: &Secret, label: &str) -> Self {
        let root = hmac::Key::new(hmac::HMAC_SHA256, secret.expose().as_bytes());
        let derived = hmac::sign(&root, label.as_bytes());
        Self(RandomizedNonceKey::new(&AES_256_GCM_SIV, derived.as_ref()).ok())
    }

    /// Seals `plaintext`, bound to `context`: opening requires the same values.
    pub fn seal_bytes(&self, context: &[&str], plaintext: &[u8]) -> Option<String> {
        let mut text = plaintext.to_vec();
        let key = self.0.as_ref()?;
        let nonce =
            key.seal_in_place_append_tag(Aad::from(encode_parts(context)), &mut text).ok()?;
        text.splice(..0, nonce.as_ref().iter().copied());
        Some(URL_SAFE_NO_PAD.encode(text))
    }

    /// Opens a sealed text; `None` if it was not sealed by this installation, was changed, or is
    /// bound to other values.
    pub fn open_sealed(&self, context: &[&str], text: &str) -> Option<Vec<u8>> {
        let text = Some(text).filter(|text| text.len() <= MAX_SEALED_BYTES)?;
        let mut bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let aad = Aad::from(encode_parts(context));
        self.0.as_ref()?.open_in_place(nonce, aad, sealed).ok().map(|plain| plain.to_vec())
    }
}

/// Encodes each part after its length, so that different lists differ.
fn encode_parts(parts: &[&str]) -> Vec<u8> {
    let mut text = Vec::new();
    for part in parts {
        text.extend_from_slice(&(part.len() as u64).to_be_bytes());
        text.extend_from_slice(part.as_bytes());
    }
    text
}

/// SHA-256 over unambiguously encoded parts.
pub fn hash_parts(parts: &[&str]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, &encode_parts(parts)).as_ref());
    hash
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal(…)")
    }
}

#[cfg(test)]
mod tests {
    use tool::Secret;

    use super::SealingKey;

    #[test]
    fn opens_where_it_belongs_and_nowhere_else() {
        let seal = SealingKey::new(&Secret::new("s"), "a");
        let text = seal.seal_bytes(&["k", "p"], b"plain").unwrap();
        assert_eq!(seal.open_sealed(&["k", "p"], &text).unwrap(), b"plain");
        assert_ne!(seal.seal_bytes(&["k", "p"], b"plain").unwrap(), text);
        for bound in [&["k"][..], &["kp"], &["", "kp"], &["p", "k"], &["k", "p", ""]] {
            assert_eq!(seal.open_sealed(bound, &text), None, "{bound:?}");
        }
        assert_eq!(SealingKey::new(&Secret::new("s"), "b").open_sealed(&["k", "p"], &text), None);
        assert_eq!(SealingKey::new(&Secret::new("t"), "a").open_sealed(&["k", "p"], &text), None);
        assert!(SealingKey::new(&Secret::new("s"), "a").open_sealed(&["k", "p"], &text).is_some());
        assert_eq!(format!("{seal:?}"), "Seal(…)");
    }

    #[test]
    fn no_bit_can_be_changed() {
        let seal = SealingKey::new(&Secret::new("s"), "a");
        let text = seal.seal_bytes(&[], b"plain").unwrap();
        for at in 0..text.len() - 1 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(seal.open_sealed(&[], std::str::from_utf8(&bytes).unwrap()), None, "{at}");
        }
        for bad in ["", "A", "AAAA", "é", &"A".repeat(super::MAX_SEALED_BYTES + 1)] {
            assert_eq!(seal.open_sealed(&[], bad), None);
        }
    }
}
