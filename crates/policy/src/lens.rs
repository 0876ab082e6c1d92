//! The effective policy of one rights class: all layers that apply to it, in order.

use std::sync::Arc;

use identity::RightsClass;
use tool::{CallerType, Level, Org, Safety, Scope, Wall};

use crate::decide::Later;
use crate::groups::{FILES, WEB, WRITE};
use crate::policy::Parts;
use crate::ready::Ready;
use crate::select::{Seen, Select, delegated};
use crate::{Facts, Off, Reason, Residual, Rules};

/// Maximum length of a chain of actors.
const ACTORS: usize = 16;

/// Admission of a tool for a rights class.
#[derive(Debug, Clone)]
pub enum Admission {
    /// The tool is hidden: same response as for an unknown name.
    Hidden(Reason),
    /// The tool is visible; the residual decides each call.
    Visible(Residual),
}

/// The policy for one rights class and one caller type, at one time.
#[derive(Debug)]
pub struct Lens<'a> {
    pub(crate) parts: &'a Parts,
    by: CallerType,
    now: Wall,
    pub(crate) gates: Vec<Gate<'a>>,
    pub(crate) seeded: Seeded,
    /// Prefix of the layer names of this class.
    whose: &'static str,
}

/// A named check of one layer.
#[derive(Debug)]
pub(crate) struct Gate<'a> {
    /// Name of the layer in refusals.
    pub(crate) name: String,
    pub(crate) test: Test<'a>,
}

#[derive(Debug)]
pub(crate) enum Test<'a> {
    /// Checks the tool's own traits and its organisation.
    Tool(&'a RightsClass),
    /// Checks the disabled feature flags.
    Off(Off),
    /// Hides every tool of the class.
    Closed(Reason),
    /// Checks the rules of a layer.
    Layer(&'a Ready),
    /// Checks the persona's modules.
    Modules(&'a RightsClass),
    ReadOnly,
    NoWeb,
    /// Checks the lists of a delegation.
    Lists(Box<(Option<Select>, Select)>),
}

/// Faults that tests inject, to verify that tests detect them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(not(test), expect(dead_code, reason = "only tests make them"))]
pub(crate) enum Seeded {
    #[default]
    None,
    AllowBeatsDeny,
    EmptyAllowIsAll,
    UnknownRoleIsFree,
    LastDelegationOnly,
    OtherOrgsAreFree,
}

impl<'a> Lens<'a> {
    pub(crate) fn new(
        parts: &'a Parts,
        rights: &'a RightsClass,
        by: CallerType,
        now: Wall,
    ) -> Self {
        Self::seeded((parts, Seeded::None), rights, by, now)
    }

    pub(crate) fn seeded(
        (parts, seeded): (&'a Parts, Seeded),
        rights: &'a RightsClass,
        by: CallerType,
        now: Wall,
    ) -> Self {
        let mut lens = Self { parts, by, now, gates: Vec::new(), seeded, whose: "" };
        lens.global();
        lens.class(rights);
        // Restrictions of an actor also apply when it acts on behalf of another user.
        lens.whose = "actor's ";
        let actors = std::iter::successors(rights.actor(), |actor| actor.actor());
        actors.take(ACTORS).for_each(|actor| lens.class(actor));
        lens
    }

    fn class(&mut self, rights: &'a RightsClass) {
        self.add("tool", Test::Tool(rights));
        self.org(rights);
        self.roles(rights);
        self.persona(rights);
        self.task(rights);
        self.delegations(rights);
    }

    fn add(&mut self, name: impl AsRef<str>, test: Test<'a>) {
        self.gates.push(Gate { name: format!("{}{}", self.whose, name.as_ref()), test });
    }

    fn global(&mut self) {
        if self.parts.rules.off != Off::default() {
            self.add("features", Test::Off(self.parts.rules.off));
        }
        self.add("global", Test::Layer(&self.parts.global));
    }

    fn org(&mut self, rights: &'a RightsClass) {
        let org = rights.org();
        let name = format!("org `{org}`");
        let layer = self.parts.orgs.get(org.as_str());
        let stored = rights.org_tools();
        let listed = stored.is_some() || layer.is_some_and(|layer| layer.written.allow.is_some());
        if !listed && *org != Org::default() && self.seeded != Seeded::OtherOrgsAreFree {
            self.add(name.clone(), Test::Closed(Reason::OrgNotListed));
        }
        if let Some(stored) = stored {
            let lists = delegated(&self.parts.groups, Some(stored), &[]);
            self.add(name.clone(), Test::Lists(Box::new(lists)));
        }
        if let Some(layer) = layer {
            self.add(name, Test::Layer(layer));
        }
    }

    fn roles(&mut self, rights: &'a RightsClass) {
        let parts = self.parts;
        let fallback = parts.rules.default_role.as_ref().filter(|_| rights.roles().is_empty());
        let names = rights.roles().iter().chain(fallback.map(|role| &role.text));
        let mut known = false;
        for role in names {
            let name = format!("role `{role}`");
            match parts.roles.get(role) {
                Some(layer) => {
                    known = true;
                    self.add(name, Test::Layer(layer));
                }
                None if parts.roles.is_empty() || self.seeded == Seeded::UnknownRoleIsFree => {}
                None => self.add(name, Test::Closed(Reason::UnknownRole)),
            }
        }
        // The tool-file registry's flat permissions are roles only: a file without roles has none,
        // and an owner needs no role.
        let is_flat = parts.rules.off.cascading_tool_policy && !parts.roles.is_empty();
        if is_flat && !known && rights.level() < Level::Owner {
            self.add("role", Test::Closed(Reason::NoRole));
        }
    }

    fn persona(&mut self, rights: &'a RightsClass) {
        let Some(persona) = rights.persona() else { return };
        self.add(format!("persona `{}`", persona.name), Test::Modules(rights));
        for name in rights.personas() {
            if let Some(layer) = self.parts.personas.get(name) {
                self.add(format!("persona `{name}`"), Test::Layer(layer));
            }
        }
    }

    fn task(&mut self, rights: &'a RightsClass) {
        let narrowing = rights.narrowing();
        if narrowing.read_only {
            self.add("task", Test::ReadOnly);
        }
        if narrowing.no_web {
            self.add("task", Test::NoWeb);
        }
        let Some(task) = &narrowing.task_type else { return };
        let name = format!("task `{task}`");
        if Rules::TASKS.contains(&task.as_str()) {
            self.add(name.clone(), Test::NoWeb);
        }
        if let Some(layer) = self.parts.tasks.get(task) {
            self.add(name, Test::Layer(layer));
        }
    }

    fn delegations(&mut self, rights: &'a RightsClass) {
        let all = rights.delegations();
        let skipped = match self.seeded {
            Seeded::LastDelegationOnly => all.len().saturating_sub(1),
            _ => 0,
        };
        for delegation in all.iter().skip(skipped) {
            let name = format!("delegation by `{}`", delegation.by);
            if delegation.read_only {
                self.add(name.clone(), Test::ReadOnly);
            }
            if delegation.no_web {
                self.add(name.clone(), Test::NoWeb);
            }
            let lists =
                delegated(&self.parts.groups, delegation.allow.as_deref(), &delegation.deny);
            self.add(name, Test::Lists(Box::new(lists)));
        }
    }

    /// Decides whether a tool is visible. Each check can only hide; none makes a hidden tool
    /// visible.
    pub fn admit(&self, tool: &Facts<'_>) -> Admission {
        let seen = Seen::of(*tool);
        match self.refused(&seen) {
            Some((_, reason)) => Admission::Hidden(reason),
            None => Admission::Visible(self.residual(&seen)),
        }
    }

    /// Finds the layer that hides a tool, and the reason.
    pub(crate) fn refused(&self, seen: &Seen<'_>) -> Option<(&Gate<'a>, Reason)> {
        self.gates.iter().find_map(|gate| Some((gate, self.test(&gate.test, seen)?)))
    }

    fn test(&self, test: &Test<'_>, seen: &Seen<'_>) -> Option<Reason> {
        let (tool, traits) = (&seen.tool, seen.tool.traits);
        let when = |is: bool, reason| is.then_some(reason);
        match test {
            Test::Closed(reason) => Some(*reason),
            Test::Layer(layer) => layer.refuses(seen, self.now, self.seeded),
            Test::Modules(rights) => {
                when(!rights.allows_source(tool.source), Reason::PersonaModules)
            }
            Test::ReadOnly => when(seen.marks & WRITE != 0, Reason::ReadOnly),
            Test::NoWeb => when(seen.marks & WEB != 0, Reason::NoWeb),
            Test::Lists(lists) if lists.1.fits(seen) => Some(Reason::DenyRule),
            Test::Lists(lists) => {
                when(lists.0.as_ref().is_some_and(|allow| !allow.fits(seen)), Reason::NotAllowed)
            }
            Test::Off(off) => {
                let destructive = off.destructive() && traits.destructive;
                let chain = off.scripts && self.by == CallerType::Chain;
                when(off.tools || destructive || chain, Reason::Feature)
            }
            Test::Tool(rights) => {
                let org = rights.org();
                if *tool.org != *org && *tool.org != Org::default() {
                    Some(Reason::OtherOrg)
                } else if rights.level() < traits.level {
                    Some(Reason::Level)
                } else {
                    when(!traits.callers.contains(&self.by), Reason::CallerType)
                }
            }
        }
    }

    pub(crate) fn residual(&self, seen: &Seen<'_>) -> Residual {
        let traits = seen.tool.traits;
        let dangerous = (traits.safety == Safety::Dangerous).then_some(Reason::Dangerous);
        let destructive = traits.destructive.then_some(Reason::Destructive);
        let source = traits.approval.then_some(Reason::SourceApproval);
        let own = [dangerous, destructive, source].into_iter().flatten();
        let holds: Vec<_> = own.chain(self.scope_approvals(seen)).collect();
        let hold = holds.first().copied();
        let layers = self.gates.iter().filter_map(|gate| match gate.test {
            Test::Layer(layer) => Some(layer),
            _ => None,
        });
        let rules: Vec<_> = layers.flat_map(|layer| layer.later(seen)).map(Arc::clone).collect();
        let filesystem = self.parts.rules.scopes.get(&Scope::Filesystem);
        let paths = filesystem.and_then(|rule| rule.allowed_paths.as_deref());
        let paths = paths.filter(|_| traits.scopes.contains(&Scope::Filesystem));
        // A path must lie beneath one of the operator's folders and one of the source's own.
        let both = [paths, traits.allowed_paths.as_deref()].into_iter().flatten();
        let paths: Vec<Vec<String>> = both.map(<[_]>::to_vec).collect();
        let no_approvals =
            self.parts.rules.off.approvals() && (hold.is_some() || !rules.is_empty());
        let later = (!rules.is_empty() || !paths.is_empty() || no_approvals)
            .then(|| Arc::new(Later::new(rules, paths, no_approvals)));
        Residual { hold, caution: traits.safety == Safety::Cautious, holds, later }
    }

    /// Returns the scopes of a tool that need an approval: by the operator's setting, or by
    /// default.
    fn scope_approvals<'s>(&'s self, seen: &'s Seen<'_>) -> impl Iterator<Item = Reason> + 's {
        let needs_approval = |scope: &Scope| {
            let rule = self.parts.rules.scopes.get(scope);
            rule.and_then(|rule| rule.requires_approval).unwrap_or(match scope {
                Scope::Shell => true,
                Scope::Filesystem => seen.marks & FILES != 0,
                Scope::Network | Scope::Compute => false,
            })
        };
        let scopes = seen.tool.traits.scopes.iter().copied();
        scopes.filter(needs_approval).map(Reason::scope_approval)
    }
}
