//! Compiled policy layers: groups expanded, conditions compiled, examples checked.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tool::{Digest, SafetyLevel, WallTime};

use crate::condition::{ConditionError, ConditionInputs, OperandTable, RuleCondition};
use crate::diagnostics::quote_excerpt;
use crate::effective_policy::InjectedFault;
use crate::rule_index::RuleIndex;
use crate::tool_groups::{GROUP_WEB, GROUP_WRITE};
use crate::tool_selector::{ClassifiedTool, ToolGroups, ToolSelector};
use crate::{
    DecisionReason, LocatedName, PolicyDiagnostic, PolicyDocument, PolicyLayer, PolicyRule,
    RuleEffect, ToolPermissions,
};

/// Compiled rules of one layer.
#[derive(Debug, Default)]
pub(crate) struct CompiledLayer {
    /// Definition in the file, for explanations.
    pub(crate) definition: PolicyLayer,
    safety_limit: Option<SafetyLevel>,
    categories: Option<HashSet<String>>,
    allow: Option<ToolSelector>,
    deny: ToolSelector,
    permissions: Option<CompiledPermissions>,
    pub(crate) rules: Vec<Arc<CompiledRule>>,
    /// The rules that decide visibility.
    hiding_rules: RuleIndex,
    /// The rules that must be evaluated for each call.
    pub(crate) deferred_rules: RuleIndex,
}

#[derive(Debug)]
struct CompiledPermissions {
    web_access: bool,
    categories: HashSet<String>,
    allowed: ToolSelector,
    forbidden: ToolSelector,
}

/// A rule in compiled form.
#[derive(Debug)]
pub(crate) struct CompiledRule {
    /// Definition in the file.
    pub(crate) definition: PolicyRule,
    tools: Option<ToolSelector>,
    pub(crate) condition: Option<RuleCondition>,
}

impl CompiledRule {
    /// Returns its name and a hash of its content: a changed rule under the same name is another
    /// rule.
    pub(crate) fn approval_id(&self) -> String {
        let text = serde_json::to_vec(&self.definition)
            .unwrap_or_else(|_| format!("{:?}", self.definition).into_bytes());
        let hash = Digest(Sha256::digest(&text).into());
        let short: String = hash.to_string().chars().skip(7).take(16).collect();
        format!("rule {} {short}", self.definition.name)
    }
}

/// Compiles layers and collects diagnostics.
pub(crate) struct LayerCompiler<'a> {
    pub(crate) groups: &'a ToolGroups,
    pub(crate) own_categories: &'a [String],
    /// Operands of all conditions.
    pub(crate) operands: OperandTable,
    pub(crate) diagnostics: Vec<PolicyDiagnostic>,
}

impl LayerCompiler<'_> {
    pub(crate) fn compile_layer(&mut self, layer: &PolicyLayer) -> CompiledLayer {
        let groups = self.groups;
        let lists = [layer.allow.as_deref().unwrap_or_default(), &layer.deny];
        for list in lists {
            groups.report_unknown_groups(list, &mut self.diagnostics);
        }
        let own =
            layer.permissions.as_ref().map(|permissions| self.compile_permissions(permissions));
        let categories = layer.categories.as_deref().map(|words| self.compile_categories(words));
        let mut names = BTreeSet::new();
        let rules = layer.rules.iter().filter_map(|rule| {
            if !names.insert(rule.name.as_str()) {
                let told = format!(
                    "the rule {} is already defined in this \
                        layer",
                    quote_excerpt(&rule.name)
                );
                self.diagnostics.push(PolicyDiagnostic::new(
                    rule.position,
                    told,
                    "choose another name",
                ));
            }
            self.compile_rule(rule).map(Arc::new)
        });
        let rules: Vec<_> = rules.collect();
        CompiledLayer {
            hiding_rules: RuleIndex::new(rules.iter().filter(|rule| rule.is_visibility_rule())),
            deferred_rules: RuleIndex::new(rules.iter().filter(|rule| !rule.is_visibility_rule())),
            safety_limit: layer.safety_limit,
            categories,
            allow: layer.allow.as_deref().map(|list| groups.compile_patterns(list)),
            deny: groups.compile_patterns(&layer.deny),
            permissions: own,
            rules,
            definition: layer.clone(),
        }
    }

    fn compile_permissions(&mut self, written: &ToolPermissions) -> CompiledPermissions {
        let groups = self.groups;
        for list in [&written.allowed_tools, &written.forbidden_tools] {
            groups.report_unknown_groups(list, &mut self.diagnostics);
        }
        CompiledPermissions {
            web_access: written.allows_web,
            categories: self.compile_categories(&written.allowed_categories),
            allowed: groups.compile_patterns(&written.allowed_tools),
            forbidden: groups.compile_patterns(&written.forbidden_tools),
        }
    }

    fn compile_categories(&mut self, words: &[LocatedName]) -> HashSet<String> {
        for LocatedName { text, position: at } in words {
            let known = PolicyDocument::CATEGORIES.contains(&text.as_str())
                || self.own_categories.contains(text);
            if !known {
                let told = format!("unknown category {}", quote_excerpt(text));
                let all = PolicyDocument::CATEGORIES.join(", ");
                let fix = format!("use one of {all}, or add your own to `policy.own_categories`");
                self.diagnostics.push(PolicyDiagnostic::new(*at, told, fix));
            }
        }
        words.iter().map(|word| word.text.clone()).collect()
    }

    fn compile_rule(&mut self, rule: &PolicyRule) -> Option<CompiledRule> {
        if let Some(tools) = &rule.tools {
            self.groups.report_unknown_groups(tools, &mut self.diagnostics);
        }
        let condition = match &rule.condition {
            None => None,
            Some(when) => match RuleCondition::parse(&when.text, &mut self.operands) {
                Ok(condition) => Some(condition),
                Err(ConditionError { message, help }) => {
                    self.diagnostics.push(PolicyDiagnostic::new(when.position, message, help));
                    return None;
                }
            },
        };
        let tools = rule.tools.as_deref().map(|tools| self.groups.compile_patterns(tools));
        let ready = CompiledRule { definition: rule.clone(), tools, condition };
        self.check_examples(&ready);
        Some(ready)
    }

    /// Evaluates the examples of a rule.
    fn check_examples(&mut self, rule: &CompiledRule) {
        for example in &rule.definition.examples {
            let Some(condition) = &rule.condition else {
                let told = "the rule has an example but no condition";
                self.diagnostics.push(PolicyDiagnostic::new(
                    example.position,
                    told,
                    "add `when`, or remove the example",
                ));
                continue;
            };
            let given = ConditionInputs::from_example(&example.arguments, &example.facts);
            let told = match given.and_then(|given| condition.evaluate(given.cel_context())) {
                Ok(applies) if applies == example.should_apply => continue,
                Ok(true) => "the rule applies to this example, but `applies` is false".to_owned(),
                Ok(false) => {
                    "the rule does not apply to this example, but `applies` is true".to_owned()
                }
                // An evaluation error denies, so for a rule that denies it counts as applied.
                Err(_) if example.should_apply && rule.definition.effect == RuleEffect::Deny => {
                    continue;
                }
                Err(fault) => {
                    format!("the condition cannot be evaluated for this example: {}", fault.0)
                }
            };
            let fix = "change the condition or the example; test optional values with `has(…)`";
            self.diagnostics.push(PolicyDiagnostic::new(example.position, told, fix));
        }
    }
}

impl CompiledLayer {
    /// Returns the reason why this layer hides a tool, if it does. Every check only restricts, so
    /// their order affects only the reported reason.
    pub(crate) fn hiding_reason(
        &self,
        classified: &ClassifiedTool<'_>,
        now: WallTime,
        injected_fault: InjectedFault,
    ) -> Option<DecisionReason> {
        let (traits, tool) = (classified.tool.traits, &self.definition);
        let in_category =
            |wanted: &HashSet<String>| traits.categories.iter().any(|c| wanted.contains(c));
        let rescued = injected_fault == InjectedFault::AllowBeatsDeny
            && self.allow.as_ref().is_some_and(|allow| allow.matches_tool(classified));
        let allow = self.allow.as_ref().filter(|_| {
            injected_fault != InjectedFault::EmptyAllowIsAll
                || tool.allow.as_ref().is_some_and(|list| !list.is_empty())
        });
        if self.deny.matches_tool(classified) && !rescued {
            Some(DecisionReason::DenyRule)
        } else if allow.is_some_and(|allow| !allow.matches_tool(classified)) {
            Some(DecisionReason::NotAllowed)
        } else if self.safety_limit.is_some_and(|limit| traits.safety > limit) {
            Some(DecisionReason::SafetyLimit)
        } else if self.categories.as_ref().is_some_and(|wanted| !in_category(wanted)) {
            Some(DecisionReason::Category)
        } else if tool.is_read_only && classified.group_mask & GROUP_WRITE != 0 {
            Some(DecisionReason::ReadOnly)
        } else if tool.denies_network && classified.group_mask & GROUP_WEB != 0 {
            Some(DecisionReason::NoWeb)
        } else if let Some(permissions) = &self.permissions {
            permissions
                .hiding_reason(classified, in_category(&permissions.categories))
                .or_else(|| self.rule_hiding_reason(classified, now))
        } else {
            self.rule_hiding_reason(classified, now)
        }
    }

    fn rule_hiding_reason(
        &self,
        seen: &ClassifiedTool<'_>,
        now: WallTime,
    ) -> Option<DecisionReason> {
        let index = &self.hiding_rules;
        let is_active = |rule: &Arc<CompiledRule>| rule.is_active_at(now);
        let is_hidden = index.rules_for_every_tool().any(is_active)
            || index.find_specific(seen).iter().filter_map(|id| index.rule(*id)).any(is_active);
        is_hidden.then_some(DecisionReason::Rule)
    }
}

impl CompiledPermissions {
    /// Checks in the research registry's order: forbidden, allowed by name, by category.
    fn hiding_reason(
        &self,
        seen: &ClassifiedTool<'_>,
        in_category: bool,
    ) -> Option<DecisionReason> {
        if self.forbidden.matches_tool(seen) {
            Some(DecisionReason::Forbidden)
        } else if self.allowed.matches_tool(seen) {
            None
        } else if !in_category {
            Some(DecisionReason::RoleCategory)
        } else if seen.group_mask & GROUP_WEB != 0 && !self.web_access {
            Some(DecisionReason::WebAccess)
        } else {
            None
        }
    }
}

impl CompiledRule {
    /// Returns true if the rule decides visibility and needs no call.
    fn is_visibility_rule(&self) -> bool {
        self.definition.effect == RuleEffect::Deny && self.condition.is_none()
    }

    /// Returns the selector of its tools; `None` if it concerns every tool.
    pub(crate) fn selector(&self) -> Option<&ToolSelector> {
        self.tools.as_ref()
    }

    pub(crate) fn applies_to(&self, classified: &ClassifiedTool<'_>) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.matches_tool(classified))
    }

    pub(crate) fn is_active_at(&self, now: WallTime) -> bool {
        self.definition.time_window.as_ref().is_none_or(|time| time.contains_time(now))
    }

    /// Returns true if the rule hides a tool now.
    pub(crate) fn hides_tool(&self, classified: &ClassifiedTool<'_>, now: WallTime) -> bool {
        self.is_visibility_rule() && self.applies_to(classified) && self.is_active_at(now)
    }

    /// Returns the next time at which its visibility effect may change.
    pub(crate) fn next_change(&self, now: WallTime) -> Option<WallTime> {
        self.definition.time_window.as_ref().filter(|_| self.is_visibility_rule())?.next_change(now)
    }
}
