//! A plain second implementation of what a principal may do.

use identity::{KeyDelegation, NewKey, Persona, Right, UserRecord};
use policy::{Policy, PolicyDocument as PolicyRules, PolicyLayer, ToolPattern};
use tool::{AccessScope, CallerType, Offer, Org, PermissionLevel, SafetyLevel, SideEffects};

use super::requests::REQUESTS;
use crate::support::tools::{tool_offer, tool_with};

/// Deterministic for a seed.
pub(super) struct RandomSource(pub(super) u64);

impl RandomSource {
    pub(super) fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % most
    }

    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// Effects of a tool besides its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolBehavior {
    Nothing,
    Writes,
    ReachesTheWeb,
}

/// A tool, by what decides about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ModelTool {
    pub(super) name: &'static str,
    pub(super) source: &'static str,
    pub(super) level: PermissionLevel,
    pub(super) does: ToolBehavior,
    /// A call of it is pending until a person approves it.
    pub(super) dangerous: bool,
    /// Only programs call it.
    pub(super) chain: bool,
}

const PLAIN: ModelTool = ModelTool {
    name: "",
    source: "s",
    level: PermissionLevel::Guest,
    does: ToolBehavior::Nothing,
    dangerous: false,
    chain: false,
};

/// Tools of nodes are for users, with unknown effects.
const OF_NODE: ModelTool =
    ModelTool { level: PermissionLevel::User, does: ToolBehavior::Writes, ..PLAIN };

/// The tools of the source `s` and of two nodes.
pub(super) const MODEL_TOOLS: [ModelTool; 12] = [
    ModelTool { name: "s.look", ..PLAIN },
    ModelTool { name: "s.user", level: PermissionLevel::User, ..PLAIN },
    ModelTool { name: "s.admin", level: PermissionLevel::Admin, ..PLAIN },
    ModelTool { name: "s.owner", level: PermissionLevel::Owner, ..PLAIN },
    ModelTool { name: "s.write", does: ToolBehavior::Writes, ..PLAIN },
    ModelTool { name: "s.web", does: ToolBehavior::ReachesTheWeb, ..PLAIN },
    ModelTool { name: "s.chain", chain: true, ..PLAIN },
    ModelTool { name: "s.rm", does: ToolBehavior::Writes, dangerous: true, ..PLAIN },
    ModelTool {
        name: "s.rm_user",
        level: PermissionLevel::User,
        does: ToolBehavior::Writes,
        dangerous: true,
        ..PLAIN
    },
    ModelTool {
        name: "s.rm_admin",
        level: PermissionLevel::Admin,
        does: ToolBehavior::Writes,
        dangerous: true,
        ..PLAIN
    },
    ModelTool { name: "reverse_text", source: "node.n1", ..OF_NODE },
    ModelTool { name: "far_text", source: "node.n2", ..OF_NODE },
];

/// The tool of the node `n1`.
pub(super) const NEAR: usize = 10;

/// The sources, in order.
pub(super) const SOURCES: [&str; 3] = ["node.n1", "node.n2", "s"];

/// MCP methods of the source `s`, in addition to its tools.
pub(super) const METHODS: [&str; 5] = [
    "mcp.prompts.get",
    "mcp.resources.read",
    "mcp.completion.complete",
    "mcp.resources.subscribe",
    "mcp.resources.directory.read",
];

impl ModelTool {
    pub(super) fn offer(self) -> Offer {
        let tool = tool_with(self.name, |tool| {
            let traits = &mut tool.traits;
            traits.min_level = self.level;
            traits.effects = if self.does == ToolBehavior::Writes {
                SideEffects::Unknown
            } else {
                SideEffects::read_only()
            };
            traits.scopes = if self.does == ToolBehavior::ReachesTheWeb {
                vec![AccessScope::Network]
            } else {
                Vec::new()
            };
            traits.safety = if self.dangerous { SafetyLevel::Dangerous } else { SafetyLevel::Safe };
            let chain = if self.chain { CallerType::Chain } else { CallerType::Direct };
            traits.allowed_callers = vec![chain];
        });
        tool_offer(tool, testkit::executor::echo_executor())
    }
}

/// The roles that the policy knows: one reads only, one has two tools, one takes nothing.
pub(super) fn policy() -> Policy {
    let layer = |read_only: bool, allow: Option<&[&str]>| PolicyLayer {
        is_read_only: read_only,
        allow: allow.map(|all| all.iter().map(|name| ToolPattern::new(*name).unwrap()).collect()),
        ..PolicyLayer::default()
    };
    let roles = [
        ("reader", layer(true, None)),
        ("two", layer(false, Some(&["s.look", "s.rm"]))),
        ("free", layer(false, None)),
    ];
    let roles = roles.into_iter().map(|(name, layer)| (name.to_owned(), layer)).collect();
    Policy::new(PolicyRules { roles, ..PolicyRules::default() }).unwrap()
}

/// A user for whom some principals act.
#[derive(Debug, Clone, Copy)]
pub(super) struct SubjectLimit {
    pub(super) subject: &'static str,
    pub(super) level: PermissionLevel,
    /// Sources of its persona, which has the same name; all sources without a persona.
    pub(super) sources: Option<&'static [&'static str]>,
    pub(super) role: Option<&'static str>,
}

/// Those users: one of the lowest level, one without the source, one that only reads.
pub(super) const SUBJECT_LIMITS: [SubjectLimit; 4] = [
    SubjectLimit {
        subject: "ward-guest",
        level: PermissionLevel::Guest,
        sources: None,
        role: None,
    },
    SubjectLimit {
        subject: "ward-nodes",
        level: PermissionLevel::Admin,
        sources: Some(&["node.n1"]),
        role: None,
    },
    SubjectLimit {
        subject: "ward-reader",
        level: PermissionLevel::Admin,
        sources: None,
        role: Some("reader"),
    },
    SubjectLimit {
        subject: "ward-admin",
        level: PermissionLevel::Admin,
        sources: Some(&["s"]),
        role: None,
    },
];

impl SubjectLimit {
    pub(super) fn user(self, org: Org) -> UserRecord {
        UserRecord {
            org,
            subject: self.subject.to_owned(),
            level: self.level,
            roles: self.role.iter().map(|role| (*role).to_owned()).collect(),
            persona: self.sources.map(|_| self.subject.to_owned()),
            disabled_at: None,
        }
    }

    pub(super) fn persona(self) -> Option<Persona> {
        let sources = self.sources?.iter().map(|it| (*it).to_owned()).collect();
        Some(Persona { name: self.subject.to_owned(), allowed_modules: Some(sources) })
    }
}

/// A principal, by what decides about it.
#[derive(Debug, Clone)]
pub(super) struct Person {
    pub(super) subject: String,
    pub(super) level: PermissionLevel,
    pub(super) agent: bool,
    pub(super) rights: Vec<Right>,
    /// Sources of its persona; all sources without a persona.
    pub(super) sources: Option<&'static [&'static str]>,
    pub(super) role: Option<&'static str>,
    pub(super) delegations: Vec<KeyDelegation>,
    /// Whether it is of another organisation, which the policy does not list.
    pub(super) foreign: bool,
    /// User on whose behalf it acts, if any.
    pub(super) ward: Option<usize>,
}

impl Person {
    pub(super) fn random(dice: &mut RandomSource, number: usize) -> Self {
        const LISTS: [&[&str]; 4] = [&["s"], &["r"], &[], &["s", "node.n1"]];
        const ROLES: [&str; 4] = ["reader", "two", "free", "nobody-knows-it"];
        let agent = dice.once_in(3);
        let ward = dice.once_in(5).then(|| dice.below(SUBJECT_LIMITS.len()));
        let rights = Right::ALL.iter().copied();
        let rights = rights.filter(|it| dice.once_in(2) && (!agent || it.is_allowed_for_agents()));
        let mut rights: Vec<_> = rights.collect();
        // A key that is good for joining alone is an invitation, which the tests of joining are about.
        rights.retain(|right| *right != Right::NodesJoin || number.is_multiple_of(2));
        if ward.is_some() || rights == [Right::NodesJoin] {
            rights.push(Right::ActAs);
        }
        Self {
            // Some share the name of a node.
            subject: if dice.once_in(6) { "n1".to_owned() } else { format!("person{number}") },
            level: PermissionLevel::ALL[dice.below(4)],
            agent,
            rights,
            sources: dice.once_in(3).then(|| LISTS[dice.below(4)]),
            role: dice.once_in(3).then(|| ROLES[dice.below(4)]),
            delegations: (0..dice.below(3)).map(|_| delegation(dice)).collect(),
            foreign: dice.once_in(12),
            ward,
        }
    }

    /// The organisation.
    pub(super) fn org(&self) -> Org {
        if self.foreign { Org::new("other").unwrap() } else { Org::default() }
    }

    /// Its key; on behalf of a user, the key of the actor.
    pub(super) fn key(&self) -> NewKey {
        let modules = self.sources.map(|all| all.iter().map(|it| (*it).to_owned()).collect());
        NewKey {
            org: self.org(),
            level: self.level,
            is_agent: self.agent,
            rights: self.rights.iter().copied().collect(),
            roles: self.role.iter().map(|role| (*role).to_owned()).collect(),
            persona: modules
                .map(|all| Persona { name: "key".to_owned(), allowed_modules: Some(all) }),
            delegations: self.delegations.clone(),
            ..NewKey::for_user(
                server_core::KeyStore::generate_key_id().unwrap(),
                self.subject.clone(),
            )
        }
    }
}

fn delegation(dice: &mut RandomSource) -> KeyDelegation {
    let some = |dice: &mut RandomSource, most: usize| -> Vec<String> {
        (0..dice.below(most))
            .map(|_| MODEL_TOOLS[dice.below(MODEL_TOOLS.len())].name.to_owned())
            .collect()
    };
    KeyDelegation {
        delegated_by: String::new(),
        allowed_tools: dice.once_in(3).then(|| some(dice, 8)),
        denied_tools: some(dice, 3),
        is_read_only: dice.once_in(6),
        denies_network: dice.once_in(6),
        is_created_key: false,
    }
}

/// A mistake in the model, to see that the comparison finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mistake {
    None,
    LevelIsIgnored,
    PersonaIsIgnored,
    RoleIsIgnored,
    DenyIsIgnored,
    ReadOnlyIsIgnored,
    NoWebIsIgnored,
    LastDelegationOnly,
    ChainIsIgnored,
    OrgIsIgnored,
    ActorIsIgnored,
    WardIsIgnored,
    ApproversSeeAll,
    AgentsApprove,
    RightsAreIgnored,
    AgentIsIgnored,
    DelegatedIsIgnored,
    AnyNodeIsOwn,
}

/// An action that a principal tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Action {
    /// The names of all tools.
    List,
    /// The names of the tools of the source `s`.
    ListOfSource,
    Show(usize),
    Call(usize),
    /// Decision on a direct call.
    Explain(usize),
    /// Decision on a program's call.
    ExplainChain(usize),
    /// A method of the source, of [`METHODS`].
    Method(usize),
    /// The tools of all pending calls.
    Approvals,
    Approval(usize),
    Approve(usize),
    Deny(usize),
    Edit(usize),
    /// To approve a call of its own.
    ApproveOwn,
    /// To look at a call of its own that is pending.
    OwnPending,
    /// To have the answer of another's call.
    ResumeOther,
    Sources,
    /// The servers of the registry, by their sources.
    Servers,
    /// The sources that are modules.
    Modules,
    RefreshSource,
    Pins,
    DecidePin,
    Plugins,
    /// The plugins whose folder changed.
    ChangedPlugins,
    PluginSettings,
    SetPluginSettings,
    Records,
    Keys,
    Artefact,
    /// The names of the nodes.
    Nodes,
    /// The names of the tools of the node `n1`.
    NodeTools,
    /// One of [`REQUESTS`].
    Request(usize),
}

/// The rules, for one principal and with one mistake.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules<'a> {
    pub(super) person: &'a Person,
    pub(super) mistake: Mistake,
}

/// Result as a class: `hidden`, `visible`, `forbidden`, `allowed`, `pending`, or names.
pub(super) fn expected(person: &Person, action: Action, mistake: Mistake) -> String {
    let rules = Rules { person, mistake };
    if let Action::Request(index) = action {
        return (REQUESTS[index].expected)(&rules).to_owned();
    }
    let of_tool = rules.of_tool(action);
    of_tool.or_else(|| rules.of_pending(action)).unwrap_or_else(|| rules.of_rest(action))
}

fn class(hidden: bool, otherwise: &str) -> String {
    if hidden { "hidden".to_owned() } else { otherwise.to_owned() }
}

/// The tools whose calls are pending until they are approved.
pub(super) fn dangerous() -> impl Iterator<Item = usize> {
    (0..MODEL_TOOLS.len()).filter(|index| MODEL_TOOLS[*index].dangerous)
}

fn names(which: impl Iterator<Item = usize>) -> String {
    let mut names: Vec<_> = which.map(|index| MODEL_TOOLS[index].name).collect();
    names.sort_unstable();
    names.join(" ")
}

impl Rules<'_> {
    fn ignores(&self, mistake: Mistake) -> bool {
        self.mistake == mistake
    }

    fn ward(&self) -> Option<SubjectLimit> {
        Some(SUBJECT_LIMITS[self.person.ward?])
    }

    /// The user it acts for, as far as that one narrows.
    fn narrowing_ward(&self) -> Option<SubjectLimit> {
        self.ward().filter(|_| !self.ignores(Mistake::WardIsIgnored))
    }

    /// Whether the rights of its own key count.
    fn own_counts(&self) -> bool {
        self.ward().is_none() || !self.ignores(Mistake::ActorIsIgnored)
    }

    /// Who acts for another has none of its rights.
    pub(super) fn may(&self, right: Right) -> bool {
        self.ignores(Mistake::RightsAreIgnored)
            || (self.narrowing_ward().is_none() && self.person.rights.contains(&right))
    }

    pub(super) fn is_at_least(&self, level: PermissionLevel) -> bool {
        let own = !self.own_counts() || self.person.level >= level;
        let ward = self.narrowing_ward().is_none_or(|ward| ward.level >= level);
        self.ignores(Mistake::LevelIsIgnored) || (own && ward)
    }

    pub(super) fn is_agent(&self) -> bool {
        (self.person.agent || self.person.ward.is_some()) && !self.ignores(Mistake::AgentIsIgnored)
    }

    pub(super) fn is_delegated(&self) -> bool {
        let delegated = !self.person.delegations.is_empty() || self.person.ward.is_some();
        delegated && !self.ignores(Mistake::DelegatedIsIgnored)
    }

    pub(super) fn is_owner(&self) -> bool {
        self.is_at_least(PermissionLevel::Owner) && !self.is_delegated()
    }

    /// Whether it belongs to the organisation of the installation.
    pub(super) fn is_home(&self) -> bool {
        !self.person.foreign || self.ignores(Mistake::OrgIsIgnored)
    }

    fn source_lists(&self) -> impl Iterator<Item = &'static [&'static str]> {
        let own = self.person.sources.filter(|_| self.own_counts());
        let ward = self.narrowing_ward().and_then(|ward| ward.sources);
        own.into_iter().chain(ward).filter(|_| !self.ignores(Mistake::PersonaIsIgnored))
    }

    pub(super) fn has_source(&self, source: &str) -> bool {
        self.source_lists().all(|list| list.contains(&source))
    }

    /// Whether it is limited to some sources.
    pub(super) fn is_limited(&self) -> bool {
        self.source_lists().next().is_some()
    }

    pub(super) fn speaks_for_all_nodes(&self) -> bool {
        self.is_home() && self.may(Right::NodesWrite)
    }

    pub(super) fn speaks_for_n1(&self) -> bool {
        let own = self.person.subject == "n1" || self.ignores(Mistake::AnyNodeIsOwn);
        self.speaks_for_all_nodes() || (self.is_home() && self.may(Right::NodesRegister) && own)
    }

    fn passes_roles(&self, (name, writes): (&str, bool)) -> bool {
        let own = self.person.role.filter(|_| self.own_counts());
        let ward = self.narrowing_ward().and_then(|ward| ward.role);
        let passes = |role| match role {
            "free" => true,
            "reader" => !writes,
            "two" => matches!(name, "s.look" | "s.rm"),
            _ => false,
        };
        self.ignores(Mistake::RoleIsIgnored) || own.into_iter().chain(ward).all(passes)
    }

    fn passes_delegations(&self, thing: ModelTool) -> bool {
        let own = self.person.delegations.iter().filter(|_| self.own_counts());
        let skipped = match self.mistake {
            Mistake::LastDelegationOnly => self.person.delegations.len().saturating_sub(1),
            _ => 0,
        };
        own.skip(skipped).all(|delegation| {
            let named = |list: &[String]| list.iter().any(|name| name == thing.name);
            let allowed = delegation.allowed_tools.as_deref().is_none_or(named);
            let denied = named(&delegation.denied_tools) && !self.ignores(Mistake::DenyIsIgnored);
            let writes =
                thing.does == ToolBehavior::Writes && !self.ignores(Mistake::ReadOnlyIsIgnored);
            let web =
                thing.does == ToolBehavior::ReachesTheWeb && !self.ignores(Mistake::NoWebIsIgnored);
            let taken = (delegation.is_read_only && writes) || (delegation.denies_network && web);
            allowed && !denied && !taken
        })
    }

    /// Whether it sees a tool, directly or through a program.
    fn sees_by(&self, thing: ModelTool, by_program: bool) -> bool {
        self.is_home()
            && (thing.chain == by_program || self.ignores(Mistake::ChainIsIgnored))
            && self.is_at_least(thing.level)
            && self.has_source(thing.source)
            && self.passes_roles((thing.name, thing.does == ToolBehavior::Writes))
            && self.passes_delegations(thing)
    }

    pub(super) fn sees(&self, index: usize) -> bool {
        self.sees_by(MODEL_TOOLS[index], false)
    }

    fn seen_of_source(&self) -> impl Iterator<Item = usize> {
        let own = |index: &usize| MODEL_TOOLS[*index].source == "s" && self.sees(*index);
        (0..MODEL_TOOLS.len()).filter(own)
    }

    /// Whether it sees one of a source's tools, and so the source.
    pub(super) fn sees_source(&self, source: &str) -> bool {
        (0..MODEL_TOOLS.len()).any(|index| MODEL_TOOLS[index].source == source && self.sees(index))
    }

    /// Of what is about a tool.
    fn of_tool(&self, action: Action) -> Option<String> {
        let called =
            |index: usize| if MODEL_TOOLS[index].dangerous { "pending" } else { "allowed" };
        Some(match action {
            Action::List => names((0..MODEL_TOOLS.len()).filter(|index| self.sees(*index))),
            Action::ListOfSource => match names(self.seen_of_source()) {
                // A principal that sees no tool of a source does not see the source.
                none if none.is_empty() => "hidden".to_owned(),
                names => names,
            },
            Action::Show(index) => class(!self.sees(index), "visible"),
            Action::Call(index) | Action::Explain(index) => class(!self.sees(index), called(index)),
            Action::ExplainChain(index) => {
                class(!self.sees_by(MODEL_TOOLS[index], true), called(index))
            }
            Action::Method(index) => {
                let method = ModelTool { name: METHODS[index], ..PLAIN };
                let there = self.seen_of_source().next().is_some();
                class(!(there && self.sees_by(method, false)), "visible")
            }
            _ => return None,
        })
    }

    /// Of what is about a pending call.
    fn of_pending(&self, action: Action) -> Option<String> {
        let approver = self.may(Right::Approve) && self.is_home();
        let all = self.ignores(Mistake::ApproversSeeAll);
        let sees = |index: usize| approver && (all || self.sees(index));
        Some(match action {
            Action::Approvals => names(dangerous().filter(|index| sees(*index))),
            Action::Approval(index) => class(!sees(index), "visible"),
            Action::Approve(index) | Action::Deny(index) | Action::Edit(index) => {
                class(!sees(index), "allowed")
            }
            // An agent's key never has the right, and a person's call is its own.
            Action::ApproveOwn => {
                let mistaken = self.person.agent && self.ignores(Mistake::AgentsApprove);
                if mistaken { "allowed" } else { "forbidden" }.to_owned()
            }
            Action::OwnPending => "visible".to_owned(),
            Action::ResumeOther => "hidden".to_owned(),
            _ => return None,
        })
    }

    /// An action on the source `s`, for principals with the right.
    pub(super) fn of_source(&self, may: bool) -> &'static str {
        match (may, self.has_source("s")) {
            (false, _) => "forbidden",
            (true, false) => "hidden",
            (true, true) => "allowed",
        }
    }

    /// Of everything else.
    fn of_rest(&self, action: Action) -> String {
        let source = self.has_source("s");
        let seen = |may: bool| self.of_source(may).replace("allowed", "visible");
        let plain = |may: bool| if may { "allowed" } else { "forbidden" }.to_owned();
        let refreshes = self.may(Right::SourcesRefresh);
        match action {
            Action::Sources => {
                let all = SOURCES.iter().copied().filter(|source| self.has_source(source));
                all.collect::<Vec<_>>().join(" ")
            }
            Action::Servers => {
                let all = SOURCES.iter().copied().filter(|source| self.sees_source(source));
                all.collect::<Vec<_>>().join(" ")
            }
            Action::Modules => if source { "s" } else { "" }.to_owned(),
            Action::RefreshSource => self.of_source(refreshes).to_owned(),
            Action::Pins => seen(refreshes || self.may(Right::PinsWrite)),
            Action::DecidePin => self.of_source(self.may(Right::PinsWrite)).to_owned(),
            Action::Plugins => class(!source, "visible"),
            Action::ChangedPlugins => if refreshes && source { "notes" } else { "" }.to_owned(),
            Action::PluginSettings => seen(refreshes && !self.is_agent()),
            Action::SetPluginSettings => self.of_source(refreshes && !self.is_agent()).to_owned(),
            Action::Records => plain(self.may(Right::RecordsRead)),
            Action::Keys => plain(self.may(Right::KeysWrite)),
            Action::Nodes => match (self.may(Right::NodesResolve), self.speaks_for_n1()) {
                (true, _) => "n1 n2",
                _ if self.speaks_for_all_nodes() => "n1 n2",
                (false, true) => "n1",
                (false, false) => "",
            }
            .to_owned(),
            Action::NodeTools => {
                let seen = self.speaks_for_n1() || self.sees(NEAR);
                if seen { MODEL_TOOLS[NEAR].name } else { "" }.to_owned()
            }
            // A response that no principal has.
            _ => "hidden".to_owned(),
        }
    }
}
