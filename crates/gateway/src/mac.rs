//! Keyed hashes for records: equal arguments have equal hashes, and reveal nothing else.

use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use tool::{Digest, Secret};

#[derive(Clone)]
pub(crate) struct Mac(Option<Hmac<Sha256>>);

impl Mac {
    pub(crate) fn new(key: &Secret) -> Self {
        // HMAC accepts keys of any length; the error exists for other algorithms.
        Self(Hmac::new_from_slice(key.open().as_bytes()).ok())
    }

    pub(crate) fn of(&self, bytes: &[u8]) -> Digest {
        let hash = self.0.clone().map(|mut hmac| {
            hmac.update(bytes);
            hmac.finalize().into_bytes().into()
        });
        Digest(hash.unwrap_or_default())
    }
}
