//! Who asks.

use std::collections::BTreeSet;
use std::sync::Arc;

use tool::{Caller, Level, Org};

use crate::key::KeyRecord;
use crate::rights::Facts;
use crate::{Narrowing, Persona, Right, RightsClass};

/// Who asks, with the rights the credential carries. It cannot be built from outside this crate and
/// cannot be read from JSON: having one is the proof that a credential was verified. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal(Arc<Parts>);

#[derive(Debug, PartialEq, Eq)]
struct Parts {
    caller: Caller,
    rights: RightsClass,
}

impl Principal {
    /// What a record says, once its secret was presented, with the persona it has.
    pub(crate) fn of(record: &KeyRecord, persona: Option<Persona>) -> Self {
        let class = RightsClass::new(Facts {
            org: record.org.clone(),
            level: record.level,
            roles: record.roles.clone(),
            persona,
            agent: record.agent,
            rights: record.rights.clone(),
            delegations: record.delegations.clone(),
            narrowing: Narrowing::default(),
        });
        Self::new(&record.subject, record.id.as_str(), class)
    }

    /// Whoever comes without a credential, where the operator opened the door.
    pub(crate) fn anonymous(level: Level, persona: Option<Persona>) -> Self {
        // Nothing shows that a person is there, so it counts as an agent.
        let class = RightsClass::new(Facts {
            org: Org::default(),
            level,
            roles: Vec::new(),
            persona,
            agent: true,
            rights: BTreeSet::new(),
            delegations: Vec::new(),
            narrowing: Narrowing::default(),
        });
        Self::new("anonymous", "open", class)
    }

    fn new(subject: &str, key: &str, rights: RightsClass) -> Self {
        let caller = Caller {
            org: rights.org().clone(),
            subject: subject.to_owned(),
            key: key.to_owned(),
            level: rights.level(),
            agent: rights.agent(),
        };
        Self(Arc::new(Parts { caller, rights }))
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
        Self::new(self.subject(), self.key(), RightsClass::new(facts))
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
        Self::new(self.subject(), self.key(), RightsClass::new(facts))
    }
}
