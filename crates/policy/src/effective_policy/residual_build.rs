//! Remainder of the first stage of the policy for the calls of a tool.

use std::collections::HashMap;
use std::sync::Arc;

use tool::{AccessScope, SafetyLevel};

use super::{EffectivePolicy, VisibilityCheck};
use crate::compiled_layer::{CompiledLayer, CompiledRule};
use crate::deferred_checks::DeferredChecks;
use crate::rule_index::RuleId;
use crate::tool_groups::GROUP_FILES;
use crate::tool_selector::ClassifiedTool;
use crate::{DecisionReason, ResidualPolicy};

/// What the checks of a tool depend on, for one rights class.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckKey {
    /// Rules that concern the tool and not every tool.
    specific_rules: Vec<LayerRules>,
    allowed_paths: Vec<Vec<String>>,
    /// True if the tool itself requires an approval.
    is_held: bool,
}

/// Rules of one layer, by its place among those that have rules for calls.
#[derive(Debug, PartialEq, Eq, Hash)]
struct LayerRules {
    layer: usize,
    rules: Vec<RuleId>,
}

/// Maximum number of keys that one effective policy remembers: it lives while one view is built.
const MAX_KNOWN_CHECKS: usize = 4_096;

/// Checks of the tools that were admitted so far.
#[derive(Debug, Default)]
pub(super) struct KnownChecks {
    by_key: HashMap<CheckKey, Option<Arc<DeferredChecks>>, foldhash::fast::RandomState>,
    /// Number of rules that were examined so far.
    examined_rules: usize,
}

impl<'a> EffectivePolicy<'a> {
    pub(crate) fn residual_of(&self, classified: &ClassifiedTool<'_>) -> ResidualPolicy {
        let traits = classified.tool.traits;
        let dangerous =
            (traits.safety == SafetyLevel::Dangerous).then_some(DecisionReason::Dangerous);
        let destructive = traits.is_destructive.then_some(DecisionReason::Destructive);
        let source = traits.requires_approval.then_some(DecisionReason::SourceApproval);
        let own = [dangerous, destructive, source].into_iter().flatten();
        let holds: Vec<_> = own.chain(self.scope_approval_reasons(classified)).collect();
        let hold = holds.first().copied();
        let filesystem = self.compiled.document.scopes.get(&AccessScope::Filesystem);
        let paths = filesystem.and_then(|rule| rule.allowed_paths.as_deref());
        let paths = paths.filter(|_| traits.scopes.contains(&AccessScope::Filesystem));
        // A path must lie beneath one of the operator's folders and one of the source's own.
        let both = [paths, traits.allowed_paths.as_deref()].into_iter().flatten();
        let paths: Vec<Vec<String>> = both.map(<[_]>::to_vec).collect();
        let deferred = self.deferred_checks(classified, paths, hold.is_some());
        ResidualPolicy {
            approval_reason: hold,
            needs_caution: traits.safety == SafetyLevel::Cautious,
            tool_approval_reasons: holds,
            deferred,
        }
    }

    /// Returns the checks of a tool that need the call; those of a tool with the same rules are the
    /// same.
    fn deferred_checks(
        &self,
        classified: &ClassifiedTool<'_>,
        allowed_paths: Vec<Vec<String>>,
        is_held: bool,
    ) -> Option<Arc<DeferredChecks>> {
        let (mut specific_rules, mut examined) = (Vec::new(), 0);
        for (number, layer) in self.deferring_layers().enumerate() {
            let rules = layer.deferred_rules.find_specific(classified);
            if !rules.is_empty() {
                examined += rules.len();
                specific_rules.push(LayerRules { layer: number, rules });
            }
        }
        // Most tools have nothing that a call decides.
        if specific_rules.is_empty() && allowed_paths.is_empty() && !self.defers_every_tool(is_held)
        {
            return None;
        }
        let mut known = self.known_checks.borrow_mut();
        known.examined_rules += examined;
        let key = CheckKey { specific_rules, allowed_paths, is_held };
        if let Some(checks) = known.by_key.get(&key) {
            return checks.clone();
        }
        let checks = self.build_checks(&key);
        known.examined_rules += checks.as_ref().map_or(0, |checks| checks.rules.len());
        if known.by_key.len() >= MAX_KNOWN_CHECKS {
            known.by_key.clear();
        }
        known.by_key.insert(key, checks.clone());
        checks
    }

    fn build_checks(&self, key: &CheckKey) -> Option<Arc<DeferredChecks>> {
        let mut specific = key.specific_rules.iter().peekable();
        let mut rules: Vec<Arc<CompiledRule>> = Vec::new();
        for (number, layer) in self.deferring_layers().enumerate() {
            let own = specific.next_if(|own| own.layer == number);
            let own = own.map(|own| own.rules.as_slice()).unwrap_or_default();
            rules.extend(layer.deferred_rules.merge_rules(own).map(Arc::clone));
        }
        let paths = &key.allowed_paths;
        let no_approvals = self.compiled.document.disabled_features.denies_approvals()
            && (key.is_held || !rules.is_empty());
        (!rules.is_empty() || !paths.is_empty() || no_approvals).then(|| {
            let checks = DeferredChecks::new(rules, paths.clone(), no_approvals);
            self.compiled.shared_checks.intern_checks(checks)
        })
    }

    /// Returns true if the policy has something for the calls of any tool.
    fn defers_every_tool(&self, is_held: bool) -> bool {
        let denies = is_held && self.compiled.document.disabled_features.denies_approvals();
        let mut layers = self.deferring_layers();
        denies || layers.any(|layer| layer.deferred_rules.rules_for_every_tool().next().is_some())
    }

    /// Iterates over the layers that apply and have rules for calls, in order.
    fn deferring_layers(&self) -> impl Iterator<Item = &'a CompiledLayer> {
        let layers = self.checks.iter().filter_map(|gate| match gate.check {
            VisibilityCheck::Layer(layer) => Some(layer),
            _ => None,
        });
        layers.filter(|layer| !layer.deferred_rules.is_empty())
    }

    /// Returns the number of rules that admissions have examined so far: a measure of their cost
    /// that is the same on every machine.
    pub fn examined_rules(&self) -> usize {
        self.known_checks.borrow().examined_rules
    }

    /// Returns the scopes of a tool that need an approval: by the operator's setting, or by
    /// default.
    fn scope_approval_reasons<'s>(
        &'s self,
        seen: &'s ClassifiedTool<'_>,
    ) -> impl Iterator<Item = DecisionReason> + 's {
        let needs_approval = |scope: &AccessScope| {
            let rule = self.compiled.document.scopes.get(scope);
            rule.and_then(|rule| rule.requires_approval).unwrap_or(match scope {
                AccessScope::Shell => true,
                AccessScope::Filesystem => seen.group_mask & GROUP_FILES != 0,
                AccessScope::Network | AccessScope::Compute => false,
            })
        };
        let scopes = seen.tool.traits.scopes.iter().copied();
        scopes.filter(needs_approval).map(DecisionReason::scope_approval)
    }
}
