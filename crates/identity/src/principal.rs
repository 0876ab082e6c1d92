//! The verified caller of a request.

use std::collections::BTreeSet;
use std::sync::Arc;

use tool::{Actor, Caller, Level, Org, Wall};

use crate::key::KeyRecord;
use crate::rights::Facts;
use crate::standing::Standing;
use crate::{Directory, Narrowing, Persona, Right, RightsClass};

/// A verified caller with the rights of its credential. It can be created only by this crate and
/// not from JSON: having one proves that a credential was verified. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal(Arc<Parts>);

#[derive(Debug, PartialEq, Eq)]
struct Parts {
    caller: Caller,
    rights: RightsClass,
    creator: Option<String>,
    until: Option<Wall>,
}

/// Identity of a caller without its rights.
pub(crate) struct Who<'a> {
    pub(crate) subject: &'a str,
    pub(crate) key: &'a str,
    pub(crate) actors: Vec<Actor>,
    /// Id of the first key of the delegation chain, if any.
    pub(crate) root: Option<&'a str>,
    /// Subject that created the key, if any.
    pub(crate) creator: Option<&'a str>,
    pub(crate) until: Option<Wall>,
}

impl Principal {
    /// Creates the principal of a record, once its secret was verified.
    pub(crate) fn of(record: &KeyRecord, standing: Standing) -> Self {
        let Standing { facts, actors, until, .. } = standing;
        let root = record.delegations.first().map(|delegation| delegation.by.as_str());
        let (subject, key) = (record.subject.as_str(), record.id.as_str());
        let who = Who { subject, key, actors, root, creator: record.creator.as_deref(), until };
        Self::new(who, RightsClass::new(facts))
    }

    /// Creates the principal of callers without a credential, if the operator allows them.
    pub(crate) fn anonymous(level: Level, directory: &Directory) -> Self {
        let (org, persona) = (Org::default(), directory.personas.of_none(level));
        // Nothing proves that a person is there, so it counts as an agent.
        let class = RightsClass::new(Facts {
            org_tools: directory.org_tools(&org).cloned(),
            org,
            level,
            roles: Vec::new(),
            persona,
            faces: BTreeSet::new(),
            agent: true,
            rights: BTreeSet::new(),
            delegations: Vec::new(),
            narrowing: Narrowing::default(),
            actor: None,
        });
        let (actors, root, creator, until) = (Vec::new(), None, None, None);
        let who = Who { subject: "anonymous", key: "open", actors, root, creator, until };
        Self::new(who, class)
    }

    pub(crate) fn new(who: Who<'_>, rights: RightsClass) -> Self {
        let caller = Caller {
            org: rights.org().clone(),
            subject: who.subject.to_owned(),
            key: who.key.to_owned(),
            level: rights.level(),
            agent: rights.agent(),
            actors: who.actors,
            root: who.root.map(str::to_owned),
        };
        let creator = who.creator.map(str::to_owned);
        Self(Arc::new(Parts { caller, rights, creator, until: who.until }))
    }

    /// Returns the same identity with other rights.
    fn with(&self, facts: Facts) -> Self {
        let Caller { subject, key, actors, root, .. } = &self.0.caller;
        let (actors, root, creator) = (actors.clone(), root.as_deref(), self.0.creator.as_deref());
        let who = Who { subject, key, actors, root, creator, until: self.0.until };
        Self::new(who, RightsClass::new(facts))
    }

    /// Returns true if the credential was a token of an issuer rather than an API key.
    pub fn is_token(&self) -> bool {
        // Key ids contain no colon.
        self.key().contains(':')
    }

    /// Returns the expiry time of the credential.
    pub fn until(&self) -> Option<Wall> {
        self.0.until
    }

    /// Returns the facts that executors and records may see.
    pub fn caller(&self) -> &Caller {
        &self.0.caller
    }

    /// Returns everything that decides, without the identity: the key of all caches.
    pub fn rights(&self) -> &RightsClass {
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
    pub fn key(&self) -> &str {
        &self.0.caller.key
    }

    /// Returns true if its key was delegated, created by a delegated key, or acts for another user:
    /// it has fewer rights, and ends with its parent key.
    pub fn is_delegated(&self) -> bool {
        !self.0.rights.delegations().is_empty() || !self.0.caller.actors.is_empty()
    }

    /// Returns true for an owner's own key: of level `owner`, and not delegated.
    pub fn is_owner(&self) -> bool {
        self.level() == Level::Owner && !self.is_delegated()
    }

    /// Returns the key id that limits count by: the first of the delegation chain.
    pub fn root_key(&self) -> &str {
        self.0.caller.root_key()
    }

    /// Returns the subject that created the key, if a key of this installation did.
    pub fn creator(&self) -> Option<&str> {
        self.0.creator.as_deref()
    }

    /// Returns the permission level.
    pub fn level(&self) -> Level {
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
    pub fn agent(&self) -> bool {
        self.0.caller.agent
    }

    /// Returns true if the key has this right.
    pub fn may(&self, right: Right) -> bool {
        self.0.rights.may(right)
    }

    /// Returns the principal with a lower level, at its own request (`?permission=` of the module
    /// API). A higher level changes nothing.
    #[must_use]
    pub fn lowered(&self, to: Level) -> Self {
        if to >= self.level() {
            return self.clone();
        }
        let facts = Facts { level: to, ..self.0.rights.facts().clone() };
        self.with(facts)
    }

    /// Returns the principal with further restrictions, at its own request. Existing restrictions
    /// stay.
    #[must_use]
    pub fn narrowed(&self, by: &Narrowing) -> Self {
        let own = self.0.rights.narrowing();
        let narrowing = own.and(by);
        if narrowing == *own {
            return self.clone();
        }
        let facts = Facts { narrowing, ..self.0.rights.facts().clone() };
        self.with(facts)
    }
}
