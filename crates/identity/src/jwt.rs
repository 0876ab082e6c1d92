//! Tokens of configured issuers (RFC 7519, RFC 9068): who asks, by somebody else's word.
//!
//! An issuer is believed in what its configuration grants and in nothing else. The algorithm is one of
//! those pinned for it and fits the key; where a header says where a key is, nobody looks there. Keys are
//! fetched elsewhere: this is pure.

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

/// How far two clocks may differ, in milliseconds.
const LEEWAY: u64 = 30_000;

/// What an issuer is believed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    /// Its name here: 1 to 32 lower-case letters, digits, `_` and `-`. Its users' names begin with it.
    pub name: String,
    /// Its `iss`, compared letter by letter.
    pub issuer: String,
    /// The algorithms its tokens may be signed with.
    pub algorithms: BTreeSet<Algorithm>,
    /// The organisation of its users.
    pub org: Org,
    /// A claim that says which organisation, with the ones that are known by its values. Another value
    /// is refused.
    pub orgs: Option<(String, BTreeMap<String, Org>)>,
    /// The claim that names the user; `sub` as a rule.
    pub subject: String,
    /// Whether its tokens are people's, rather than agents'.
    pub person: bool,
    /// What its tokens may do; one that none of these fits may do nothing.
    pub grants: Vec<Grant>,
    /// The longest life of a token, in milliseconds.
    pub longest: u64,
}

/// What a token may do whose claim has a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The claim: its name, or the way to it with dots.
    pub claim: String,
    /// The value: the claim's own, one of its list, or of a `scope` one of its words.
    pub value: String,
    /// The level it gives.
    pub level: Level,
    /// The roles it gives.
    pub roles: Vec<String>,
}

/// Why a token gives no principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenFault {
    /// It does not hold.
    Refused(Reason),
    /// It may hold: no key that is known signed it, and its issuer may have a new one.
    UnknownKey,
    /// It holds, and nothing is granted for it.
    NoGrant,
}

impl From<Reason> for TokenFault {
    fn from(reason: Reason) -> Self {
        Self::Refused(reason)
    }
}

impl Issuer {
    /// Who presents `token`, which names this issuer, signed with one of `keys`, for one of `audiences`.
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
        // What only an ID token has (OpenID Connect, 3.1.3.6 and 3.3.2.11): it says who logged in to a
        // client, and is for nobody else.
        if claims.get("at_hash").or_else(|| claims.get("c_hash")).is_some() {
            return Err(Reason::TokenKind.into());
        }
        let subject = claims::subject(claims, &self.subject).ok_or(Reason::Subject)?;
        let org = self.org_of(claims).ok_or(Reason::Subject)?;
        let (level, roles) = self.granted(claims).ok_or(TokenFault::NoGrant)?;
        // Two issuers may know different people by one name, and so may this server.
        let named = format!("{}:{subject}", self.name);
        if directory.disables(&org, &named) {
            return Err(Reason::Disabled.into());
        }
        // Whatever the configuration grants: no token makes an owner.
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

    /// The same for all tokens of one user, so that sessions outlive a token.
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

    /// All that fits, together.
    fn granted(&self, claims: &claims::Claims) -> Option<(Level, Vec<String>)> {
        let fits = |grant: &&Grant| claims::has(claims, &grant.claim, &grant.value);
        let fitting: Vec<_> = self.grants.iter().filter(fits).collect();
        let level = fitting.iter().map(|grant| grant.level).max()?;
        Some((level, fitting.iter().flat_map(|grant| grant.roles.iter().cloned()).collect()))
    }
}

#[cfg(test)]
mod tests;
