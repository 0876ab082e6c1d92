//! Checks that need the call itself: rules with conditions or times, and allowed folders. Tools with
//! the same checks share them, and so do the views of all rights classes.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use crate::compiled_layer::CompiledRule;
use crate::condition::{CallInputs, ReferencedFields};
use crate::decision::{PolicyDecision, ResidualPolicy, TracedDecision, decide_without_call};
use crate::path_check::PathViolation;
use crate::{DecisionReason, PolicyRequest, RuleEffect, path_check};

#[derive(Debug)]
pub(crate) struct DeferredChecks {
    pub(crate) rules: Vec<Arc<CompiledRule>>,
    /// Combined references of all conditions.
    references: ReferencedFields,
    /// Lists of allowed folders; each path of a call must lie beneath one folder of each list.
    allowed_paths: Vec<Vec<String>>,
    pub(crate) denies_approvals: bool,
    /// Hash of its content: most comparisons of a thousand rules end here.
    fingerprint: u64,
}

impl PartialEq for DeferredChecks {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
            && self.rule_pointers().eq(other.rule_pointers())
            && self.denies_approvals == other.denies_approvals
            && self.allowed_paths == other.allowed_paths
    }
}
impl Eq for DeferredChecks {}

impl Hash for DeferredChecks {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.fingerprint.hash(state);
    }
}

impl DeferredChecks {
    pub(crate) fn new(
        rules: Vec<Arc<CompiledRule>>,
        allowed_paths: Vec<Vec<String>>,
        denies_approvals: bool,
    ) -> Self {
        let mut references = ReferencedFields::default();
        for condition in rules.iter().filter_map(|rule| rule.condition.as_ref()) {
            references.merge_with(&condition.referenced_fields);
        }
        let mut checks =
            Self { rules, references, allowed_paths, denies_approvals, fingerprint: 0 };
        let mut hash = DefaultHasher::new();
        checks.rule_pointers().for_each(|rule| rule.hash(&mut hash));
        (&checks.allowed_paths, denies_approvals).hash(&mut hash);
        checks.fingerprint = hash.finish();
        checks
    }

    /// Returns true if both have the same checks besides their rules.
    pub(crate) fn has_same_limits(&self, other: &Self) -> bool {
        self.allowed_paths == other.allowed_paths && self.denies_approvals == other.denies_approvals
    }

    /// Returns true if a rule requires an approval of every call, at any time.
    pub(crate) fn always_needs_approval(&self) -> bool {
        self.rules.iter().any(|rule| {
            rule.definition.effect == RuleEffect::RequireApproval
                && rule.condition.is_none()
                && rule.definition.time_window.is_none()
        })
    }

    /// Returns the inputs of a call for its conditions.
    fn inputs<'v>(&self, request: &PolicyRequest<'v>) -> CallInputs<'_, 'v> {
        CallInputs::new(request, &self.references)
    }

    /// Returns its rules by address: within one policy, each exists once.
    fn rule_pointers(&self) -> impl Iterator<Item = *const CompiledRule> {
        self.rules.iter().map(Arc::as_ptr)
    }

    /// Returns the path of a call that is outside one of the lists, and that list.
    pub(crate) fn find_path_outside<'a>(
        &self,
        request: &PolicyRequest<'a>,
    ) -> Option<(PathViolation<'a>, &[String])> {
        let base = request.tool.traits.base_folders.as_deref();
        self.allowed_paths.iter().find_map(|allowed| {
            path_check::check_paths(request.arguments, allowed, base)
                .map(|outside| (outside, allowed.as_slice()))
        })
    }

    /// Iterates over the approval rules that apply to a call.
    pub(crate) fn approval_rules<'a>(
        &'a self,
        request: &PolicyRequest<'a>,
    ) -> impl Iterator<Item = &'a Arc<CompiledRule>> {
        let (mut inputs, now) = (self.inputs(request), request.now);
        self.rules.iter().filter(move |rule| {
            rule.definition.effect == RuleEffect::RequireApproval
                && rule.is_active_at(now)
                && rule.condition.as_ref().is_none_or(|condition| {
                    // An evaluation error denies the call and is not a matter of approval.
                    inputs.check_limits().is_ok() && inputs.evaluate(condition).unwrap_or(true)
                })
        })
    }

    pub(crate) fn decide_call(
        &self,
        residual: &ResidualPolicy,
        asking: &PolicyRequest<'_>,
    ) -> TracedDecision {
        let plainly = |decision| TracedDecision { decision, rule: None, evaluation_error: None };
        if let Some((outside, _)) = self.find_path_outside(asking) {
            return plainly(PolicyDecision::Deny(outside.reason));
        }
        let mut held = None;
        let mut inputs = self.inputs(asking);
        for rule in self.rules.iter().filter(|rule| rule.is_active_at(asking.now)) {
            let applies =
                rule.condition.as_ref().map_or(Ok(true), |condition| inputs.evaluate(condition));
            let own = |reason, fault| TracedDecision {
                decision: PolicyDecision::Deny(reason),
                rule: Some(Arc::clone(rule)),
                evaluation_error: fault,
            };
            match (applies, rule.definition.effect) {
                (Ok(true), RuleEffect::Deny) => return own(DecisionReason::Rule, None),
                (Err(fault), _) => return own(DecisionReason::RuleFault, Some(fault.0)),
                (Ok(true), RuleEffect::RequireApproval) => held = held.or(Some(rule)),
                (Ok(false), _) => {}
            }
        }
        let verdict = match (residual.approval_reason, held) {
            (None, Some(rule)) => TracedDecision {
                decision: PolicyDecision::RequireApproval(DecisionReason::RuleHold),
                rule: Some(Arc::clone(rule)),
                evaluation_error: None,
            },
            _ => plainly(decide_without_call(residual)),
        };
        match verdict.decision {
            PolicyDecision::RequireApproval(_) if self.denies_approvals => TracedDecision {
                decision: PolicyDecision::Deny(DecisionReason::NoApprovals),
                ..verdict
            },
            _ => verdict,
        }
    }
}

/// Maximum number of rules in all shared checks together: 2 MiB of addresses.
const MAX_SHARED_RULES: usize = 1 << 18;

/// Checks of a policy that views share. What is not remembered is only stored twice.
#[derive(Debug, Default)]
pub(crate) struct CheckInterner(Mutex<SharedChecks>);

#[derive(Debug, Default)]
struct SharedChecks {
    checks: HashSet<Arc<DeferredChecks>>,
    rule_count: usize,
}

impl CheckInterner {
    /// Returns the checks, or equal ones that were interned before.
    pub(crate) fn intern_checks(&self, checks: DeferredChecks) -> Arc<DeferredChecks> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = shared.checks.get(&checks) {
            return Arc::clone(known);
        }
        if shared.rule_count + checks.rules.len() > MAX_SHARED_RULES {
            *shared = SharedChecks::default();
        }
        shared.rule_count += checks.rules.len() + 1;
        let checks = Arc::new(checks);
        shared.checks.insert(Arc::clone(&checks));
        checks
    }
}
