//! Signing key of the installation's ledger, and the keys that verify its signatures.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use sha2::{Digest as _, Sha256};
use tool::Secret;

use crate::slice::prefix;

/// Ed25519 in `signed-note`.
const ALGORITHM: u8 = 1;

/// A key that does not read as one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KeyError(&'static str);

/// The key that signs checkpoints. Its file belongs to the server alone.
pub struct CheckpointSigningKey {
    pair: Ed25519KeyPair,
    seed: [u8; 32],
}

impl CheckpointSigningKey {
    /// Generates a new key.
    ///
    /// # Errors
    /// The system provides no random numbers.
    pub fn generate() -> Result<Self, KeyError> {
        let mut seed = [0; 32];
        let none = |_| KeyError("the system provides no random numbers for a key");
        getrandom::fill(&mut seed).map_err(none)?;
        Self::from_seed(seed)
    }

    /// Parses the text of a key file.
    ///
    /// # Errors
    /// The text is not a key.
    pub fn from_hex(text: &str) -> Result<Self, KeyError> {
        let bad = KeyError("invalid record key: expected 64 hexadecimal digits on one line");
        let seed = HEXLOWER_PERMISSIVE.decode(text.trim().as_bytes()).ok();
        let seed = seed.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok()).ok_or(bad)?;
        Self::from_seed(seed)
    }

    fn from_seed(seed: [u8; 32]) -> Result<Self, KeyError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed);
        Ok(Self { pair: pair.map_err(|_| KeyError("this is not an Ed25519 key"))?, seed })
    }

    /// Returns the text of the key file.
    pub fn to_hex(&self) -> Secret {
        Secret::new(HEXLOWER.encode(&self.seed))
    }

    /// Returns the ID of the installation, which is derived from the key.
    pub fn installation_id(&self) -> String {
        let hash = Sha256::digest(self.pair.public_key().as_ref());
        HEXLOWER.encode(prefix(&hash, 8))
    }

    /// Returns the key that verifies a writer's checkpoints.
    pub fn verifier_key_of(&self, writer: &str) -> VerifierKey {
        self.verifier_key(&super::key_name(&self.installation_id(), writer))
    }

    pub(crate) fn verifier_key(&self, name: &str) -> VerifierKey {
        VerifierKey { name: name.to_owned(), public_key: self.pair.public_key().as_ref().to_vec() }
    }

    pub(crate) fn sign_bytes(&self, text: &[u8]) -> Vec<u8> {
        self.pair.sign(text).as_ref().to_vec()
    }
}

impl fmt::Debug for CheckpointSigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordKey({})", self.installation_id())
    }
}

/// A key that checkpoints are checked with; as text a `vkey` of `signed-note`: `NAME+ID+BASE64`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifierKey {
    name: String,
    public_key: Vec<u8>,
}

impl VerifierKey {
    /// Returns the key's name, which is the origin of its checkpoints.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the writer whose record the key signs.
    pub fn writer(&self) -> &str {
        self.name.rsplit_once('/').map_or("", |(_, writer)| writer)
    }

    pub(super) fn key_id(&self) -> [u8; 4] {
        let mut hash = Sha256::new();
        hash.update(self.name.as_bytes());
        hash.update(b"\n");
        hash.update([ALGORITHM]);
        hash.update(&self.public_key);
        let [a, b, c, d, ..] = <[u8; 32]>::from(hash.finalize());
        [a, b, c, d]
    }

    pub(super) fn is_valid_signature(&self, text: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.public_key).verify(text, signature).is_ok()
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut key = vec![ALGORITHM];
        key.extend(&self.public_key);
        let id = HEXLOWER.encode(&self.key_id());
        write!(f, "{}+{id}+{}", self.name, BASE64.encode(key))
    }
}

impl FromStr for VerifierKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let bad = KeyError("invalid verifier key: expected `NAME+ID+BASE64`");
        let mut parts = text.trim().splitn(3, '+');
        let (Some(name), Some(id), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(bad);
        };
        let key = BASE64.decode(key).map_err(|_| bad.clone())?;
        let public = match key.split_first() {
            Some((&ALGORITHM, public)) if public.len() == 32 => public.to_vec(),
            _ => return Err(KeyError("the key is not an Ed25519 key")),
        };
        let read = Self { name: name.to_owned(), public_key: public };
        let told = HEXLOWER.encode(&read.key_id());
        if told == id {
            Ok(read)
        } else {
            Err(KeyError("the key's ID does not match its name and bytes"))
        }
    }
}
