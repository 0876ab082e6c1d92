//! Creating a key with another one: what its creator may give, and what the new key stays bound to.
//!
//! Every route that creates a key goes through [`NewKey::created_by`], [`NewKey::delegated`] or
//! [`NewKey::first_of`].

use std::collections::BTreeSet;

use tool::{Level, Org};

use super::{KeyId, NewKey};
use crate::standing::HANDS;
use crate::{Delegation, KeyFault, KeyRing, Persona, Principal, Right};

/// Rights of an organisation's first key, as far as its creator has them.
const FIRST: [Right; 4] = [Right::Approve, Right::KeysWrite, Right::RecordsRead, Right::ActAs];
/// The subject of callers without a credential.
const ANONYMOUS: &str = "anonymous";
/// The longest name of an issuer of tokens; its users are `ISSUER:SUBJECT`.
const ISSUER_LEN: usize = 32;

impl NewKey {
    /// This key as `maker` may create it. One that a delegated key creates is a delegation too: bound to
    /// its creator, never broader, never longer-lived. Sets the creator.
    ///
    /// # Errors
    /// [`KeyFault`] with the first thing that the maker lacks, or that does not fit.
    pub fn created_by(mut self, maker: &Principal, ring: &KeyRing) -> Result<Self, KeyFault> {
        self.within(maker, ring.directory())?;
        if self.level == Level::Owner && !maker.is_owner() {
            return Err(KeyFault::Owner);
        }
        let acts_for_another = self.names_another(maker, ring)?;
        self.creator = Some(maker.subject().to_owned());
        self.level_fixed = level_of(&self, ring).is_some_and(|level| self.level < level);
        if maker.is_delegated() { self.bound_to(maker, ring, acts_for_another) } else { Ok(self) }
    }

    /// The first key of an organisation: a person's, of its creator's level, for the subject `owner`.
    ///
    /// # Errors
    /// [`KeyFault::Delegated`] where the maker's key is not its own.
    pub fn first_of(org: Org, id: KeyId, maker: &Principal) -> Result<Self, KeyFault> {
        if maker.is_delegated() {
            return Err(KeyFault::Delegated("create an organisation"));
        }
        Ok(Self {
            org,
            level: maker.level(),
            rights: FIRST.into_iter().filter(|right| maker.may(*right)).collect(),
            agent: false,
            creator: Some(maker.subject().to_owned()),
            ..Self::user(id, "owner")
        })
    }

    /// The persona of the key: its own list, or what the name stands for now.
    pub(super) fn modules<'a>(
        &'a self,
        directory: &'a crate::Directory,
    ) -> Option<&'a BTreeSet<String>> {
        let own = self.persona.as_ref()?;
        let named = || directory.personas().get(&own.name)?.allowed_modules.as_ref();
        own.allowed_modules.as_ref().or_else(named)
    }

    /// Whether its subject is another one that exists, which its maker may act for.
    fn names_another(&self, maker: &Principal, ring: &KeyRing) -> Result<bool, KeyFault> {
        if self.subject == maker.subject() {
            return Ok(false);
        }
        if exists(&self.subject, &self.org, ring) {
            let may = maker.may(Right::ActAs) || maker.is_owner();
            return if may { Ok(true) } else { Err(KeyFault::Foreign(self.subject.clone())) };
        }
        let names = [ring.directory().user_names(), ring.subjects().names()];
        match names.iter().find_map(|names| names.confusable(&self.org, &self.subject)) {
            Some(there) => {
                let (asked, there) = (self.subject.clone(), there.to_owned());
                Err(KeyFault::Confusable { asked, there })
            }
            None => Ok(false),
        }
    }

    /// A further link of the maker's delegation chain.
    fn bound_to(
        mut self,
        maker: &Principal,
        ring: &KeyRing,
        acts_for_another: bool,
    ) -> Result<Self, KeyFault> {
        // A token has no chain, and a key that makes one is in the ring.
        let own = ring.get(maker.key()).ok_or(KeyFault::Delegated("create this key"))?;
        if own.delegations.len() >= HANDS {
            return Err(KeyFault::Hands(own.delegations.len()));
        }
        if acts_for_another && ring.directory().user(&self.org, &self.subject).is_none() {
            return Err(KeyFault::NoUser(self.subject));
        }
        self.expires = match (self.expires, maker.until()) {
            (Some(asked), Some(own)) if asked > own => return Err(KeyFault::Outlives),
            (asked, own) => asked.or(own),
        };
        let (by, created) = (own.id.to_string(), !acts_for_another);
        let link = Delegation { by, created, ..Delegation::default() };
        self.delegations = own.delegations.iter().cloned().chain([link]).collect();
        if acts_for_another {
            // The list goes with the key, its name is met with the user's own.
            let modules = self.modules(ring.directory()).cloned();
            self.persona =
                modules.map(|all| Persona { name: "key".to_owned(), allowed_modules: Some(all) });
        }
        Ok(self)
    }
}

/// Whether this subject stands for somebody already. A key that was revoked counts: what its subject left
/// behind is still its own. So does the name of a token's user, whom only the issuer knows.
fn exists(subject: &str, org: &Org, ring: &KeyRing) -> bool {
    let of_issuer = |name: &str| {
        let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-');
        (1..=ISSUER_LEN).contains(&name.len()) && name.bytes().all(fits)
    };
    subject == ANONYMOUS
        || subject.split_once(':').is_some_and(|(name, _)| of_issuer(name))
        || ring.directory().has_user(org, subject)
        || ring.subjects().highest_level(org, subject).is_some()
}

/// The level of the key's subject: its user's, or else the highest of its keys.
fn level_of(new: &NewKey, ring: &KeyRing) -> Option<Level> {
    let user = ring.directory().user(&new.org, &new.subject).map(|user| user.level);
    user.or_else(|| ring.subjects().highest_level(&new.org, &new.subject))
}
