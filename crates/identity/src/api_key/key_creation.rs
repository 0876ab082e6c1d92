//! Creation of keys by other keys: the rights that a creator may grant, and the binding of the new
//! key to its creator.
//!
//! Every route that creates a key goes through [`NewKey::created_by`], [`NewKey::delegate_key`] or
//! [`NewKey::first_of_org`].

use std::collections::BTreeSet;

use tool::{Org, PermissionLevel};

use super::{KeyId, NewKey};
use crate::effective_rights::MAX_DELEGATION_DEPTH;
use crate::{KeyDelegation, KeyIssueError, KeyRing, Persona, Principal, Right};

/// Rights of an organisation's first key, as far as its creator has them.
const FIRST_KEY_RIGHTS: [Right; 4] =
    [Right::Approve, Right::KeysWrite, Right::RecordsRead, Right::ActAs];
/// Subject of callers without a credential.
const ANONYMOUS_SUBJECT: &str = "anonymous";
/// Maximum length of an issuer name; its users are `ISSUER:SUBJECT`.
const MAX_ISSUER_NAME_BYTES: usize = 32;

impl NewKey {
    /// Prepares this key for creation by `creator` and records it. A key created by a delegated
    /// key is a delegation too: bound to its creator, never broader, never longer-lived.
    ///
    /// # Errors
    /// [`KeyIssueError`] with the first missing grant or invalid value.
    pub fn created_by(
        mut self,
        creator: &Principal,
        key_ring: &KeyRing,
    ) -> Result<Self, KeyIssueError> {
        self.check_grantable_by(creator, key_ring.directory())?;
        if self.level == PermissionLevel::Owner && !creator.is_owner() {
            return Err(KeyIssueError::OwnerRequired);
        }
        let acts_for_another = self.acts_for_another(creator, key_ring)?;
        self.creator = Some(creator.subject().to_owned());
        self.level_fixed = subject_level(&self, key_ring).is_some_and(|level| self.level < level);
        if creator.is_delegated() {
            self.bind_to_creator(creator, key_ring, acts_for_another)
        } else {
            Ok(self)
        }
    }

    /// Requests the first key of an organisation: a person's, of its creator's level, for the
    /// subject `owner`.
    ///
    /// # Errors
    /// [`KeyIssueError::NotForDelegatedKeys`] if the creator's key is delegated.
    pub fn first_of_org(org: Org, id: KeyId, creator: &Principal) -> Result<Self, KeyIssueError> {
        if creator.is_delegated() {
            return Err(KeyIssueError::NotForDelegatedKeys("create an organisation"));
        }
        Ok(Self {
            org,
            level: creator.level(),
            rights: FIRST_KEY_RIGHTS
                .into_iter()
                .filter(|right| creator.has_right(*right))
                .collect(),
            is_agent: false,
            creator: Some(creator.subject().to_owned()),
            ..Self::for_user(id, "owner")
        })
    }

    /// Returns the allowed modules: the key's own list, or those of the named persona.
    pub(super) fn persona_modules<'a>(
        &'a self,
        directory: &'a crate::Directory,
    ) -> Option<&'a BTreeSet<String>> {
        let own = self.persona.as_ref()?;
        let named = || directory.personas().find_persona(&own.name)?.allowed_modules.as_ref();
        own.allowed_modules.as_ref().or_else(named)
    }

    /// Returns true if the subject is another existing one, for which the creator may act.
    fn acts_for_another(&self, creator: &Principal, ring: &KeyRing) -> Result<bool, KeyIssueError> {
        if self.subject == creator.subject() {
            return Ok(false);
        }
        if subject_exists(&self.subject, &self.org, ring) {
            let may = creator.has_right(Right::ActAs) || creator.is_owner();
            return if may {
                Ok(true)
            } else {
                Err(KeyIssueError::SubjectExists(self.subject.clone()))
            };
        }
        let names = [ring.directory().user_names(), ring.subjects().names()];
        match names.iter().find_map(|names| names.find_confusable(&self.org, &self.subject)) {
            Some(there) => {
                let (asked, there) = (self.subject.clone(), there.to_owned());
                Err(KeyIssueError::Confusable { requested: asked, existing: there })
            }
            None => Ok(false),
        }
    }

    /// Adds a link to the creator's delegation chain.
    fn bind_to_creator(
        mut self,
        creator: &Principal,
        ring: &KeyRing,
        acts_for_another: bool,
    ) -> Result<Self, KeyIssueError> {
        // A token has no chain, and a key that creates another is in the ring.
        let own = ring
            .find_record(creator.key_id())
            .ok_or(KeyIssueError::NotForDelegatedKeys("create this key"))?;
        if own.delegations.len() >= MAX_DELEGATION_DEPTH {
            return Err(KeyIssueError::DelegationTooDeep(own.delegations.len()));
        }
        if acts_for_another && ring.directory().find_user(&self.org, &self.subject).is_none() {
            return Err(KeyIssueError::UnknownUser(self.subject));
        }
        self.expires_at = match (self.expires_at, creator.expires_at()) {
            (Some(asked), Some(own)) if asked > own => return Err(KeyIssueError::OutlivesParent),
            (asked, own) => asked.or(own),
        };
        let (by, created) = (own.id.to_string(), !acts_for_another);
        let link =
            KeyDelegation { delegated_by: by, is_created_key: created, ..KeyDelegation::default() };
        self.delegations = own.delegations.iter().cloned().chain([link]).collect();
        if acts_for_another {
            // The module list is stored with the key and intersected with the user's own.
            let modules = self.persona_modules(ring.directory()).cloned();
            self.persona =
                modules.map(|all| Persona { name: "key".to_owned(), allowed_modules: Some(all) });
        }
        Ok(self)
    }
}

/// Returns true if the subject is already in use. Revoked keys count, because their data still
/// belongs to the subject; so do the users of tokens, whom only the issuer knows.
fn subject_exists(subject: &str, org: &Org, ring: &KeyRing) -> bool {
    let of_issuer = |name: &str| {
        let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-');
        (1..=MAX_ISSUER_NAME_BYTES).contains(&name.len()) && name.bytes().all(fits)
    };
    subject == ANONYMOUS_SUBJECT
        || subject.split_once(':').is_some_and(|(name, _)| of_issuer(name))
        || ring.directory().has_user(org, subject)
        || ring.subjects().highest_level(org, subject).is_some()
}

/// Returns the level of the key's subject: its user's, or else the highest of its keys.
fn subject_level(new: &NewKey, ring: &KeyRing) -> Option<PermissionLevel> {
    let user = ring.directory().find_user(&new.org, &new.subject).map(|user| user.level);
    user.or_else(|| ring.subjects().highest_level(&new.org, &new.subject))
}
