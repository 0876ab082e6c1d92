//! The verified caller of a request.

use std::collections::BTreeSet;
use std::sync::Arc;

use tool::{Actor, Caller, Org, PermissionLevel, WallTime};

use crate::api_key::KeyRecord;
use crate::effective_rights::EffectiveRights;
use crate::rights_class::RightsAttributes;
use crate::{Directory, Persona, RequestRestrictions, Right, RightsClass};

/// A verified caller with the rights of its credential. It can be created only by this crate and
/// not from JSON: having one proves that a credential was verified. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal(Arc<PrincipalState>);

#[derive(Debug, PartialEq, Eq)]
struct PrincipalState {
    caller: Caller,
    rights: RightsClass,
    creator: Option<String>,
    expires_at: Option<WallTime>,
}

/// Identity of a caller without its rights.
pub(crate) struct CallerIdentity<'a> {
    pub(crate) subject: &'a str,
    pub(crate) key_id: &'a str,
    pub(crate) actors: Vec<Actor>,
    /// Id of the first key of the delegation chain, if any.
    pub(crate) root: Option<&'a str>,
    /// Subject that created the key, if any.
    pub(crate) creator: Option<&'a str>,
    pub(crate) expires_at: Option<WallTime>,
}

/// Key id of callers without a credential. No key has it: key ids have a prefix.
const ANONYMOUS_KEY: &str = "open";

impl Principal {
    /// Creates the principal of a record, once its secret was verified.
    pub(crate) fn from_key(record: &KeyRecord, rights: EffectiveRights) -> Self {
        let EffectiveRights { attributes: facts, actors, expires_at: until, .. } = rights;
        let root = record.delegations.first().map(|delegation| delegation.delegated_by.as_str());
        let (subject, key) = (record.subject.as_str(), record.id.as_str());
        let who = CallerIdentity {
            subject,
            key_id: key,
            actors,
            root,
            creator: record.creator.as_deref(),
            expires_at: until,
        };
        Self::new(who, RightsClass::new(facts))
    }

    /// Creates the principal of callers without a credential, if the operator allows them.
    pub(crate) fn anonymous(level: PermissionLevel, directory: &Directory) -> Self {
        let (org, persona) = (Org::default(), directory.personas.default_for_level(level));
        // Nothing proves that a person is there, so it counts as an agent.
        let class = RightsClass::new(RightsAttributes {
            org_tools: directory.org_tools(&org).cloned(),
            org,
            level,
            roles: Vec::new(),
            persona,
            inherited_personas: BTreeSet::new(),
            is_agent: true,
            rights: BTreeSet::new(),
            delegations: Vec::new(),
            restrictions: RequestRestrictions::default(),
            actor: None,
        });
        let (actors, root, creator, until) = (Vec::new(), None, None, None);
        let who = CallerIdentity {
            subject: "anonymous",
            key_id: ANONYMOUS_KEY,
            actors,
            root,
            creator,
            expires_at: until,
        };
        Self::new(who, class)
    }

    pub(crate) fn new(identity: CallerIdentity<'_>, rights: RightsClass) -> Self {
        let caller = Caller {
            org: rights.org().clone(),
            subject: identity.subject.to_owned(),
            key_id: identity.key_id.to_owned(),
            level: rights.level(),
            is_agent: rights.is_agent(),
            actors: identity.actors,
            root_key_id: identity.root.map(str::to_owned),
        };
        let creator = identity.creator.map(str::to_owned);
        Self(Arc::new(PrincipalState { caller, rights, creator, expires_at: identity.expires_at }))
    }

    /// Returns the same identity with other rights.
    fn with_attributes(&self, facts: RightsAttributes) -> Self {
        let Caller { subject, key_id: key, actors, root_key_id: root, .. } = &self.0.caller;
        let (actors, root, creator) = (actors.clone(), root.as_deref(), self.0.creator.as_deref());
        let who = CallerIdentity {
            subject,
            key_id: key,
            actors,
            root,
            creator,
            expires_at: self.0.expires_at,
        };
        Self::new(who, RightsClass::new(facts))
    }

    /// Returns true if the caller has no credential.
    pub fn is_anonymous(&self) -> bool {
        self.0.caller.key_id == ANONYMOUS_KEY
    }

    /// Returns true if the credential was a token of an issuer rather than an API key.
    pub fn is_from_token(&self) -> bool {
        // Key ids contain no colon.
        self.key_id().contains(':')
    }

    /// Returns the expiry time of the credential.
    pub fn expires_at(&self) -> Option<WallTime> {
        self.0.expires_at
    }

    /// Returns the facts that executors and records may see.
    pub fn caller(&self) -> &Caller {
        &self.0.caller
    }

    /// Returns everything that decides, without the identity: the key of all caches.
    pub fn rights_class(&self) -> &RightsClass {
        &self.0.rights
    }

    /// Returns the organisation of the key.
    pub fn org(&self) -> &Org {
        &self.0.caller.org
    }

    /// Returns the user, as the key names it.
    pub fn subject(&self) -> &str {
        &self.0.caller.subject
    }

    /// Returns the key id; never the key.
    pub fn key_id(&self) -> &str {
        &self.0.caller.key_id
    }

    /// Returns true if its key was delegated, created by a delegated key, or acts for another user:
    /// it has fewer rights, and ends with its parent key.
    pub fn is_delegated(&self) -> bool {
        !self.0.rights.delegations().is_empty() || !self.0.caller.actors.is_empty()
    }

    /// Returns true for an owner's own key: of level `owner`, not delegated, and bound to no toolset.
    pub fn is_owner(&self) -> bool {
        let is_bound = !self.0.rights.restrictions().toolsets.is_empty();
        self.level() == PermissionLevel::Owner && !self.is_delegated() && !is_bound
    }

    /// Returns the key id that limits count by: the first of the delegation chain.
    pub fn limit_key_id(&self) -> &str {
        self.0.caller.limit_key_id()
    }

    /// Returns the subject that created the key, if a key of this installation did.
    pub fn creator(&self) -> Option<&str> {
        self.0.creator.as_deref()
    }

    /// Returns the permission level.
    pub fn level(&self) -> PermissionLevel {
        self.0.caller.level
    }

    /// Returns the roles, sorted.
    pub fn roles(&self) -> &[String] {
        self.0.rights.roles()
    }

    /// Returns the persona, if the key has one.
    pub fn persona(&self) -> Option<&Persona> {
        self.0.rights.persona()
    }

    /// Returns true if the key belongs to an agent rather than a person.
    pub fn is_agent(&self) -> bool {
        self.0.caller.is_agent
    }

    /// Returns true if the key has this right.
    pub fn has_right(&self, right: Right) -> bool {
        self.0.rights.has_right(right)
    }

    /// Returns the principal with a lower level, at its own request (`?permission=` of the module
    /// API). A higher level changes nothing.
    #[must_use]
    pub fn with_max_level(&self, max_level: PermissionLevel) -> Self {
        if max_level >= self.level() {
            return self.clone();
        }
        let facts = RightsAttributes { level: max_level, ..self.0.rights.attributes().clone() };
        self.with_attributes(facts)
    }

    /// Returns the principal with further restrictions, at its own request. Existing restrictions
    /// stay.
    #[must_use]
    pub fn with_restrictions(&self, restrictions: &RequestRestrictions) -> Self {
        let own = self.0.rights.restrictions();
        let narrowing = own.union(restrictions);
        if narrowing == *own {
            return self.clone();
        }
        let facts =
            RightsAttributes { restrictions: narrowing, ..self.0.rights.attributes().clone() };
        self.with_attributes(facts)
    }
}
