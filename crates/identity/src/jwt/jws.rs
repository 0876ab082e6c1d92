//! Parsing of signed tokens in compact form (RFC 7515); nothing is trusted before the signature is
//! verified.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use tool::display_text::truncate_and_escape_debug;
use tool::{Json, JsonLimits};

use super::token_claims::TokenClaims;
use crate::credential_errors::CredentialErrorKind;

/// Maximum size of a token in bytes.
const MAX_TOKEN_BYTES: usize = 16 << 10;
/// Limits of each part.
const PART_LIMITS: JsonLimits =
    JsonLimits { max_bytes: MAX_TOKEN_BYTES, max_depth: 16, max_nodes: 2_000 };

macro_rules! algorithms {
    ($($variant:ident = $word:literal),+ $(,)?) => {
        /// Signature algorithm of a token (RFC 7518, RFC 8037). `none` and shared-secret algorithms
        /// are excluded.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum SignatureAlgorithm { $(#[doc = $word] $variant),+ }

        impl SignatureAlgorithm {
            /// Every algorithm that is supported.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the name as in tokens.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
    };
}

algorithms! {
    EdDsa = "EdDSA",
    Es256 = "ES256",
    Es384 = "ES384",
    Es512 = "ES512",
    Rs256 = "RS256",
    Rs384 = "RS384",
    Rs512 = "RS512",
    Ps256 = "PS256",
    Ps384 = "PS384",
    Ps512 = "PS512",
}

impl FromStr for SignatureAlgorithm {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|one| one.as_str() == word).ok_or_else(|| {
            let all: Vec<_> = Self::ALL.iter().map(|one| one.as_str()).collect();
            let word = truncate_and_escape_debug(word, 40);
            format!("unsupported signature algorithm `{word}`; use one of {}", all.join(", "))
        })
    }
}

/// A parsed signed text whose signature is not verified.
pub struct UnverifiedJws<'a> {
    pub(super) algorithm: SignatureAlgorithm,
    pub(super) kid: Option<String>,
    /// Signing input: the first two parts as received.
    pub(super) signing_input: &'a [u8],
    pub(super) signature: Vec<u8>,
    payload: Vec<u8>,
    typ: Option<String>,
}

impl<'a> UnverifiedJws<'a> {
    /// Parses the compact form.
    ///
    /// # Errors
    /// The reason why it can never be valid.
    pub fn parse_compact(presented: &'a str) -> Result<Self, CredentialErrorKind> {
        if presented.len() > MAX_TOKEN_BYTES {
            return Err(CredentialErrorKind::Malformed);
        }
        let (said, signature) = presented.rsplit_once('.').ok_or(CredentialErrorKind::Malformed)?;
        let (head, body) = said.split_once('.').ok_or(CredentialErrorKind::Malformed)?;
        let head = parse_object(&decode_part(head)?)?;
        // With four parts, the second would contain a dot, which base64url does not allow.
        let (payload, signature) = (decode_part(body)?, decode_part(signature)?);
        // Critical extensions are not supported (RFC 7515, 4.1.11).
        if head.contains_key("crit") {
            return Err(CredentialErrorKind::Malformed);
        }
        let text = |name: &str| match head.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(CredentialErrorKind::Malformed),
        };
        let algorithm = text("alg")?.ok_or(CredentialErrorKind::Malformed)?;
        let algorithm = algorithm.parse().map_err(|_| CredentialErrorKind::AlgorithmNotAllowed)?;
        let kind = text("typ")?.map(str::to_ascii_lowercase);
        let kid = text("kid")?.map(str::to_owned);
        Ok(Self { algorithm, kid, signing_input: said.as_bytes(), signature, payload, typ: kind })
    }

    /// Returns the payload bytes.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }
}

/// A parsed JWT whose signature is not verified.
pub struct UnverifiedJwt<'a> {
    pub(super) jws: UnverifiedJws<'a>,
    claims: TokenClaims,
}

impl<'a> UnverifiedJwt<'a> {
    /// Returns true if the text has the form of a token rather than of an API key.
    pub fn looks_like_jwt(presented: &str) -> bool {
        presented.bytes().filter(|byte| *byte == b'.').count() == 2
    }

    /// Parses a token in compact form.
    ///
    /// # Errors
    /// The reason why the token can never be valid.
    pub fn parse_token(presented: &'a str) -> Result<Self, CredentialErrorKind> {
        let jws = UnverifiedJws::parse_compact(presented)?;
        if !matches!(jws.typ.as_deref(), None | Some("jwt" | "at+jwt" | "application/at+jwt")) {
            return Err(CredentialErrorKind::NotAnAccessToken);
        }
        let claims = parse_object(&jws.payload)?;
        Ok(Self { jws, claims })
    }

    /// Returns the claimed issuer, which selects the keys.
    pub fn issuer(&self) -> Option<&str> {
        self.claims.get("iss").and_then(Value::as_str)
    }

    /// Returns the claimed algorithm.
    pub fn algorithm(&self) -> SignatureAlgorithm {
        self.jws.algorithm
    }

    pub(super) fn claims(&self) -> &TokenClaims {
        &self.claims
    }
}

impl fmt::Debug for UnverifiedJws<'_> {
    /// Hides the content, which may be a credential.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Jws({})", self.algorithm.as_str())
    }
}

impl fmt::Debug for UnverifiedJwt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.algorithm().as_str())
    }
}

/// Decodes one part of canonical base64url.
fn decode_part(text: &str) -> Result<Vec<u8>, CredentialErrorKind> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| CredentialErrorKind::Malformed)
}

/// Parses a JSON object without duplicate keys.
fn parse_object(text: &[u8]) -> Result<TokenClaims, CredentialErrorKind> {
    let json =
        Json::parse(text.to_vec(), PART_LIMITS).map_err(|_| CredentialErrorKind::Malformed)?;
    match json.to_value() {
        Value::Object(members) => Ok(members),
        _ => Err(CredentialErrorKind::Malformed),
    }
}
