//! The access to a tool before any call: hidden, allowed, with an approval, or decided by
//! the call itself.

use std::sync::Arc;

use crate::compiled_layer::CompiledRule;
use crate::deferred_checks::DeferredChecks;
use crate::effective_policy::{EffectivePolicy, ToolAdmission};
use crate::{DecisionReason, PolicyRule, ToolFacts};

/// Access of a rights class to a tool.
#[derive(Debug, Clone)]
pub struct ToolAccess {
    /// The general decision.
    pub kind: ToolAccessKind,
    /// The reason of it.
    pub reason: DecisionReason,
    /// The rest of the policy, which decides each call.
    deferred: Option<Arc<DeferredChecks>>,
}

/// The general decision on a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ToolAccessKind {
    /// The tool does not exist for the caller.
    Hidden,
    /// Each call is allowed.
    Allowed,
    /// Each call needs an approval, or is denied.
    NeedsApproval,
    /// Each call is denied.
    Denied,
    /// Rules with conditions, or allowed paths, decide each call.
    Conditional,
}

impl ToolAccessKind {
    /// Returns the word that interfaces use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hidden => "hidden",
            Self::Allowed => "allow",
            Self::NeedsApproval => "hold",
            Self::Denied => "deny",
            Self::Conditional => "conditional",
        }
    }
}

impl ToolAccess {
    /// Returns the names of the rules that decide each call.
    pub fn rule_names(&self) -> Vec<&str> {
        self.rules().map(|rule| rule.name.as_str()).collect()
    }

    fn rules(&self) -> impl Iterator<Item = &PolicyRule> {
        let rules = self.deferred.iter().flat_map(|deferred| &deferred.rules);
        rules.map(|rule: &Arc<CompiledRule>| &rule.definition)
    }

    /// Returns true if all calls are decided alike. The position of a rule in a file does not count.
    pub fn decides_as(&self, other: &Self) -> bool {
        let same_call_checks = match (&self.deferred, &other.deferred) {
            (None, None) => true,
            (Some(a), Some(b)) => a.has_same_limits(b),
            _ => false,
        };
        let same_rules = || {
            let own: Vec<_> = self.rules().map(rule_content).collect();
            own == other.rules().map(rule_content).collect::<Vec<_>>()
        };
        self.kind == other.kind && self.reason == other.reason && same_call_checks && same_rules()
    }
}

/// The content of a rule that decides: all but its position and its examples.
fn rule_content(rule: &PolicyRule) -> impl PartialEq + use<'_> {
    let condition = rule.condition.as_ref().map(|condition| condition.text.as_str());
    (rule.name.as_str(), rule.effect, condition, &rule.time_window)
}

impl EffectivePolicy<'_> {
    /// Returns the access to a tool, without a call.
    pub fn tool_access(&self, tool: &ToolFacts<'_>) -> ToolAccess {
        let residual = match self.admit_tool(tool) {
            ToolAdmission::Hidden(reason) => {
                return ToolAccess { kind: ToolAccessKind::Hidden, reason, deferred: None };
            }
            ToolAdmission::Visible(residual) => residual,
        };
        let deferred = residual.deferred.as_deref();
        let approval = residual.approval_reason.or_else(|| {
            let always = deferred.is_some_and(DeferredChecks::always_needs_approval);
            always.then_some(DecisionReason::RuleHold)
        });
        let (kind, reason) = match approval {
            Some(_) if deferred.is_some_and(|deferred| deferred.denies_approvals) => {
                (ToolAccessKind::Denied, DecisionReason::NoApprovals)
            }
            Some(reason) => (ToolAccessKind::NeedsApproval, reason),
            None if deferred.is_some() => (ToolAccessKind::Conditional, DecisionReason::Allowed),
            None if residual.needs_caution => (ToolAccessKind::Allowed, DecisionReason::Caution),
            None => (ToolAccessKind::Allowed, DecisionReason::Allowed),
        };
        ToolAccess { kind, reason, deferred: residual.deferred }
    }
}

#[cfg(test)]
mod tests {
    use tool::{CallerType, Org, PermissionLevel, SafetyLevel, ToolTraits, WallTime};

    use super::{ToolAccess, ToolAccessKind};
    use crate::tests::{enter, key, patterns};
    use crate::{
        DecisionReason, FilePosition, LocatedName, Policy, PolicyDocument, PolicyRule, RuleEffect,
        ToolFacts,
    };

    fn rule(effect: RuleEffect, when: Option<&str>) -> PolicyRule {
        PolicyRule {
            name: "r".to_owned(),
            effect,
            tools: Some(patterns(&["mail"])),
            condition: when.map(|text| LocatedName {
                text: text.to_owned(),
                position: FilePosition::default(),
            }),
            time_window: None,
            examples: Vec::new(),
            position: FilePosition::default(),
        }
    }

    fn policy(change: impl FnOnce(&mut PolicyDocument)) -> Policy {
        let mut document = PolicyDocument::default();
        change(&mut document);
        Policy::new(document).unwrap()
    }

    fn access(policy: &Policy, traits: &ToolTraits) -> ToolAccess {
        let principal = enter(key(PermissionLevel::Owner));
        let org = Org::default();
        let tool = ToolFacts { org: &org, source: "s", name: "mail", traits };
        policy
            .for_class(principal.rights_class(), CallerType::Direct, WallTime(0))
            .tool_access(&tool)
    }

    #[test]
    fn access_says_what_every_call_has_in_common() {
        let plain = ToolTraits::default();
        let dangerous = ToolTraits { safety: SafetyLevel::Dangerous, ..ToolTraits::default() };
        let rules = |rules: Vec<PolicyRule>| policy(|document| document.global.rules = rules);
        let to_eve = "args.to == 'eve'";
        for (policy, traits, kind, reason) in [
            (policy(|_| ()), &plain, ToolAccessKind::Allowed, DecisionReason::Allowed),
            (policy(|_| ()), &dangerous, ToolAccessKind::NeedsApproval, DecisionReason::Dangerous),
            (
                policy(|document| document.global.deny = patterns(&["mail"])),
                &plain,
                ToolAccessKind::Hidden,
                DecisionReason::DenyRule,
            ),
            (
                rules(vec![rule(RuleEffect::Deny, Some(to_eve))]),
                &plain,
                ToolAccessKind::Conditional,
                DecisionReason::Allowed,
            ),
            (
                rules(vec![rule(RuleEffect::RequireApproval, None)]),
                &plain,
                ToolAccessKind::NeedsApproval,
                DecisionReason::RuleHold,
            ),
        ] {
            let access = access(&policy, traits);
            assert_eq!((access.kind, access.reason), (kind, reason));
        }
    }

    #[test]
    fn equal_rules_decide_alike_wherever_they_are_written() {
        let plain = ToolTraits::default();
        let with = |text: &str, line: usize| {
            let policy = policy(|document| {
                let mut rule = rule(RuleEffect::Deny, Some(text));
                rule.position.line = line;
                document.global.rules = vec![rule];
            });
            access(&policy, &plain)
        };
        let one = with("args.to == 'eve'", 1);
        assert_eq!(one.rule_names(), ["r"]);
        assert!(one.decides_as(&with("args.to == 'eve'", 7)));
        assert!(!one.decides_as(&with("args.to == 'adam'", 1)));
        assert!(!one.decides_as(&access(&policy(|_| ()), &plain)));
    }
}
