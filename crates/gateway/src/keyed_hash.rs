//! Keyed hashes for records: equal arguments have equal hashes, and reveal nothing else.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tool::{Digest, Secret};

/// Bytes of a block of SHA-256: a longer key is hashed first (RFC 2104, section 2).
const BLOCK: usize = 64;

#[derive(Clone)]
pub(crate) struct KeyedHasher(Hmac<Sha256>);

impl KeyedHasher {
    pub(crate) fn new(key: &Secret) -> Self {
        let hashed;
        let mut bytes = key.expose().as_bytes();
        if bytes.len() > BLOCK {
            hashed = <Sha256 as sha2::Digest>::digest(bytes);
            bytes = &hashed;
        }
        let mut block = [0; BLOCK];
        block.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
        Self(Hmac::new(&block.into()))
    }

    pub(crate) fn hash_bytes(&self, bytes: &[u8]) -> Digest {
        Digest(self.0.clone().chain_update(bytes).finalize().into_bytes().into())
    }
}

#[cfg(test)]
mod tests {
    use hmac::{Hmac, KeyInit as _, Mac as _};
    use sha2::Sha256;
    use tool::Secret;

    use super::KeyedHasher;

    #[test]
    fn keys_of_every_length_hash_as_hmac_says() {
        for length in [0, 1, 32, 63, 64, 65, 200] {
            let key = "k".repeat(length);
            let mut hmac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).unwrap();
            hmac.update(b"arguments");
            let expected: [u8; 32] = hmac.finalize().into_bytes().into();
            assert_eq!(
                KeyedHasher::new(&Secret::new(key)).hash_bytes(b"arguments").0,
                expected,
                "{length}"
            );
        }
    }
}
