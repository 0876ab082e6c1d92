//! The effective policy of one rights class: all layers that apply to it, in order.

mod residual_build;

use std::cell::RefCell;

use identity::RightsClass;
use tool::{CallerType, Org, PermissionLevel, WallTime};

use crate::compiled_layer::CompiledLayer;
use crate::compiled_policy::CompiledPolicy;
use crate::tool_groups::{GROUP_WEB, GROUP_WRITE};
use crate::tool_selector::{ClassifiedTool, DelegationLists, compile_delegation};
use crate::{DecisionReason, DisabledFeatures, PolicyDocument, ResidualPolicy, ToolFacts};

use residual_build::KnownChecks;

/// Maximum length of a chain of actors.
const MAX_ACTORS: usize = 16;

/// Admission of a tool for a rights class.
#[derive(Debug, Clone)]
pub enum ToolAdmission {
    /// The tool is hidden: same response as for an unknown name.
    Hidden(DecisionReason),
    /// The tool is visible; the residual decides each call.
    Visible(ResidualPolicy),
}

/// The policy for one rights class and one caller type, at one time.
#[derive(Debug)]
pub struct EffectivePolicy<'a> {
    pub(crate) compiled: &'a CompiledPolicy,
    caller_type: CallerType,
    now: WallTime,
    pub(crate) checks: Vec<LayerCheck<'a>>,
    pub(crate) injected_fault: InjectedFault,
    /// Prefix of the layer names of this class.
    name_prefix: &'static str,
    /// Checks of the tools that were admitted, by what they depend on.
    known_checks: RefCell<KnownChecks>,
}

/// A named check of one layer.
#[derive(Debug)]
pub(crate) struct LayerCheck<'a> {
    /// Name of the layer in refusals.
    pub(crate) name: String,
    pub(crate) check: VisibilityCheck<'a>,
}

#[derive(Debug)]
pub(crate) enum VisibilityCheck<'a> {
    /// Checks the tool's own traits and its organisation.
    ToolTraits(&'a RightsClass),
    /// Checks the disabled feature flags.
    DisabledFeatures(DisabledFeatures),
    /// Hides every tool of the class.
    HideAll(DecisionReason),
    /// Checks the rules of a layer.
    Layer(&'a CompiledLayer),
    /// Checks the persona's modules.
    PersonaModules(&'a RightsClass),
    ReadOnly,
    NoWeb,
    /// Checks the lists of a delegation.
    DelegationLists(Box<DelegationLists>),
}

/// Faults that tests inject, to verify that tests detect them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(not(test), expect(dead_code, reason = "only tests make them"))]
pub(crate) enum InjectedFault {
    #[default]
    None,
    AllowBeatsDeny,
    EmptyAllowIsAll,
    UnknownRoleIsFree,
    LastDelegationOnly,
    OtherOrgsAreFree,
}

impl<'a> EffectivePolicy<'a> {
    pub(crate) fn new(
        policy: &'a CompiledPolicy,
        rights: &'a RightsClass,
        caller_type: CallerType,
        now: WallTime,
    ) -> Self {
        Self::with_injected_fault((policy, InjectedFault::None), rights, caller_type, now)
    }

    pub(crate) fn with_injected_fault(
        (policy, injected_fault): (&'a CompiledPolicy, InjectedFault),
        rights: &'a RightsClass,
        caller_type: CallerType,
        now: WallTime,
    ) -> Self {
        let mut lens = Self {
            compiled: policy,
            caller_type,
            now,
            checks: Vec::new(),
            injected_fault,
            name_prefix: "",
            known_checks: RefCell::default(),
        };
        lens.add_global_checks();
        lens.add_class_checks(rights);
        // Restrictions of an actor also apply when it acts on behalf of another user.
        lens.name_prefix = "actor's ";
        let actors = std::iter::successors(rights.actor(), |actor| actor.actor());
        actors.take(MAX_ACTORS).for_each(|actor| lens.add_class_checks(actor));
        lens
    }

    fn add_class_checks(&mut self, rights: &'a RightsClass) {
        self.add_check("tool", VisibilityCheck::ToolTraits(rights));
        self.add_org_checks(rights);
        self.add_role_checks(rights);
        self.add_persona_checks(rights);
        self.add_task_checks(rights);
        self.add_delegation_checks(rights);
    }

    fn add_check(&mut self, name: impl AsRef<str>, test: VisibilityCheck<'a>) {
        self.checks.push(LayerCheck {
            name: format!("{}{}", self.name_prefix, name.as_ref()),
            check: test,
        });
    }

    fn add_global_checks(&mut self) {
        if self.compiled.document.disabled_features != DisabledFeatures::default() {
            self.add_check(
                "features",
                VisibilityCheck::DisabledFeatures(self.compiled.document.disabled_features),
            );
        }
        self.add_check("global", VisibilityCheck::Layer(&self.compiled.global));
    }

    fn add_org_checks(&mut self, rights: &'a RightsClass) {
        let org = rights.org();
        let name = format!("org `{org}`");
        let layer = self.compiled.orgs.get(org.as_str());
        let stored = rights.org_tools();
        let listed =
            stored.is_some() || layer.is_some_and(|layer| layer.definition.allow.is_some());
        if !listed
            && *org != Org::default()
            && self.injected_fault != InjectedFault::OtherOrgsAreFree
        {
            self.add_check(name.clone(), VisibilityCheck::HideAll(DecisionReason::OrgNotListed));
        }
        if let Some(stored) = stored {
            let lists = compile_delegation(&self.compiled.groups, Some(stored), &[]);
            self.add_check(name.clone(), VisibilityCheck::DelegationLists(Box::new(lists)));
        }
        if let Some(layer) = layer {
            self.add_check(name, VisibilityCheck::Layer(layer));
        }
    }

    fn add_role_checks(&mut self, rights: &'a RightsClass) {
        let parts = self.compiled;
        let fallback = parts.document.default_role.as_ref().filter(|_| rights.roles().is_empty());
        let names = rights.roles().iter().chain(fallback.map(|role| &role.text));
        let mut known = false;
        for role in names {
            let name = format!("role `{role}`");
            match parts.roles.get(role) {
                Some(layer) => {
                    known = true;
                    self.add_check(name, VisibilityCheck::Layer(layer));
                }
                None if parts.roles.is_empty()
                    || self.injected_fault == InjectedFault::UnknownRoleIsFree => {}
                None => self.add_check(name, VisibilityCheck::HideAll(DecisionReason::UnknownRole)),
            }
        }
        // The research registry's flat permissions are roles only: a file without roles has none,
        // and an owner needs no role.
        let is_flat =
            parts.document.disabled_features.cascading_tool_policy && !parts.roles.is_empty();
        if is_flat && !known && rights.level() < PermissionLevel::Owner {
            self.add_check("role", VisibilityCheck::HideAll(DecisionReason::NoRole));
        }
    }

    fn add_persona_checks(&mut self, rights: &'a RightsClass) {
        let Some(persona) = rights.persona() else { return };
        self.add_check(
            format!("persona `{}`", persona.name),
            VisibilityCheck::PersonaModules(rights),
        );
        for name in rights.persona_names() {
            if let Some(layer) = self.compiled.personas.get(name) {
                self.add_check(format!("persona `{name}`"), VisibilityCheck::Layer(layer));
            }
        }
    }

    fn add_task_checks(&mut self, rights: &'a RightsClass) {
        let narrowing = rights.restrictions();
        if narrowing.is_read_only {
            self.add_check("task", VisibilityCheck::ReadOnly);
        }
        if narrowing.denies_network {
            self.add_check("task", VisibilityCheck::NoWeb);
        }
        let Some(task) = &narrowing.task_type else { return };
        let name = format!("task `{task}`");
        if PolicyDocument::OFFLINE_TASK_TYPES.contains(&task.as_str()) {
            self.add_check(name.clone(), VisibilityCheck::NoWeb);
        }
        if let Some(layer) = self.compiled.tasks.get(task) {
            self.add_check(name, VisibilityCheck::Layer(layer));
        }
    }

    fn add_delegation_checks(&mut self, rights: &'a RightsClass) {
        let all = rights.delegations();
        let skipped = match self.injected_fault {
            InjectedFault::LastDelegationOnly => all.len().saturating_sub(1),
            _ => 0,
        };
        for delegation in all.iter().skip(skipped) {
            let name = format!("delegation by `{}`", delegation.delegated_by);
            if delegation.is_read_only {
                self.add_check(name.clone(), VisibilityCheck::ReadOnly);
            }
            if delegation.denies_network {
                self.add_check(name.clone(), VisibilityCheck::NoWeb);
            }
            let lists = compile_delegation(
                &self.compiled.groups,
                delegation.allowed_tools.as_deref(),
                &delegation.denied_tools,
            );
            self.add_check(name, VisibilityCheck::DelegationLists(Box::new(lists)));
        }
    }

    /// Decides whether a tool is visible. Each check can only hide; none makes a hidden tool
    /// visible.
    pub fn admit_tool(&self, tool: &ToolFacts<'_>) -> ToolAdmission {
        let seen = ClassifiedTool::from_facts(*tool);
        match self.find_hiding_check(&seen) {
            Some((_, reason)) => ToolAdmission::Hidden(reason),
            None => ToolAdmission::Visible(self.residual_of(&seen)),
        }
    }

    /// Finds the layer that hides a tool, and the reason.
    pub(crate) fn find_hiding_check(
        &self,
        classified: &ClassifiedTool<'_>,
    ) -> Option<(&LayerCheck<'a>, DecisionReason)> {
        self.checks.iter().find_map(|gate| Some((gate, self.run_check(&gate.check, classified)?)))
    }

    fn run_check(
        &self,
        test: &VisibilityCheck<'_>,
        seen: &ClassifiedTool<'_>,
    ) -> Option<DecisionReason> {
        let (tool, traits) = (&seen.tool, seen.tool.traits);
        let when = |is: bool, reason| is.then_some(reason);
        match test {
            VisibilityCheck::HideAll(reason) => Some(*reason),
            VisibilityCheck::Layer(layer) => {
                layer.hiding_reason(seen, self.now, self.injected_fault)
            }
            VisibilityCheck::PersonaModules(rights) => {
                when(!rights.allows_source(tool.source), DecisionReason::PersonaModules)
            }
            VisibilityCheck::ReadOnly => {
                when(seen.group_mask & GROUP_WRITE != 0, DecisionReason::ReadOnly)
            }
            VisibilityCheck::NoWeb => when(seen.group_mask & GROUP_WEB != 0, DecisionReason::NoWeb),
            VisibilityCheck::DelegationLists(lists) if lists.denied.matches_tool(seen) => {
                Some(DecisionReason::DenyRule)
            }
            VisibilityCheck::DelegationLists(lists) => when(
                lists.allowed.as_ref().is_some_and(|allow| !allow.matches_tool(seen)),
                DecisionReason::NotAllowed,
            ),
            VisibilityCheck::DisabledFeatures(off) => {
                let destructive = off.hides_destructive_tools() && traits.is_destructive;
                let chain = off.scripts && self.caller_type == CallerType::Chain;
                when(off.tools || destructive || chain, DecisionReason::Feature)
            }
            VisibilityCheck::ToolTraits(rights) => {
                let org = rights.org();
                if *tool.org != *org && *tool.org != Org::default() {
                    Some(DecisionReason::OtherOrg)
                } else if rights.level() < traits.min_level {
                    Some(DecisionReason::Level)
                } else {
                    when(
                        !traits.allowed_callers.contains(&self.caller_type),
                        DecisionReason::CallerType,
                    )
                }
            }
        }
    }
}
