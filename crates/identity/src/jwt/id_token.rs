//! ID tokens (OpenID Connect Core 1.0, section 3.1.3.7): what an issuer says of a person who signed
//! in with a browser.
//!
//! The token is checked once and not stored. What is kept are its claims: the rights are derived
//! from them again at each request, with the grants and the directory of that moment.

use std::fmt;

use tool::WallTime;

use super::token_claims::{TokenClaims, check_validity_period, has_audience};
use super::{CredentialTerms, JwkSet, TokenVerificationError, TrustedIssuer, UnverifiedJwt};
use crate::credential_errors::CredentialErrorKind;
use crate::{Directory, Principal};

/// The values that an ID token must repeat.
#[derive(Debug, Clone, Copy)]
pub struct SignInExpectation<'a> {
    /// Random value of this sign-in, which only its ID token has.
    pub nonce: &'a str,
    /// The current time.
    pub now: WallTime,
}

/// A person who signed in with an issuer, by the claims that the issuer made.
#[derive(Clone)]
pub struct SignedInUser {
    issuer: String,
    claims: TokenClaims,
    signed_in_at: WallTime,
}

impl fmt::Debug for SignedInUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignedInUser").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl SignedInUser {
    /// The `iss` of the issuer.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Adds claims of the issuer's user info response (OpenID Connect Core 1.0, section 5.3.2).
    /// Claims of the ID token remain as they are.
    ///
    /// # Errors
    /// [`CredentialErrorKind::InvalidSubject`] if they are about another user.
    pub fn add_user_info(&mut self, user_info: TokenClaims) -> Result<(), CredentialErrorKind> {
        let is_same = user_info.get("sub").is_some_and(|sub| self.claims.get("sub") == Some(sub));
        if !is_same {
            return Err(CredentialErrorKind::InvalidSubject);
        }
        for (name, value) in user_info {
            self.claims.entry(name).or_insert(value);
        }
        Ok(())
    }
}

impl TrustedIssuer {
    /// Verifies the ID token of a sign-in.
    ///
    /// # Errors
    /// [`TokenVerificationError`]; an issuer without a client id accepts none.
    pub fn verify_id_token(
        &self,
        token: &UnverifiedJwt<'_>,
        keys: &JwkSet,
        expected: SignInExpectation<'_>,
    ) -> Result<SignedInUser, TokenVerificationError> {
        let client_id = self.client_id.as_deref().ok_or(CredentialErrorKind::WrongAudience)?;
        self.check_signature(token, keys)?;
        let claims = token.claims();
        // The token counts only for this sign-in, so that its lifetime has no upper limit here.
        check_validity_period(claims, expected.now, u64::MAX)?;
        let text = |name: &str| claims.get(name).and_then(serde_json::Value::as_str);
        let is_shared =
            claims.get("aud").is_some_and(|aud| aud.as_array().is_some_and(|all| all.len() > 1));
        let is_party = match claims.get("azp") {
            Some(party) => party == client_id,
            None => !is_shared,
        };
        if !has_audience(claims, &[client_id]) || !is_party {
            return Err(CredentialErrorKind::WrongAudience.into());
        }
        if text("nonce") != Some(expected.nonce) {
            return Err(CredentialErrorKind::WrongNonce.into());
        }
        Ok(SignedInUser {
            issuer: self.iss.clone(),
            claims: claims.clone(),
            signed_in_at: expected.now,
        })
    }

    /// Returns the principal of a person who signed in, with the rights that the grants give now.
    ///
    /// # Errors
    /// [`TokenVerificationError`] if the sign-in is older than the longest lifetime of a token, or if a
    /// new token of this person would be rejected.
    pub fn resolve_user(
        &self,
        user: &SignedInUser,
        directory: &Directory,
        now: WallTime,
    ) -> Result<Principal, TokenVerificationError> {
        if user.issuer != self.iss || self.client_id.is_none() {
            return Err(CredentialErrorKind::UnknownIssuer.into());
        }
        let valid_until = WallTime(user.signed_in_at.0.saturating_add(self.max_lifetime_ms));
        if now >= valid_until {
            return Err(CredentialErrorKind::Expired.into());
        }
        // The issuer asked a person to sign in, whatever its access tokens are used for.
        let terms = CredentialTerms { valid_until, is_agent: false };
        self.resolve_principal(&user.claims, terms, directory)
    }
}
