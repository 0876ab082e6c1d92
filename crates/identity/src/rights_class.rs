//! Rights, personas, and the rights class: everything about a principal that decides.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tool::{Org, PermissionLevel};

use crate::{KeyDelegation, OrgToolPatterns, RequestRestrictions};

macro_rules! rights {
    ($($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)?) => {
        /// A right of a key, besides calling tools. Levels decide about tools; rights about the
        /// server.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Right { $($(#[$doc])* #[serde(rename = $word)] $variant),+ }

        impl Right {
            /// Every right there is.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the word as it is serialised.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
    };
}

rights! {
    /// Approve pending calls. Never an agent's.
    Approve = "approve",
    /// Create and revoke keys. Never an agent's.
    KeysWrite = "keys:write",
    /// Approve and reject definitions of tools. Never an agent's.
    PinsWrite = "pins:write",
    /// Read the record of other subjects' calls.
    RecordsRead = "records:read",
    /// Refresh the listings of sources.
    SourcesRefresh = "sources:refresh",
    /// Add sources to the configuration file. Never an agent's.
    SourcesWrite = "sources:write",
    /// Explain decisions for other keys, and for hidden tools.
    PolicyExplain = "policy:explain",
    /// Create keys that act on behalf of other users, with the lesser rights of both.
    ActAs = "act_as",
    /// Create, change and disable organisations, with the tools they may use. Never an agent's.
    OrgsWrite = "orgs:write",
    /// Join the node that the key's user names, once: it gets a certificate and a key of its own.
    NodesJoin = "nodes:join",
    /// Register the tools of the node that the key's user names (cluster tools).
    NodesRegister = "nodes:register",
    /// Register and remove tools of all nodes. Never an agent's.
    NodesWrite = "nodes:write",
    /// Resolve the addresses of nodes.
    NodesResolve = "nodes:resolve",
}

impl Right {
    /// Returns true if an agent's key may have it: an agent does not decide on behalf of a person.
    pub const fn is_allowed_for_agents(self) -> bool {
        match self {
            Self::Approve
            | Self::KeysWrite
            | Self::OrgsWrite
            | Self::PinsWrite
            | Self::SourcesWrite
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
    /// Returns a remedy for a missing right, for every interface.
    pub fn remedy(self) -> String {
        if self.is_allowed_for_agents() {
            format!("use owner.key, or a key created with `toolkeep key create --right {self}`")
        } else {
            format!(
                "use owner.key, or a person's key created with `toolkeep key create --person \
                 --right {self}`; an agent's key cannot have it"
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

/// A persona of the assistant, with the modules that it may use.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Persona {
    /// Name of the persona.
    pub name: String,
    /// Names of the sources whose tools it may use. No list is no limit; an empty list allows none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_modules: Option<BTreeSet<String>>,
}

impl Persona {
    /// Returns true if it may use the tools of this source.
    pub fn allows_source(&self, source: &str) -> bool {
        self.allowed_modules.as_ref().is_none_or(|modules| modules.contains(source))
    }
}

/// Everything about a principal that decides, without its identity. Principals of one class see and
/// may do the same, so the class is the key of caches. Cheap to clone, hash and compare.
#[derive(Clone)]
pub struct RightsClass(Arc<HashedAttributes>);

/// Attributes of a rights class.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RightsAttributes {
    pub(crate) org: Org,
    pub(crate) level: PermissionLevel,
    pub(crate) roles: Vec<String>,
    pub(crate) persona: Option<Persona>,
    /// Names of other personas in the delegation chain: their layers apply too.
    pub(crate) inherited_personas: BTreeSet<String>,
    pub(crate) is_agent: bool,
    pub(crate) rights: BTreeSet<Right>,
    pub(crate) delegations: Vec<KeyDelegation>,
    pub(crate) restrictions: RequestRestrictions,
    pub(crate) actor: Option<RightsClass>,
    pub(crate) org_tools: Option<OrgToolPatterns>,
}

#[derive(PartialEq, Eq)]
struct HashedAttributes {
    /// Hash over all attributes, computed once.
    hash: u64,
    facts: RightsAttributes,
}

impl RightsClass {
    /// Normalises the order of attributes and removes rights that an agent may not have.
    pub(crate) fn new(mut facts: RightsAttributes) -> Self {
        facts.roles.sort_unstable();
        facts.roles.dedup();
        let agent = facts.is_agent;
        facts.rights.retain(|right| !agent || right.is_allowed_for_agents());
        let mut hasher = DefaultHasher::new();
        facts.hash(&mut hasher);
        Self(Arc::new(HashedAttributes { hash: hasher.finish(), facts }))
    }

    /// Returns the attributes, to derive another class.
    pub(crate) fn attributes(&self) -> &RightsAttributes {
        &self.0.facts
    }

    /// Returns the organisation of the key.
    pub fn org(&self) -> &Org {
        &self.0.facts.org
    }

    /// Returns the permission level.
    pub fn level(&self) -> PermissionLevel {
        self.0.facts.level
    }

    /// Returns the roles, sorted and unique.
    pub fn roles(&self) -> &[String] {
        &self.0.facts.roles
    }

    /// Returns the persona, if the key has one.
    pub fn persona(&self) -> Option<&Persona> {
        self.0.facts.persona.as_ref()
    }

    /// Iterates over the names of all personas in the delegation chain, its own first: each of them
    /// restricts.
    pub fn persona_names(&self) -> impl Iterator<Item = &str> {
        let own = self.persona().map(|persona| persona.name.as_str());
        let faces = self.0.facts.inherited_personas.iter().map(String::as_str);
        own.into_iter().chain(faces.filter(move |face| Some(*face) != own))
    }

    /// Returns true if the key belongs to an agent rather than a person.
    pub fn is_agent(&self) -> bool {
        self.0.facts.is_agent
    }

    /// Iterates over the rights in order.
    pub fn rights(&self) -> impl Iterator<Item = Right> + '_ {
        self.0.facts.rights.iter().copied()
    }

    /// Returns true if the class has this right.
    pub fn has_right(&self, right: Right) -> bool {
        self.0.facts.rights.contains(&right)
    }

    /// Returns the restrictions by each delegation, from the first key to this one.
    pub fn delegations(&self) -> &[KeyDelegation] {
        &self.0.facts.delegations
    }

    /// Returns the restrictions of this request.
    pub fn restrictions(&self) -> &RequestRestrictions {
        &self.0.facts.restrictions
    }

    /// Returns the tool patterns of the organisation, if it has a list in the store (cluster
    /// tools). An empty list allows none.
    pub fn org_tools(&self) -> Option<&[String]> {
        self.0.facts.org_tools.as_ref().map(OrgToolPatterns::patterns)
    }

    /// Returns the class of the actor on whose behalf it acts, if any: the actor's restrictions
    /// apply too.
    pub fn actor(&self) -> Option<&Self> {
        self.0.facts.actor.as_ref()
    }

    /// Returns true if tools of this source may be used.
    pub fn allows_source(&self, source: &str) -> bool {
        self.0.facts.persona.as_ref().is_none_or(|persona| persona.allows_source(source))
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
