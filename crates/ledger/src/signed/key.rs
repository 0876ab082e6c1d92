//! The installation's key for its record, and what others check it with.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest as _, Sha256};
use tool::Secret;

use crate::slice::prefix;

/// Ed25519 in `signed-note`.
const ALGORITHM: u8 = 1;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string does not fail.
        write!(text, "{byte:02x}").unwrap_or_default();
        text
    })
}

/// A key that does not read as one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadKey(&'static str);

/// The key that signs checkpoints. Its file belongs to the server alone.
pub struct RecordKey {
    pair: Ed25519KeyPair,
    seed: [u8; 32],
}

impl RecordKey {
    /// A new one.
    ///
    /// # Errors
    /// Where the system has no random numbers.
    pub fn fresh() -> Result<Self, BadKey> {
        let mut seed = [0; 32];
        let none = |_| BadKey("the system gives no random numbers for a key");
        getrandom::fill(&mut seed).map_err(none)?;
        Self::of(seed)
    }

    /// From the text of its file.
    ///
    /// # Errors
    /// Where it is none.
    pub fn read(text: &str) -> Result<Self, BadKey> {
        let bad = BadKey("this is no key for the record: 64 hexadecimal digits on one line");
        let hex = text.trim();
        let mut seed = [0; 32];
        if hex.len() != 64 || !hex.is_ascii() {
            return Err(bad);
        }
        for (index, byte) in seed.iter_mut().enumerate() {
            let pair = hex.get(index * 2..index * 2 + 2).ok_or_else(|| bad.clone())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| bad.clone())?;
        }
        Self::of(seed)
    }

    fn of(seed: [u8; 32]) -> Result<Self, BadKey> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed);
        Ok(Self { pair: pair.map_err(|_| BadKey("this is no key of Ed25519"))?, seed })
    }

    /// The text of its file.
    pub fn text(&self) -> Secret {
        Secret::new(hex(&self.seed))
    }

    /// Names the installation: the same as long as the key is.
    pub fn installation(&self) -> String {
        let hash = Sha256::digest(self.pair.public_key().as_ref());
        hex(prefix(&hash, 8))
    }

    /// What others check a writer's checkpoints with.
    pub fn of_writer(&self, writer: &str) -> VerifyKey {
        self.verify_key(&super::origin(&self.installation(), writer))
    }

    pub(crate) fn verify_key(&self, name: &str) -> VerifyKey {
        VerifyKey { name: name.to_owned(), public: self.pair.public_key().as_ref().to_vec() }
    }

    pub(crate) fn sign(&self, text: &[u8]) -> Vec<u8> {
        self.pair.sign(text).as_ref().to_vec()
    }
}

impl fmt::Debug for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordKey({})", self.installation())
    }
}

/// A key that checkpoints are checked with; as text a `vkey` of `signed-note`: `NAME+ID+BASE64`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyKey {
    name: String,
    public: Vec<u8>,
}

impl VerifyKey {
    /// Its name: the origin of the checkpoints it signs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The writer of whose record it speaks.
    pub fn writer(&self) -> &str {
        self.name.rsplit_once('/').map_or("", |(_, writer)| writer)
    }

    pub(super) fn id(&self) -> [u8; 4] {
        let mut hash = Sha256::new();
        hash.update(self.name.as_bytes());
        hash.update(b"\n");
        hash.update([ALGORITHM]);
        hash.update(&self.public);
        let [a, b, c, d, ..] = <[u8; 32]>::from(hash.finalize());
        [a, b, c, d]
    }

    pub(super) fn holds(&self, text: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.public).verify(text, signature).is_ok()
    }
}

impl fmt::Display for VerifyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut key = vec![ALGORITHM];
        key.extend(&self.public);
        let id = hex(&self.id());
        write!(f, "{}+{id}+{}", self.name, BASE64.encode(key))
    }
}

impl FromStr for VerifyKey {
    type Err = BadKey;

    fn from_str(text: &str) -> Result<Self, BadKey> {
        let bad = BadKey("this is no key to check with: `NAME+ID+BASE64`");
        let mut parts = text.trim().splitn(3, '+');
        let (Some(name), Some(id), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(bad);
        };
        let key = BASE64.decode(key).map_err(|_| bad.clone())?;
        let public = match key.split_first() {
            Some((&ALGORITHM, public)) if public.len() == 32 => public.to_vec(),
            _ => return Err(BadKey("the key is none of Ed25519")),
        };
        let read = Self { name: name.to_owned(), public };
        let told = hex(&read.id());
        if told == id {
            Ok(read)
        } else {
            Err(BadKey("the key's id does not fit its name and bytes"))
        }
    }
}
