//! Who asks.

use std::collections::BTreeSet;
use std::sync::Arc;

use tool::{Actor, Caller, Level, Org, Wall};

use crate::key::KeyRecord;
use crate::rights::Facts;
use crate::standing::Standing;
use crate::{Directory, Narrowing, Persona, Right, RightsClass};

/// Who asks, with the rights the credential carries. It cannot be built from outside this crate and
/// cannot be read from JSON: having one is the proof that a credential was verified. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal(Arc<Parts>);

#[derive(Debug, PartialEq, Eq)]
struct Parts {
    caller: Caller,
    rights: RightsClass,
    creator: Option<String>,
    until: Option<Wall>,
}

/// Who asks, without what it may do.
pub(crate) struct Who<'a> {
    pub(crate) subject: &'a str,
    pub(crate) key: &'a str,
    pub(crate) actors: Vec<Actor>,
    /// Id of the first key of the delegation chain, where there is one.
    pub(crate) root: Option<&'a str>,
    /// The subject that created the key, where one did.
    pub(crate) creator: Option<&'a str>,
    pub(crate) until: Option<Wall>,
}

impl Principal {
    /// What a record comes to, once its secret was presented.
    pub(crate) fn of(record: &KeyRecord, standing: Standing) -> Self {
        let Standing { facts, actors, until, .. } = standing;
        let root = record.delegations.first().map(|delegation| delegation.by.as_str());
        let (subject, key) = (record.subject.as_str(), record.id.as_str());
        let who = Who { subject, key, actors, root, creator: record.creator.as_deref(), until };
        Self::new(who, RightsClass::new(facts))
    }

    /// Whoever comes without a credential, where the operator opened the door.
    pub(crate) fn anonymous(level: Level, directory: &Directory) -> Self {
        let (org, persona) = (Org::default(), directory.personas.of_none(level));
        // Nothing shows that a person is there, so it counts as an agent.
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

    /// The same asker with other rights.
    fn with(&self, facts: Facts) -> Self {
        let Caller { subject, key, actors, root, .. } = &self.0.caller;
        let (actors, root, creator) = (actors.clone(), root.as_deref(), self.0.creator.as_deref());
        let who = Who { subject, key, actors, root, creator, until: self.0.until };
        Self::new(who, RightsClass::new(facts))
    }

    /// Whether a token of an issuer was its credential, rather than a key of this program.
    pub fn is_token(&self) -> bool {
        // No key's id has a colon.
        self.key().contains(':')
    }

    /// From when on the credential does not hold.
    pub fn until(&self) -> Option<Wall> {
        self.0.until
    }

    /// The facts that executors and records may see.
    pub fn caller(&self) -> &Caller {
        &self.0.caller
    }

    /// All that decides, without who it is: the key of every cache.
    pub fn rights(&self) -> &RightsClass {
        &self.0.rights
    }

    /// Organisation.
    pub fn org(&self) -> &Org {
        &self.0.caller.org
    }

    /// The user, as the key names it.
    pub fn subject(&self) -> &str {
        &self.0.caller.subject
    }

    /// Id of the key; never the key.
    pub fn key(&self) -> &str {
        &self.0.caller.key
    }

    /// Whether its key was delegated, created by a delegated key, or acts for another: the key has less than a
    /// key of its own, and ends with the one before it.
    pub fn is_delegated(&self) -> bool {
        !self.0.rights.delegations().is_empty() || !self.0.caller.actors.is_empty()
    }

    /// Whether its key is an owner's own: of level `owner`, and not delegated.
    pub fn is_owner(&self) -> bool {
        self.level() == Level::Owner && !self.is_delegated()
    }

    /// Id of the key that limits count by: the first of the delegation chain.
    pub fn root_key(&self) -> &str {
        self.0.caller.root_key()
    }

    /// The subject that created the key, where it was created by another key of this installation.
    pub fn creator(&self) -> Option<&str> {
        self.0.creator.as_deref()
    }

    /// Permission level.
    pub fn level(&self) -> Level {
        self.0.caller.level
    }

    /// Roles, sorted.
    pub fn roles(&self) -> &[String] {
        self.0.rights.roles()
    }

    /// The persona, where the key has one.
    pub fn persona(&self) -> Option<&Persona> {
        self.0.rights.persona()
    }

    /// Whether the key belongs to an agent rather than a person.
    pub fn agent(&self) -> bool {
        self.0.caller.agent
    }

    /// Whether the key carries this right.
    pub fn may(&self, right: Right) -> bool {
        self.0.rights.may(right)
    }

    /// The same asker with a lower level, where he asks for it himself (spec 0's `?permission=`). A
    /// higher word changes nothing.
    #[must_use]
    pub fn lowered(&self, to: Level) -> Self {
        if to >= self.level() {
            return self.clone();
        }
        let facts = Facts { level: to, ..self.0.rights.facts().clone() };
        self.with(facts)
    }

    /// The same asker with less, where it takes so much from itself for one request. What is taken
    /// already stays taken.
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
