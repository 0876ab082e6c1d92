//! The JWK set of an issuer (RFC 7517), and signature verification.

use aws_lc_rs::signature::{
    self, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use tool::{Json, JsonLimits};

use super::TokenVerificationError;
use super::jws::{SignatureAlgorithm, UnverifiedJws};
use crate::credential_errors::CredentialErrorKind;

/// Limits of a published set.
const SET_LIMITS: JsonLimits =
    JsonLimits { max_bytes: 256 << 10, max_depth: 16, max_nodes: 10_000 };
/// Maximum number of keys in a set.
const MAX_KEYS: usize = 100;

/// Keys of one issuer that can sign tokens. Keys of another use or kind, short keys and secret keys
/// are left out.
#[derive(Debug, Clone, Default)]
pub struct JwkSet {
    keys: Vec<VerificationKey>,
}

/// Errors of a published key set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JwkSetError {
    /// The text is not a key set.
    #[error("it is not a valid key set: {0}")]
    Invalid(String),
    /// The set has too many keys.
    #[error("it has more than {MAX_KEYS} keys")]
    TooMany,
    /// The set has no key that can sign a token.
    #[error("it has no signing key")]
    Empty,
}

#[derive(Debug, Clone)]
struct VerificationKey {
    kid: Option<String>,
    /// The only algorithm of the key, if it states one.
    alg: Option<SignatureAlgorithm>,
    public_key: PublicKey,
}

#[derive(Debug, Clone)]
enum PublicKey {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    Ec { curve: EllipticCurve, point: Vec<u8> },
    Ed25519(Vec<u8>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EllipticCurve {
    P256,
    P384,
    P521,
}

#[derive(Deserialize)]
struct RawJwkSet {
    keys: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct RawJwk {
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

impl JwkSet {
    /// Parses a published key set.
    ///
    /// # Errors
    /// [`JwkSetError`].
    pub fn parse_set(text: bytes::Bytes) -> Result<Self, JwkSetError> {
        let json = Json::parse(text, SET_LIMITS)
            .map_err(|error| JwkSetError::Invalid(error.to_string()))?;
        let set: RawJwkSet =
            json.decode().map_err(|error| JwkSetError::Invalid(error.to_string()))?;
        if set.keys.len() > MAX_KEYS {
            return Err(JwkSetError::TooMany);
        }
        let read = |key| serde_json::from_value(key).ok().and_then(VerificationKey::from_jwk);
        let keys: Vec<_> = set.keys.into_iter().filter_map(read).collect();
        if keys.is_empty() { Err(JwkSetError::Empty) } else { Ok(Self { keys }) }
    }

    /// Verifies the signature with the named key, or with the only suitable key if none is named.
    ///
    /// # Errors
    /// [`TokenVerificationError::UnknownKey`] if no key has the name,
    /// [`TokenVerificationError::Rejected`] if the signature is invalid.
    pub fn verify_signature(
        &self,
        token: &UnverifiedJws<'_>,
    ) -> Result<(), TokenVerificationError> {
        let named = |key: &&VerificationKey| token.kid.is_none() || key.kid == token.kid;
        let fits = |key: &&VerificationKey| {
            key.alg.is_none_or(|alg| alg == token.algorithm)
                && key.public_key.supports_algorithm(token.algorithm)
        };
        let mut found = self.keys.iter().filter(named).peekable();
        if found.peek().is_none() {
            return Err(TokenVerificationError::UnknownKey);
        }
        let mut found = found.filter(fits);
        let (Some(key), None) = (found.next(), found.next()) else {
            return Err(CredentialErrorKind::AlgorithmNotAllowed.into());
        };
        if key.public_key.verify_signature(token) {
            Ok(())
        } else {
            Err(CredentialErrorKind::WrongSecret.into())
        }
    }
}

impl VerificationKey {
    fn from_jwk(jwk: RawJwk) -> Option<Self> {
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
                (256..=1_025).contains(&n.len()).then_some(PublicKey::Rsa { n, e })?
            }
            ("EC", Some(crv)) => {
                let (curve, long) = match crv {
                    "P-256" => (EllipticCurve::P256, 32),
                    "P-384" => (EllipticCurve::P384, 48),
                    "P-521" => (EllipticCurve::P521, 66),
                    _ => return None,
                };
                let (x, y) = (bytes(&jwk.x)?, bytes(&jwk.y)?);
                if (x.len(), y.len()) != (long, long) {
                    return None;
                }
                let point = [&[4], x.as_slice(), y.as_slice()].concat();
                PublicKey::Ec { curve, point }
            }
            ("OKP", Some("Ed25519")) => {
                PublicKey::Ed25519(bytes(&jwk.x).filter(|x| x.len() == 32)?)
            }
            _ => return None,
        };
        Some(Self { kid: jwk.kid, alg, public_key: public })
    }
}

impl PublicKey {
    fn supports_algorithm(&self, algorithm: SignatureAlgorithm) -> bool {
        match self {
            Self::Rsa { .. } => rsa_parameters(algorithm).is_some(),
            Self::Ec { curve, .. } => {
                ecdsa_parameters(algorithm).is_some_and(|(own, _)| own == *curve)
            }
            Self::Ed25519(_) => algorithm == SignatureAlgorithm::EdDsa,
        }
    }

    fn verify_signature(&self, token: &UnverifiedJws<'_>) -> bool {
        let unparsed = |with: &'static dyn VerificationAlgorithm, key: &[u8]| {
            let key = UnparsedPublicKey::new(with, key);
            key.verify(token.signing_input, &token.signature).is_ok()
        };
        match self {
            Self::Rsa { n, e } => rsa_parameters(token.algorithm).is_some_and(|with| {
                let key = RsaPublicKeyComponents { n, e };
                key.verify(with, token.signing_input, &token.signature).is_ok()
            }),
            Self::Ec { point, .. } => {
                ecdsa_parameters(token.algorithm).is_some_and(|(_, with)| unparsed(with, point))
            }
            Self::Ed25519(key) => unparsed(&signature::ED25519, key),
        }
    }
}

fn rsa_parameters(algorithm: SignatureAlgorithm) -> Option<&'static signature::RsaParameters> {
    Some(match algorithm {
        SignatureAlgorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        SignatureAlgorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        SignatureAlgorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        SignatureAlgorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
        SignatureAlgorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
        SignatureAlgorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

fn ecdsa_parameters(
    algorithm: SignatureAlgorithm,
) -> Option<(EllipticCurve, &'static dyn VerificationAlgorithm)> {
    Some(match algorithm {
        SignatureAlgorithm::Es256 => (EllipticCurve::P256, &signature::ECDSA_P256_SHA256_FIXED),
        SignatureAlgorithm::Es384 => (EllipticCurve::P384, &signature::ECDSA_P384_SHA384_FIXED),
        SignatureAlgorithm::Es512 => (EllipticCurve::P521, &signature::ECDSA_P521_SHA512_FIXED),
        _ => return None,
    })
}
