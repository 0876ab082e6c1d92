//! Verification of JWTs from configured issuers (RFC 7519, RFC 9068), and the rights they grant.
//!
//! An issuer is trusted only within its configured grants. The algorithm must be one of those
//! configured for it and fit the key; key locations in headers are ignored. Keys are fetched
//! elsewhere: this module is pure.

mod claims;
mod jws;
mod keys;

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};
use tool::{Level, Org, Wall};

use crate::error::Reason;
use crate::principal::Who;
use crate::rights::{Facts, RightsClass};
use crate::{Directory, Narrowing, Principal, standing};

pub use jws::{Algorithm, Jws, Token};
pub use keys::{KeySet, KeySetError};

/// Tolerated clock skew in milliseconds.
const LEEWAY: u64 = 30_000;

/// A trusted issuer with the operator's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    /// Name of the issuer: 1 to 32 lower-case letters, digits, `_` and `-`. It prefixes the names
    /// of its users.
    pub name: String,
    /// Value of `iss`, compared exactly.
    pub issuer: String,
    /// Allowed signature algorithms of its tokens.
    pub algorithms: BTreeSet<Algorithm>,
    /// Organisation of its users.
    pub org: Org,
    /// Claim that selects the organisation, with the organisation of each known value. Other values
    /// are rejected.
    pub orgs: Option<(String, BTreeMap<String, Org>)>,
    /// Claim that names the user; usually `sub`.
    pub subject: String,
    /// True if its tokens belong to people rather than agents.
    pub person: bool,
    /// Grants for its tokens; a token without a matching grant has no rights.
    pub grants: Vec<Grant>,
    /// Maximum lifetime of a token in milliseconds.
    pub longest: u64,
}

/// Level and roles for tokens with a claim value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Claim name, or a path to the claim with dots.
    pub claim: String,
    /// Required value: the claim itself, a list element, or one word of a `scope`.
    pub value: String,
    /// Level that is granted.
    pub level: Level,
    /// Roles that are granted.
    pub roles: Vec<String>,
}

/// Errors of verifying a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenFault {
    /// The token is invalid.
    Refused(Reason),
    /// No known key signed the token; its issuer may have a new one.
    UnknownKey,
    /// The token is valid, but has no matching grant.
    NoGrant,
}

impl From<Reason> for TokenFault {
    fn from(reason: Reason) -> Self {
        Self::Refused(reason)
    }
}

impl Issuer {
    /// Verifies `token` of this issuer against `keys` and `audiences`, and returns its principal.
    ///
    /// # Errors
    /// [`TokenFault`].
    pub fn verify(
        &self,
        token: &Token<'_>,
        keys: &KeySet,
        audiences: &[&str],
        (directory, now): (&Directory, Wall),
    ) -> Result<Principal, TokenFault> {
        if token.issuer() != Some(&self.issuer) {
            return Err(Reason::UnknownIssuer.into());
        }
        if !self.algorithms.contains(&token.algorithm()) {
            return Err(Reason::Algorithm.into());
        }
        keys.verify(&token.jws)?;
        let claims = token.claims();
        let until = claims::in_time(claims, now, self.longest)?;
        if !claims::for_one_of(claims, audiences) {
            return Err(Reason::Audience.into());
        }
        // These claims occur only in ID tokens (OpenID Connect, 3.1.3.6 and 3.3.2.11), which are
        // for the client that logged in and for nobody else.
        if claims.get("at_hash").or_else(|| claims.get("c_hash")).is_some() {
            return Err(Reason::TokenKind.into());
        }
        let subject = claims::subject(claims, &self.subject).ok_or(Reason::Subject)?;
        let org = self.org_of(claims).ok_or(Reason::Subject)?;
        let (level, roles) = self.granted(claims).ok_or(TokenFault::NoGrant)?;
        // Issuers and this server may use the same name for different people.
        let named = format!("{}:{subject}", self.name);
        if directory.disables(&org, &named) {
            return Err(Reason::Disabled.into());
        }
        // Regardless of grants, no token has level owner.
        let level = directory.capped(&roles, level.min(Level::Admin));
        let barred_by_role = directory.bars(&roles);
        let level = if barred_by_role { Level::Guest } else { level };
        let rights = directory.rights_of(&roles).into_iter().filter(|_| !barred_by_role);
        let persona = standing::barred(directory.personas.of_none(level), &roles, directory);
        let class = RightsClass::new(Facts {
            org_tools: directory.org_tools(&org).cloned(),
            org,
            level,
            rights: rights.collect(),
            roles,
            persona,
            faces: BTreeSet::new(),
            agent: !self.person,
            delegations: Vec::new(),
            narrowing: Narrowing::default(),
            actor: None,
        });
        let key = format!("{}:{}", self.name, self.mark(subject));
        let (actors, root, creator) = (Vec::new(), None, None);
        let until = Some(until);
        let who = Who { subject: &named, key: &key, actors, root, creator, until };
        Ok(Principal::new(who, class))
    }

    /// Returns an id that is equal for all tokens of one user, so that sessions outlive a token.
    fn mark(&self, subject: &str) -> String {
        let mut hasher = Sha256::new();
        hasher.update(self.issuer.as_bytes());
        hasher.update([0]);
        hasher.update(subject.as_bytes());
        let digest = tool::Digest(hasher.finalize().into()).to_string();
        digest.chars().rev().take(16).collect()
    }

    fn org_of(&self, claims: &claims::Claims) -> Option<Org> {
        let Some((claim, known)) = &self.orgs else { return Some(self.org.clone()) };
        known.get(claims::at(claims, claim)?.as_str()?).cloned()
    }

    /// Combines all matching grants.
    fn granted(&self, claims: &claims::Claims) -> Option<(Level, Vec<String>)> {
        let fits = |grant: &&Grant| claims::has(claims, &grant.claim, &grant.value);
        let fitting: Vec<_> = self.grants.iter().filter(fits).collect();
        let level = fitting.iter().map(|grant| grant.level).max()?;
        Some((level, fitting.iter().flat_map(|grant| grant.roles.iter().cloned()).collect()))
    }
}

#[cfg(test)]
mod tests;
