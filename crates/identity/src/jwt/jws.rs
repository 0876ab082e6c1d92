//! The form of a token: three parts, of which none is believed before the signature is (RFC 7515).

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use tool::{Json, Limits};

use super::claims::Claims;
use crate::error::Reason;

/// The longest token, in bytes.
const LONGEST: usize = 16 << 10;
/// What its parts may hold.
const PART: Limits = Limits { bytes: LONGEST, depth: 16, nodes: 2_000 };

macro_rules! algorithms {
    ($($variant:ident = $word:literal),+ $(,)?) => {
        /// How a token is signed (RFC 7518, RFC 8037). `none` and those with a shared secret are not here.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Algorithm { $(#[doc = $word] $variant),+ }

        impl Algorithm {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word as it is written.
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

impl FromStr for Algorithm {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|one| one.as_str() == word).ok_or_else(|| {
            let all: Vec<_> = Self::ALL.iter().map(|one| one.as_str()).collect();
            let word: String = word.chars().take(40).flat_map(char::escape_debug).collect();
            format!(
                "`{word}` is no algorithm that tokens may be signed with; use one of {}",
                all.join(", ")
            )
        })
    }
}

/// A signed text as it came: read, and not believed.
pub struct Jws<'a> {
    pub(super) algorithm: Algorithm,
    pub(super) kid: Option<String>,
    /// What is signed: the first two parts as they came.
    pub(super) said: &'a [u8],
    pub(super) signature: Vec<u8>,
    payload: Vec<u8>,
    kind: Option<String>,
}

impl<'a> Jws<'a> {
    /// Reads the compact form.
    ///
    /// # Errors
    /// Why it could never hold.
    pub fn read(presented: &'a str) -> Result<Self, Reason> {
        if presented.len() > LONGEST {
            return Err(Reason::Malformed);
        }
        let (said, signature) = presented.rsplit_once('.').ok_or(Reason::Malformed)?;
        let (head, body) = said.split_once('.').ok_or(Reason::Malformed)?;
        let head = object(&part(head)?)?;
        // Of four parts the second would have a dot, which is no letter of base64url.
        let (payload, signature) = (part(body)?, part(signature)?);
        // What must be understood is not: RFC 7515, 4.1.11.
        if head.contains_key("crit") {
            return Err(Reason::Malformed);
        }
        let text = |name: &str| match head.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(Reason::Malformed),
        };
        let algorithm = text("alg")?.ok_or(Reason::Malformed)?;
        let algorithm = algorithm.parse().map_err(|_| Reason::Algorithm)?;
        let kind = text("typ")?.map(str::to_ascii_lowercase);
        let kid = text("kid")?.map(str::to_owned);
        Ok(Self { algorithm, kid, said: said.as_bytes(), signature, payload, kind })
    }

    /// What it says.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }
}

/// A token as it came: read, and not believed.
pub struct Token<'a> {
    pub(super) jws: Jws<'a>,
    claims: Claims,
}

impl<'a> Token<'a> {
    /// Whether this is written as a token, and not as a key of this program.
    pub fn is_one(presented: &str) -> bool {
        presented.bytes().filter(|byte| *byte == b'.').count() == 2
    }

    /// Reads it.
    ///
    /// # Errors
    /// Why it is no token that could ever hold.
    pub fn read(presented: &'a str) -> Result<Self, Reason> {
        let jws = Jws::read(presented)?;
        if !matches!(jws.kind.as_deref(), None | Some("jwt" | "at+jwt" | "application/at+jwt")) {
            return Err(Reason::TokenKind);
        }
        let claims = object(&jws.payload)?;
        Ok(Self { jws, claims })
    }

    /// The issuer it claims to be of: which keys to try it with.
    pub fn issuer(&self) -> Option<&str> {
        self.claims.get("iss").and_then(Value::as_str)
    }

    /// The algorithm it claims.
    pub fn algorithm(&self) -> Algorithm {
        self.jws.algorithm
    }

    pub(super) fn claims(&self) -> &Claims {
        &self.claims
    }
}

impl fmt::Debug for Jws<'_> {
    /// Nothing of what it says: it may be a credential.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Jws({})", self.algorithm.as_str())
    }
}

impl fmt::Debug for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.algorithm().as_str())
    }
}

/// One part: canonical base64url.
fn part(text: &str) -> Result<Vec<u8>, Reason> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| Reason::Malformed)
}

/// An object of JSON, in which no key stands twice.
fn object(text: &[u8]) -> Result<Claims, Reason> {
    let json = Json::check(text.to_vec(), PART).map_err(|_| Reason::Malformed)?;
    match json.value() {
        Value::Object(members) => Ok(members),
        _ => Err(Reason::Malformed),
    }
}
