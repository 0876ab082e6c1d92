//! Keyed hashes for records: equal arguments have equal hashes, and reveal nothing else.

use aws_lc_rs::hmac;
use tool::{Digest, Secret};

/// HMAC-SHA256 with the key of this installation's records.
#[derive(Clone)]
pub(crate) struct KeyedHasher(hmac::Key);

impl KeyedHasher {
    pub(crate) fn new(key: &Secret) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key.expose().as_bytes()))
    }

    pub(crate) fn hash_bytes(&self, bytes: &[u8]) -> Digest {
        let mut digest = Digest([0; 32]);
        // A tag of HMAC-SHA256 has 32 bytes.
        let tag = hmac::sign(&self.0, bytes);
        digest.0.iter_mut().zip(tag.as_ref()).for_each(|(place, byte)| *place = *byte);
        digest
    }
}

#[cfg(test)]
mod tests {
    use tool::Secret;

    use super::KeyedHasher;

    /// By `printf arguments | openssl dgst -sha256 -hmac "$KEY"`, for keys of the letter k.
    #[test]
    fn keys_of_every_length_hash_as_openssl_says() {
        for (length, expected) in EXPECTED {
            let key = Secret::new("k".repeat(length));
            let hash = KeyedHasher::new(&key).hash_bytes(b"arguments").to_string();
            assert_eq!(hash, format!("sha256:{expected}"), "{length}");
        }
    }

    const EXPECTED: [(usize, &str); 7] = [
        (0, "e8269008e00a61d880d10f2771d8405737422806d72551a775e48ff829c28cbb"),
        (1, "53c4c9604865bce5cebbda707fb22d027788e49697a623b7e652609f118bcd95"),
        (32, "ffcaece59fd4661acfc426459a9083d20af47113f74d663b930d8301493f01c9"),
        (63, "ba5a39d68d9957055074a65b5a64617f8989c15c743a6e41eb141b7b959287c9"),
        (64, "baae74572cdaaf45305e536b035b5e14596a1e82e031bba143740b2529a378a8"),
        (65, "6b98b1f8e71940f145e0a3ebbddbfdfb9cace7319afffff0c4b2d81cdc15d90b"),
        (200, "bf366a1ec6d04f1de26549138a58e384ab4fa80d6a534b4896576fc75ef0b899"),
    ];
}
