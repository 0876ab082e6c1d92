//! Creation of keys by other keys: what a creator may grant, and how the new key stays bound to it.
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
/// Subject of callers without a credential.
const ANONYMOUS: &str = "anonymous";
/// Maximum length of an issuer name; its users are `ISSUER:SUBJECT`.
const ISSUER_LEN: usize = 32;

impl NewKey {
    /// Prepares this key for creation by `maker` and sets the creator. A key created by a delegated
    /// key is a delegation too: bound to its creator, never broader, never longer-lived.
    ///
    /// # Errors
    /// [`KeyFault`] with the first missing grant or invalid value.
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

    /// Requests the first key of an organisation: a person's, of its creator's level, for the
    /// subject `owner`.
    ///
    /// # Errors
    /// [`KeyFault::Delegated`] if the creator's key is delegated.
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

    /// Returns the allowed modules: the key's own list, or those of the named persona.
    pub(super) fn modules<'a>(
        &'a self,
        directory: &'a crate::Directory,
    ) -> Option<&'a BTreeSet<String>> {
        let own = self.persona.as_ref()?;
        let named = || directory.personas().get(&own.name)?.allowed_modules.as_ref();
        own.allowed_modules.as_ref().or_else(named)
    }

    /// Returns true if the subject is another existing one, for which the creator may act.
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

    /// Adds a link to the creator's delegation chain.
    fn bound_to(
        mut self,
        maker: &Principal,
        ring: &KeyRing,
        acts_for_another: bool,
    ) -> Result<Self, KeyFault> {
        // A token has no chain, and a key that creates another is in the ring.
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
            // The module list is stored with the key and intersected with the user's own.
            let modules = self.modules(ring.directory()).cloned();
            self.persona =
                modules.map(|all| Persona { name: "key".to_owned(), allowed_modules: Some(all) });
        }
        Ok(self)
    }
}

/// Returns true if the subject is already in use. Revoked keys count, because their data still
/// belongs to the subject; so do the users of tokens, whom only the issuer knows.
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

/// Returns the level of the key's subject: its user's, or else the highest of its keys.
fn level_of(new: &NewKey, ring: &KeyRing) -> Option<Level> {
    let user = ring.directory().user(&new.org, &new.subject).map(|user| user.level);
    user.or_else(|| ring.subjects().highest_level(&new.org, &new.subject))
}
