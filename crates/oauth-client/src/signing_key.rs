//! Private keys that sign client assertions (RFC 7523). Signatures are made by aws-lc-rs, which TLS
//! already needs.

use std::fmt;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

/// Maximum bytes of a key file.
const MAX_PEM_BYTES: usize = 64 << 10;

/// Private key that signs client assertions.
pub struct SigningKey {
    algorithm: &'static str,
    key_pair: SigningKeyPair,
}

enum SigningKeyPair {
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

impl SigningKey {
    /// Parses a key in PEM: PKCS#8 (`PRIVATE KEY`) of P-256, P-384, Ed25519 or RSA.
    ///
    /// # Errors
    /// Describes the fault without any part of the key.
    pub fn from_pem(pem: &str) -> Result<Self, &'static str> {
        const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
        const NO_PEM: &str = "it has no `-----BEGIN PRIVATE KEY-----` block";
        if pem.len() > MAX_PEM_BYTES {
            return Err("it is larger than 64 KiB");
        }
        let (_, rest) = pem.split_once(BEGIN).ok_or(NO_PEM)?;
        let (body, _) = rest.split_once("-----END PRIVATE KEY-----").ok_or(NO_PEM)?;
        let body: String = body.split_ascii_whitespace().collect();
        let der = STANDARD.decode(body).map_err(|_| "its content is not valid base64")?;
        let ecdsa = |algorithm, name| {
            let key = EcdsaKeyPair::from_pkcs8(algorithm, &der).ok()?;
            Some(Self { algorithm: name, key_pair: SigningKeyPair::Ecdsa(key) })
        };
        let ed25519 = || {
            let key = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).ok()?;
            Some(Self { algorithm: "EdDSA", key_pair: SigningKeyPair::Ed25519(key) })
        };
        let rsa = || {
            let key = RsaKeyPair::from_pkcs8(&der).ok()?;
            Some(Self { algorithm: "RS256", key_pair: SigningKeyPair::Rsa(key) })
        };
        ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING, "ES256")
            .or_else(|| ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING, "ES384"))
            .or_else(ed25519)
            .or_else(rsa)
            .ok_or("it is not a P-256, P-384, Ed25519 or RSA key in PKCS#8")
    }

    /// Returns the JOSE name of the algorithm.
    pub(super) fn algorithm(&self) -> &'static str {
        self.algorithm
    }

    /// Signs the claims as a JWT, or returns `None` if signing fails.
    pub(super) fn sign_jwt(&self, claims: &Value) -> Option<String> {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let head = json!({"alg": self.algorithm, "typ": "JWT"});
        let signed_part = format!("{}.{}", part(&head), part(claims));
        let random = SystemRandom::new();
        let signature = match &self.key_pair {
            SigningKeyPair::Ecdsa(key) => {
                key.sign(&random, signed_part.as_bytes()).ok()?.as_ref().to_vec()
            }
            SigningKeyPair::Ed25519(key) => key.sign(signed_part.as_bytes()).as_ref().to_vec(),
            SigningKeyPair::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, signed_part.as_bytes(), &mut signature)
                    .ok()?;
                signature
            }
        };
        Some(format!("{signed_part}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.algorithm)
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::encoding::AsDer as _;
    use aws_lc_rs::rsa::KeySize;
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED,
        ECDSA_P384_SHA384_FIXED_SIGNING, ED25519, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
        RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey, VerificationAlgorithm,
    };
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    use serde_json::{Value, json};

    use super::SigningKey;

    fn pem(der: &[u8]) -> String {
        format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            STANDARD.encode(der)
        )
    }

    fn holds(pem: &str, name: &str, with: &'static dyn VerificationAlgorithm, public: &[u8]) {
        let key = SigningKey::from_pem(pem).unwrap();
        assert_eq!(key.algorithm(), name);
        assert_eq!(format!("{key:?}"), format!("SigningKey({name})"));
        let token = key.sign_jwt(&json!({"iss": "me"})).unwrap();
        let (said, signature) = token.rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        let public = UnparsedPublicKey::new(with, public);
        assert!(public.verify(said.as_bytes(), &signature).is_ok(), "{name}");
        assert!(public.verify(b"other", &signature).is_err(), "{name}");
        let head = URL_SAFE_NO_PAD.decode(said.split_once('.').unwrap().0).unwrap();
        let head: Value = serde_json::from_slice(&head).unwrap();
        assert_eq!(head, json!({"alg": name, "typ": "JWT"}));
    }

    #[test]
    fn each_kind_of_key_signs_what_its_public_half_verifies() {
        let p256 = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let public = p256.public_key().as_ref();
        holds(&pem(p256.to_pkcs8v1().unwrap().as_ref()), "ES256", &ECDSA_P256_SHA256_FIXED, public);
        let p384 = EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap();
        let public = p384.public_key().as_ref();
        holds(&pem(p384.to_pkcs8v1().unwrap().as_ref()), "ES384", &ECDSA_P384_SHA384_FIXED, public);
        let ed = Ed25519KeyPair::generate().unwrap();
        holds(&pem(ed.to_pkcs8().unwrap().as_ref()), "EdDSA", &ED25519, ed.public_key().as_ref());
        let rsa = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let (der, public) = (rsa.as_der().unwrap(), rsa.public_key().as_ref());
        let der: aws_lc_rs::encoding::Pkcs8V1Der<'_> = der;
        holds(&pem(der.as_ref()), "RS256", &RSA_PKCS1_2048_8192_SHA256, public);
    }

    #[test]
    fn what_is_no_key_is_refused_without_being_shown() {
        for text in [
            "",
            "secret",
            "-----BEGIN PRIVATE KEY-----\nsecret",
            &pem(b"secret"),
            &"s".repeat(70_000),
        ] {
            let error = SigningKey::from_pem(text).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
