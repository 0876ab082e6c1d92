//! Who asks.

use std::sync::Arc;

use tool::{Caller, Level, Org};

use crate::key::KeyRecord;
use crate::{Persona, Right, RightsClass};

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
        let KeyRecord { id, org, subject, level, roles, rights, agent, .. } = record;
        let class =
            RightsClass::new((org.clone(), *level, *agent), roles.clone(), persona, rights.clone());
        Self::new(subject, id.as_str(), class)
    }

    /// Whoever comes without a credential, where the operator opened the door.
    pub(crate) fn anonymous(level: Level, persona: Option<Persona>) -> Self {
        // Nothing shows that a person is there, so it counts as an agent.
        let class = RightsClass::new((Org::default(), level, true), vec![], persona, [].into());
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
        let rights = &self.0.rights;
        let class = RightsClass::new(
            (rights.org().clone(), to, rights.agent()),
            rights.roles().to_vec(),
            rights.persona().cloned(),
            rights.rights().collect(),
        );
        Self::new(self.subject(), self.key(), class)
    }
}
