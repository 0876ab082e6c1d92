//! Verification of JWTs from configured issuers (RFC 7519, RFC 9068), and the rights they grant.
//!
//! An issuer is trusted only within its configured grants. The algorithm must be one of those
//! configured for it and fit the key; key locations in headers are ignored. Keys are fetched
//! elsewhere: this module is pure.

mod id_token;
mod jwk_set;
mod jws;
mod token_claims;

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};
use tool::{Org, PermissionLevel, WallTime};

use crate::credential_errors::CredentialErrorKind;
use crate::principal::CallerIdentity;
use crate::rights_class::{RightsAttributes, RightsClass};
use crate::{Directory, Principal, RequestRestrictions, effective_rights};

pub use id_token::{SignInExpectation, SignedInUser};
pub use jwk_set::{JwkSet, JwkSetError};
pub use jws::{SignatureAlgorithm, UnverifiedJws, UnverifiedJwt};

/// Tolerated clock skew in milliseconds.
const CLOCK_SKEW_MS: u64 = 30_000;

/// A trusted issuer with the operator's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedIssuer {
    /// Name of the issuer: 1 to 32 lower-case letters, digits, `_` and `-`. It prefixes the names
    /// of its users.
    pub name: String,
    /// Value of `iss`, compared exactly.
    pub iss: String,
    /// Allowed signature algorithms of its tokens.
    pub algorithms: BTreeSet<SignatureAlgorithm>,
    /// Organisation of its users.
    pub org: Org,
    /// Claim that selects the organisation.
    pub org_claim: Option<OrgClaim>,
    /// Claim that names the user; usually `sub`.
    pub subject_claim: String,
    /// True if its tokens belong to people rather than agents.
    pub is_person: bool,
    /// Grants for its tokens; a token without a matching grant has no rights.
    pub grants: Vec<ClaimGrant>,
    /// Maximum lifetime of a token in milliseconds.
    pub max_lifetime_ms: u64,
    /// This server's id as a client of the issuer, if people sign in with it.
    pub client_id: Option<String>,
}

/// Terms of a verified credential beside its claims.
#[derive(Clone, Copy)]
struct CredentialTerms {
    valid_until: WallTime,
    is_agent: bool,
}

/// A claim that selects the organisation of a token's user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrgClaim {
    /// Claim name, or a path to the claim with dots.
    pub claim: String,
    /// Organisation of each known value. Other values are rejected.
    pub orgs: BTreeMap<String, Org>,
}

/// Level and roles for tokens with a claim value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimGrant {
    /// Claim name, or a path to the claim with dots.
    pub claim: String,
    /// Required value: the claim itself, a list element, or one word of a `scope`.
    pub value: String,
    /// Level that is granted.
    pub level: PermissionLevel,
    /// Roles that are granted.
    pub roles: Vec<String>,
}

/// Errors of verifying a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenVerificationError {
    /// The token is invalid.
    Rejected(CredentialErrorKind),
    /// No known key signed the token; its issuer may have a new one.
    UnknownKey,
    /// The token is valid, but has no matching grant.
    NoGrant,
}

impl From<CredentialErrorKind> for TokenVerificationError {
    fn from(reason: CredentialErrorKind) -> Self {
        Self::Rejected(reason)
    }
}

impl TrustedIssuer {
    /// Verifies `token` of this issuer against `keys` and `audiences`, and returns its principal.
    ///
    /// # Errors
    /// [`TokenVerificationError`].
    pub fn verify_token(
        &self,
        token: &UnverifiedJwt<'_>,
        keys: &JwkSet,
        audiences: &[&str],
        directory: &Directory,
        now: WallTime,
    ) -> Result<Principal, TokenVerificationError> {
        self.check_signature(token, keys)?;
        let claims = token.claims();
        let valid_until = token_claims::check_validity_period(claims, now, self.max_lifetime_ms)?;
        if !token_claims::has_audience(claims, audiences) {
            return Err(CredentialErrorKind::WrongAudience.into());
        }
        // These claims occur only in ID tokens (OpenID Connect, 3.1.3.6 and 3.3.2.11), which are
        // for the client that logged in and for nobody else.
        if claims.get("at_hash").or_else(|| claims.get("c_hash")).is_some() {
            return Err(CredentialErrorKind::NotAnAccessToken.into());
        }
        let terms = CredentialTerms { valid_until, is_agent: !self.is_person };
        self.resolve_principal(claims, terms, directory)
    }

    /// Checks who issued and signed a token.
    fn check_signature(
        &self,
        token: &UnverifiedJwt<'_>,
        keys: &JwkSet,
    ) -> Result<(), TokenVerificationError> {
        if token.issuer() != Some(&self.iss) {
            return Err(CredentialErrorKind::UnknownIssuer.into());
        }
        if !self.algorithms.contains(&token.algorithm()) {
            return Err(CredentialErrorKind::AlgorithmNotAllowed.into());
        }
        keys.verify_signature(&token.jws)
    }

    /// Returns the principal of verified claims: their user, with what the grants give it now.
    fn resolve_principal(
        &self,
        claims: &token_claims::TokenClaims,
        terms: CredentialTerms,
        directory: &Directory,
    ) -> Result<Principal, TokenVerificationError> {
        let subject = token_claims::subject_claim(claims, &self.subject_claim)
            .ok_or(CredentialErrorKind::InvalidSubject)?;
        let org = self.resolve_org(claims).ok_or(CredentialErrorKind::InvalidSubject)?;
        let (level, roles) = self.matching_grants(claims).ok_or(TokenVerificationError::NoGrant)?;
        // Issuers and this server may use the same name for different people.
        let named = format!("{}:{subject}", self.name);
        if directory.is_disabled(&org, &named) {
            return Err(CredentialErrorKind::Disabled.into());
        }
        // Regardless of grants, no token has level owner.
        let level = directory.cap_level(&roles, level.min(PermissionLevel::Admin));
        let barred_by_role = directory.has_unusable_role(&roles);
        let level = if barred_by_role { PermissionLevel::Guest } else { level };
        let rights = directory.role_rights(&roles).into_iter().filter(|_| !barred_by_role);
        let persona = effective_rights::deny_all_if_role_revoked(
            directory.personas.default_for_level(level),
            &roles,
            directory,
        );
        let class = RightsClass::new(RightsAttributes {
            org_tools: directory.org_tools(&org).cloned(),
            org,
            level,
            rights: rights.collect(),
            roles,
            persona,
            inherited_personas: BTreeSet::new(),
            is_agent: terms.is_agent,
            delegations: Vec::new(),
            restrictions: RequestRestrictions::default(),
            actor: None,
        });
        let key = format!("{}:{}", self.name, self.subject_id(subject));
        let (actors, root, creator) = (Vec::new(), None, None);
        let until = Some(terms.valid_until);
        let who = CallerIdentity {
            subject: &named,
            key_id: &key,
            actors,
            root,
            creator,
            expires_at: until,
        };
        Ok(Principal::new(who, class))
    }

    /// Returns an id that is equal for all tokens of one user, so that sessions outlive a token.
    fn subject_id(&self, subject: &str) -> String {
        let mut hasher = Sha256::new();
        hasher.update(self.iss.as_bytes());
        hasher.update([0]);
        hasher.update(subject.as_bytes());
        let digest = tool::Digest(hasher.finalize().into()).to_string();
        digest.chars().rev().take(16).collect()
    }

    fn resolve_org(&self, claims: &token_claims::TokenClaims) -> Option<Org> {
        let Some(selector) = &self.org_claim else { return Some(self.org.clone()) };
        let value = token_claims::find_claim(claims, &selector.claim)?.as_str()?;
        selector.orgs.get(value).cloned()
    }

    /// Combines all matching grants.
    fn matching_grants(
        &self,
        claims: &token_claims::TokenClaims,
    ) -> Option<(PermissionLevel, Vec<String>)> {
        let fits =
            |grant: &&ClaimGrant| token_claims::has_claim_value(claims, &grant.claim, &grant.value);
        let fitting: Vec<_> = self.grants.iter().filter(fits).collect();
        let level = fitting.iter().map(|grant| grant.level).max()?;
        Some((level, fitting.iter().flat_map(|grant| grant.roles.iter().cloned()).collect()))
    }
}

#[cfg(test)]
mod tests;
