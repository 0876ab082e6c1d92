//! The JWK set of an issuer (RFC 7517), and signature verification.

use aws_lc_rs::signature::{
    self, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use tool::{Json, Limits};

use super::TokenFault;
use super::jws::{Algorithm, Jws};
use crate::error::Reason;

/// Limits of a published set.
const SET: Limits = Limits { bytes: 256 << 10, depth: 16, nodes: 10_000 };
/// Maximum number of keys in a set.
const KEYS: usize = 100;

/// Keys of one issuer that can sign tokens. Keys of another use or kind, short keys and secret keys
/// are left out.
#[derive(Debug, Clone, Default)]
pub struct KeySet {
    keys: Vec<Key>,
}

/// Errors of a published key set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    /// The text is not a key set.
    #[error("it is no set of keys: {0}")]
    Unreadable(String),
    /// The set has too many keys.
    #[error("it has over {KEYS} keys")]
    TooMany,
    /// The set has no key that can sign a token.
    #[error("it has no key that could sign a token")]
    Empty,
}

#[derive(Debug, Clone)]
struct Key {
    kid: Option<String>,
    /// The only algorithm of the key, if it states one.
    alg: Option<Algorithm>,
    public: Public,
}

#[derive(Debug, Clone)]
enum Public {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    Ec { curve: Curve, point: Vec<u8> },
    Ed25519(Vec<u8>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Curve {
    P256,
    P384,
    P521,
}

#[derive(Deserialize)]
struct Jwks {
    keys: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    kid: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// Parses a published key set.
    ///
    /// # Errors
    /// [`KeySetError`].
    pub fn read(text: bytes::Bytes) -> Result<Self, KeySetError> {
        let json =
            Json::check(text, SET).map_err(|error| KeySetError::Unreadable(error.to_string()))?;
        let set: Jwks = json.read().map_err(|error| KeySetError::Unreadable(error.to_string()))?;
        if set.keys.len() > KEYS {
            return Err(KeySetError::TooMany);
        }
        let read = |key| serde_json::from_value(key).ok().and_then(Key::of);
        let keys: Vec<_> = set.keys.into_iter().filter_map(read).collect();
        if keys.is_empty() { Err(KeySetError::Empty) } else { Ok(Self { keys }) }
    }

    /// Verifies the signature with the named key, or with the only suitable key if none is named.
    ///
    /// # Errors
    /// [`TokenFault::UnknownKey`] if no key has the name, [`TokenFault::Refused`] if the signature
    /// is invalid.
    pub fn verify(&self, token: &Jws<'_>) -> Result<(), TokenFault> {
        let named = |key: &&Key| token.kid.is_none() || key.kid == token.kid;
        let fits = |key: &&Key| {
            key.alg.is_none_or(|alg| alg == token.algorithm) && key.public.takes(token.algorithm)
        };
        let mut found = self.keys.iter().filter(named).peekable();
        if found.peek().is_none() {
            return Err(TokenFault::UnknownKey);
        }
        let mut found = found.filter(fits);
        let (Some(key), None) = (found.next(), found.next()) else {
            return Err(Reason::Algorithm.into());
        };
        if key.public.signed(token) { Ok(()) } else { Err(Reason::WrongSecret.into()) }
    }
}

impl Key {
    fn of(jwk: Jwk) -> Option<Self> {
        let for_signing = jwk.usage.as_deref().is_none_or(|usage| usage == "sig");
        let verifies = |ops: &Vec<String>| ops.iter().any(|op| op == "verify");
        if !for_signing || !jwk.key_ops.as_ref().is_none_or(verifies) {
            return None;
        }
        let alg = match &jwk.alg {
            Some(word) => Some(word.parse().ok()?),
            None => None,
        };
        let bytes = |text: &Option<String>| URL_SAFE_NO_PAD.decode(text.as_deref()?).ok();
        let public = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => {
                let (n, e) = (bytes(&jwk.n)?, bytes(&jwk.e)?);
                // At least 2048 bits (RFC 7518, 3.3); more than 8192 bits would only be slow.
                (256..=1_025).contains(&n.len()).then_some(Public::Rsa { n, e })?
            }
            ("EC", Some(crv)) => {
                let (curve, long) = match crv {
                    "P-256" => (Curve::P256, 32),
                    "P-384" => (Curve::P384, 48),
                    "P-521" => (Curve::P521, 66),
                    _ => return None,
                };
                let (x, y) = (bytes(&jwk.x)?, bytes(&jwk.y)?);
                if (x.len(), y.len()) != (long, long) {
                    return None;
                }
                let point = [&[4], x.as_slice(), y.as_slice()].concat();
                Public::Ec { curve, point }
            }
            ("OKP", Some("Ed25519")) => Public::Ed25519(bytes(&jwk.x).filter(|x| x.len() == 32)?),
            _ => return None,
        };
        Some(Self { kid: jwk.kid, alg, public })
    }
}

impl Public {
    fn takes(&self, algorithm: Algorithm) -> bool {
        match self {
            Self::Rsa { .. } => rsa(algorithm).is_some(),
            Self::Ec { curve, .. } => ecdsa(algorithm).is_some_and(|(own, _)| own == *curve),
            Self::Ed25519(_) => algorithm == Algorithm::EdDsa,
        }
    }

    fn signed(&self, token: &Jws<'_>) -> bool {
        let unparsed = |with: &'static dyn VerificationAlgorithm, key: &[u8]| {
            let key = UnparsedPublicKey::new(with, key);
            key.verify(token.said, &token.signature).is_ok()
        };
        match self {
            Self::Rsa { n, e } => rsa(token.algorithm).is_some_and(|with| {
                let key = RsaPublicKeyComponents { n, e };
                key.verify(with, token.said, &token.signature).is_ok()
            }),
            Self::Ec { point, .. } => {
                ecdsa(token.algorithm).is_some_and(|(_, with)| unparsed(with, point))
            }
            Self::Ed25519(key) => unparsed(&signature::ED25519, key),
        }
    }
}

fn rsa(algorithm: Algorithm) -> Option<&'static signature::RsaParameters> {
    Some(match algorithm {
        Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
        Algorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
        Algorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

fn ecdsa(algorithm: Algorithm) -> Option<(Curve, &'static dyn VerificationAlgorithm)> {
    Some(match algorithm {
        Algorithm::Es256 => (Curve::P256, &signature::ECDSA_P256_SHA256_FIXED),
        Algorithm::Es384 => (Curve::P384, &signature::ECDSA_P384_SHA384_FIXED),
        Algorithm::Es512 => (Curve::P521, &signature::ECDSA_P521_SHA512_FIXED),
        _ => return None,
    })
}
