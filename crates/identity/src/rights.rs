//! Rights, personas, and the rights class: all of a principal that decides, without who it is.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tool::{Level, Org};

use crate::{Delegation, Narrowing, ToolList};

macro_rules! rights {
    ($($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)?) => {
        /// What a key may do beside calling tools. Levels decide about tools; rights about the server.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Right { $($(#[$doc])* #[serde(rename = $word)] $variant),+ }

        impl Right {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word as it is written.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
    };
}

rights! {
    /// Approve calls that are held. Never an agent's.
    Approve = "approve",
    /// Make and revoke keys. Never an agent's.
    KeysWrite = "keys:write",
    /// Approve and reject definitions of tools. Never an agent's.
    PinsWrite = "pins:write",
    /// Read the record of other subjects' calls.
    RecordsRead = "records:read",
    /// Have sources listed anew.
    SourcesRefresh = "sources:refresh",
    /// Have decisions explained for other keys, and of tools that are hidden.
    PolicyExplain = "policy:explain",
    /// Make keys that act on behalf of other users, at the lesser of both.
    ActAs = "act_as",
    /// Make, change and disable organisations, with the tools they may use. Never an agent's.
    OrgsWrite = "orgs:write",
    /// Have the node that the key's user names join, once: it gets a certificate and a key of its own.
    NodesJoin = "nodes:join",
    /// Register the tools of the node that the key's user names (spec 4).
    NodesRegister = "nodes:register",
    /// Register and remove tools of all nodes. Never an agent's.
    NodesWrite = "nodes:write",
    /// Be told where nodes are.
    NodesResolve = "nodes:resolve",
}

impl Right {
    /// Whether a key marked `agent` may carry it: one who acts for a person does not decide for him.
    pub const fn fits_agent(self) -> bool {
        match self {
            Self::Approve
            | Self::KeysWrite
            | Self::OrgsWrite
            | Self::PinsWrite
            | Self::NodesWrite => false,
            Self::RecordsRead
            | Self::SourcesRefresh
            | Self::PolicyExplain
            | Self::ActAs
            | Self::NodesJoin
            | Self::NodesRegister
            | Self::NodesResolve => true,
        }
    }
}

impl Right {
    /// What to do where a key lacks it: for every interface.
    pub fn remedy(self) -> String {
        if self.fits_agent() {
            format!("use owner.key, or a key made with `toolkeep key create --right {self}`")
        } else {
            format!(
                "use owner.key, or a person's key made with `toolkeep key create --person --right {self}`; \
                 an agent's key never has it"
            )
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Right {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|right| right.as_str() == word).ok_or_else(|| {
            let all: Vec<_> = Self::ALL.iter().map(|right| right.as_str()).collect();
            format!("unknown right `{}`; use one of {}", word.escape_debug(), all.join(", "))
        })
    }
}

/// A face that the assistant shows in one place, with the modules that belong to it (spec 0).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Persona {
    /// Its name.
    pub name: String,
    /// The sources whose tools it may use, by the names the operator gave them. No list is no limit;
    /// an empty list allows none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_modules: Option<BTreeSet<String>>,
}

impl Persona {
    /// Whether the tools of this source belong to it.
    pub fn allows(&self, source: &str) -> bool {
        self.allowed_modules.as_ref().is_none_or(|modules| modules.contains(source))
    }
}

/// Everything of a principal that a decision may use, and nothing of who it is: principals of one
/// class see and may do the same, so that the class keys the caches. Cheap to clone, hash and compare.
#[derive(Clone)]
pub struct RightsClass(Arc<Class>);

/// The facts of a class, as they are put together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Facts {
    pub(crate) org: Org,
    pub(crate) level: Level,
    pub(crate) roles: Vec<String>,
    pub(crate) persona: Option<Persona>,
    /// Names of other personas that were met on the way to this one: their layers hold too.
    pub(crate) faces: BTreeSet<String>,
    pub(crate) agent: bool,
    pub(crate) rights: BTreeSet<Right>,
    pub(crate) delegations: Vec<Delegation>,
    pub(crate) narrowing: Narrowing,
    pub(crate) actor: Option<RightsClass>,
    pub(crate) org_tools: Option<ToolList>,
}

#[derive(PartialEq, Eq)]
struct Class {
    /// Over all the facts, made once.
    hash: u64,
    facts: Facts,
}

impl RightsClass {
    /// Sorts what has no order and takes from an agent what an agent never has.
    pub(crate) fn new(mut facts: Facts) -> Self {
        facts.roles.sort_unstable();
        facts.roles.dedup();
        let agent = facts.agent;
        facts.rights.retain(|right| !agent || right.fits_agent());
        let mut hasher = DefaultHasher::new();
        facts.hash(&mut hasher);
        Self(Arc::new(Class { hash: hasher.finish(), facts }))
    }

    /// The facts, to make another class of them.
    pub(crate) fn facts(&self) -> &Facts {
        &self.0.facts
    }

    /// Organisation.
    pub fn org(&self) -> &Org {
        &self.0.facts.org
    }

    /// Permission level.
    pub fn level(&self) -> Level {
        self.0.facts.level
    }

    /// Roles, sorted, each once.
    pub fn roles(&self) -> &[String] {
        &self.0.facts.roles
    }

    /// The persona, where the key has one.
    pub fn persona(&self) -> Option<&Persona> {
        self.0.facts.persona.as_ref()
    }

    /// The names of all personas that were met on the way to this class, its own first: of a key that was
    /// handed on, or acts for another, each narrows.
    pub fn personas(&self) -> impl Iterator<Item = &str> {
        let own = self.persona().map(|persona| persona.name.as_str());
        let faces = self.0.facts.faces.iter().map(String::as_str);
        own.into_iter().chain(faces.filter(move |face| Some(*face) != own))
    }

    /// Whether the key belongs to an agent rather than a person.
    pub fn agent(&self) -> bool {
        self.0.facts.agent
    }

    /// The rights, in order.
    pub fn rights(&self) -> impl Iterator<Item = Right> + '_ {
        self.0.facts.rights.iter().copied()
    }

    /// Whether this right is among them.
    pub fn may(&self, right: Right) -> bool {
        self.0.facts.rights.contains(&right)
    }

    /// What was lost on the way from the first key to this one, the eldest first.
    pub fn delegations(&self) -> &[Delegation] {
        &self.0.facts.delegations
    }

    /// What the caller took from itself for this request.
    pub fn narrowing(&self) -> &Narrowing {
        &self.0.facts.narrowing
    }

    /// The patterns of the tools that the organisation may use, where it has a list in the store (spec 4).
    /// An empty list allows none.
    pub fn org_tools(&self) -> Option<&[String]> {
        self.0.facts.org_tools.as_ref().map(ToolList::patterns)
    }

    /// The class of who acts on behalf of another, where someone does: what it may not do, this class may
    /// not either.
    pub fn actor(&self) -> Option<&Self> {
        self.0.facts.actor.as_ref()
    }

    /// Whether tools of this source may be used at all.
    pub fn allows_source(&self, source: &str) -> bool {
        self.0.facts.persona.as_ref().is_none_or(|persona| persona.allows(source))
    }
}

impl PartialEq for RightsClass {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}
impl Eq for RightsClass {}

impl Hash for RightsClass {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

impl fmt::Debug for RightsClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RightsClass").field(&self.0.facts).finish()
    }
}
