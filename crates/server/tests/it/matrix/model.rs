//! What a principal may do, written down once more and as plainly as possible.

use identity::{Delegation, NewKey, Persona, Right};
use policy::{Layer, Pattern, Policy, Rules};
use tool::{CallerType, Effects, Level, Offer, Org, Safety, Scope};

use crate::support::tools::{offer, with};

/// The same for the same seed.
pub(super) struct Dice(pub(super) u64);

impl Dice {
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

/// What a tool does beside answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    Nothing,
    Writes,
    ReachesTheWeb,
}

/// A tool, by what decides about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Thing {
    pub(super) name: &'static str,
    pub(super) level: Level,
    pub(super) does: Does,
    /// A call of it is pending until a person approves it.
    pub(super) dangerous: bool,
    /// Only programs call it.
    pub(super) chain: bool,
}

const PLAIN: Thing =
    Thing { name: "", level: Level::Guest, does: Does::Nothing, dangerous: false, chain: false };

/// The tools of the one source, `s`.
pub(super) const THINGS: [Thing; 10] = [
    Thing { name: "s.look", ..PLAIN },
    Thing { name: "s.user", level: Level::User, ..PLAIN },
    Thing { name: "s.admin", level: Level::Admin, ..PLAIN },
    Thing { name: "s.owner", level: Level::Owner, ..PLAIN },
    Thing { name: "s.write", does: Does::Writes, ..PLAIN },
    Thing { name: "s.web", does: Does::ReachesTheWeb, ..PLAIN },
    Thing { name: "s.chain", chain: true, ..PLAIN },
    Thing { name: "s.rm", does: Does::Writes, dangerous: true, ..PLAIN },
    Thing { name: "s.rm_user", level: Level::User, does: Does::Writes, dangerous: true, ..PLAIN },
    Thing { name: "s.rm_admin", level: Level::Admin, does: Does::Writes, dangerous: true, ..PLAIN },
];

impl Thing {
    pub(super) fn offer(self) -> Offer {
        let tool = with(self.name, |tool| {
            let traits = &mut tool.traits;
            traits.level = self.level;
            traits.effects =
                if self.does == Does::Writes { Effects::Unknown } else { Effects::read_only() };
            traits.scopes =
                if self.does == Does::ReachesTheWeb { vec![Scope::Network] } else { Vec::new() };
            traits.safety = if self.dangerous { Safety::Dangerous } else { Safety::Safe };
            let chain = if self.chain { CallerType::Chain } else { CallerType::Direct };
            traits.callers = vec![chain];
        });
        offer(tool, testkit::executor::echo())
    }
}

/// The roles that the policy knows: one reads only, one has two tools, one takes nothing.
pub(super) fn policy() -> Policy {
    let layer = |read_only: bool, allow: Option<&[&str]>| Layer {
        read_only,
        allow: allow.map(|all| all.iter().map(|name| Pattern::new(*name).unwrap()).collect()),
        ..Layer::default()
    };
    let roles = [
        ("reader", layer(true, None)),
        ("two", layer(false, Some(&["s.look", "s.rm"]))),
        ("free", layer(false, None)),
    ];
    let roles = roles.into_iter().map(|(name, layer)| (name.to_owned(), layer)).collect();
    Policy::new(Rules { roles, ..Rules::default() }).unwrap()
}

/// A principal, by what decides about it.
#[derive(Debug, Clone)]
pub(super) struct Person {
    pub(super) subject: String,
    pub(super) level: Level,
    pub(super) agent: bool,
    pub(super) rights: Vec<Right>,
    /// The sources of its persona; all where it has none.
    pub(super) sources: Option<&'static [&'static str]>,
    pub(super) role: Option<&'static str>,
    pub(super) delegations: Vec<Delegation>,
    /// Whether it is of another organisation, which the policy does not list.
    pub(super) foreign: bool,
}

impl Person {
    pub(super) fn random(dice: &mut Dice, number: usize) -> Self {
        const SOURCES: [&[&str]; 3] = [&["s"], &["r"], &[]];
        const ROLES: [&str; 4] = ["reader", "two", "free", "nobody-knows-it"];
        let agent = dice.once_in(3);
        let rights = Right::ALL.iter().copied();
        Self {
            subject: format!("person{number}"),
            level: Level::ALL[dice.below(4)],
            agent,
            rights: rights.filter(|it| dice.once_in(2) && (!agent || it.fits_agent())).collect(),
            sources: dice.once_in(3).then(|| SOURCES[dice.below(3)]),
            role: dice.once_in(3).then(|| ROLES[dice.below(4)]),
            delegations: (0..dice.below(3)).map(|_| delegation(dice)).collect(),
            foreign: dice.once_in(12),
        }
    }

    pub(super) fn key(&self) -> NewKey {
        let modules = self.sources.map(|all| all.iter().map(|it| (*it).to_owned()).collect());
        NewKey {
            org: if self.foreign { Org::new("other").unwrap() } else { Org::default() },
            level: self.level,
            agent: self.agent,
            rights: self.rights.iter().copied().collect(),
            roles: self.role.iter().map(|role| (*role).to_owned()).collect(),
            persona: modules
                .map(|all| Persona { name: "key".to_owned(), allowed_modules: Some(all) }),
            delegations: self.delegations.clone(),
            ..NewKey::user(server::Keys::fresh_id().unwrap(), self.subject.clone())
        }
    }

    pub(super) fn may(&self, right: Right) -> bool {
        self.rights.contains(&right)
    }
}

fn delegation(dice: &mut Dice) -> Delegation {
    let some = |dice: &mut Dice, most: usize| -> Vec<String> {
        (0..dice.below(most)).map(|_| THINGS[dice.below(THINGS.len())].name.to_owned()).collect()
    };
    Delegation {
        by: String::new(),
        allow: dice.once_in(3).then(|| some(dice, 8)),
        deny: some(dice, 3),
        read_only: dice.once_in(6),
        no_web: dice.once_in(6),
        created: false,
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
    LastDelegationOnly,
    ApproversSeeAll,
    AgentsApprove,
    RightsAreIgnored,
}

impl Mistake {
    pub(super) const ALL: [Self; 9] = [
        Self::LevelIsIgnored,
        Self::PersonaIsIgnored,
        Self::RoleIsIgnored,
        Self::DenyIsIgnored,
        Self::ReadOnlyIsIgnored,
        Self::LastDelegationOnly,
        Self::ApproversSeeAll,
        Self::AgentsApprove,
        Self::RightsAreIgnored,
    ];
}

/// What somebody tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Action {
    /// The names of all tools.
    List,
    Show(usize),
    Call(usize),
    /// What would become of a call.
    Explain(usize),
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
    RefreshSource,
    Pins,
    DecidePin,
    Plugins,
    PluginSettings,
    SetPluginSettings,
    Records,
    Keys,
    Artefact,
}

/// What comes of it, as a class: `hidden`, `visible`, `forbidden`, `allowed`, `pending`, or names.
pub(super) fn expected(person: &Person, action: Action, mistake: Mistake) -> String {
    let of_tool = of_tool(person, action, mistake);
    let of_call = || of_pending(person, action, mistake);
    of_tool.or_else(of_call).unwrap_or_else(|| of_rest(person, action, mistake))
}

fn class(hidden: bool, otherwise: &str) -> String {
    if hidden { "hidden".to_owned() } else { otherwise.to_owned() }
}

/// Of what is about a tool.
fn of_tool(person: &Person, action: Action, mistake: Mistake) -> Option<String> {
    let sees = |index: usize| sees(person, THINGS[index], mistake);
    Some(match action {
        Action::List => names((0..THINGS.len()).filter(|index| sees(*index))),
        Action::Show(index) => class(!sees(index), "visible"),
        Action::Call(index) | Action::Explain(index) => {
            class(!sees(index), if THINGS[index].dangerous { "pending" } else { "allowed" })
        }
        _ => return None,
    })
}

/// Of what is about a pending call.
fn of_pending(person: &Person, action: Action, mistake: Mistake) -> Option<String> {
    let approver = person.may(Right::Approve) && !person.foreign;
    let all = mistake == Mistake::ApproversSeeAll;
    let sees = |index: usize| approver && (all || sees(person, THINGS[index], mistake));
    Some(match action {
        Action::Approvals => names(dangerous().filter(|index| sees(*index))),
        Action::Approval(index) => class(!sees(index), "visible"),
        Action::Approve(index) | Action::Deny(index) | Action::Edit(index) => {
            class(!sees(index), "allowed")
        }
        // An agent's key never has the right, and a person's call is its own.
        Action::ApproveOwn => {
            let mistaken = person.agent && mistake == Mistake::AgentsApprove;
            if mistaken { "allowed" } else { "forbidden" }.to_owned()
        }
        Action::OwnPending => "visible".to_owned(),
        Action::ResumeOther => "hidden".to_owned(),
        _ => return None,
    })
}

/// Of everything else.
fn of_rest(person: &Person, action: Action, mistake: Mistake) -> String {
    let source = persona_has(person, "s", mistake);
    let right = |right: Right| person.may(right) || mistake == Mistake::RightsAreIgnored;
    let needs = |may: bool, good: &str| {
        if may { class(!source, good) } else { "forbidden".to_owned() }
    };
    let plain = |may: bool| if may { "allowed" } else { "forbidden" }.to_owned();
    match action {
        Action::Sources => if source { "s" } else { "" }.to_owned(),
        Action::RefreshSource => needs(right(Right::SourcesRefresh), "allowed"),
        Action::Pins => needs(right(Right::SourcesRefresh) || right(Right::PinsWrite), "visible"),
        Action::DecidePin => needs(right(Right::PinsWrite), "allowed"),
        Action::Plugins => class(!source, "visible"),
        Action::PluginSettings => needs(right(Right::SourcesRefresh) && !person.agent, "visible"),
        Action::SetPluginSettings => {
            needs(right(Right::SourcesRefresh) && !person.agent, "allowed")
        }
        Action::Records => plain(right(Right::RecordsRead)),
        Action::Keys => plain(right(Right::KeysWrite)),
        // Of an answer that nobody has.
        _ => "hidden".to_owned(),
    }
}

/// The tools whose calls are pending until they are approved.
pub(super) fn dangerous() -> impl Iterator<Item = usize> {
    (0..THINGS.len()).filter(|index| THINGS[*index].dangerous)
}

fn names(which: impl Iterator<Item = usize>) -> String {
    let mut names: Vec<_> = which.map(|index| THINGS[index].name).collect();
    names.sort_unstable();
    names.join(" ")
}

fn persona_has(person: &Person, source: &str, mistake: Mistake) -> bool {
    let ignored = mistake == Mistake::PersonaIsIgnored;
    ignored || person.sources.is_none_or(|sources| sources.contains(&source))
}

/// Whether a tool is there for somebody who calls it directly.
fn sees(person: &Person, tool: Thing, mistake: Mistake) -> bool {
    let writes = tool.does == Does::Writes;
    let by_role = match person.role {
        _ if mistake == Mistake::RoleIsIgnored => true,
        None | Some("free") => true,
        Some("reader") => !writes,
        Some("two") => matches!(tool.name, "s.look" | "s.rm"),
        Some(_) => false,
    };
    let skipped = match mistake {
        Mistake::LastDelegationOnly => person.delegations.len().saturating_sub(1),
        _ => 0,
    };
    let passes = |delegation: &Delegation| {
        let named = |list: &[String]| list.iter().any(|name| name == tool.name);
        let allowed = delegation.allow.as_deref().is_none_or(named);
        let denied = named(&delegation.deny) && mistake != Mistake::DenyIsIgnored;
        let reads = !(delegation.read_only && writes);
        allowed
            && !denied
            && (reads || mistake == Mistake::ReadOnlyIsIgnored)
            && !(delegation.no_web && tool.does == Does::ReachesTheWeb)
    };
    !person.foreign
        && !tool.chain
        && (person.level >= tool.level || mistake == Mistake::LevelIsIgnored)
        && persona_has(person, "s", mistake)
        && by_role
        && person.delegations.iter().skip(skipped).all(passes)
}
