//! Second stage of the policy: decides one call from the residual.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::compiled_layer::CompiledRule;
use crate::condition::{ConditionInputs, EvaluationError, ReferencedFields};
use crate::path_check::PathViolation;
use crate::{DecisionReason, PolicyRequest, RuleEffect, path_check};

/// Remainder of the first stage for the second. Tools with the same remainder can share it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ResidualPolicy {
    /// First reason why each call needs an approval.
    pub approval_reason: Option<DecisionReason>,
    /// True if the call is recorded as one that needs caution (safety level cautious).
    pub needs_caution: bool,
    /// All reasons of the tool for an approval, of which `hold` is the first.
    pub(crate) tool_approval_reasons: Vec<DecisionReason>,
    /// Checks that need the call itself.
    pub(crate) deferred: Option<Arc<DeferredChecks>>,
}

#[derive(Debug)]
pub(crate) struct DeferredChecks {
    pub(crate) rules: Vec<Arc<CompiledRule>>,
    /// Combined references of all conditions, if there are several.
    combined_fields: Option<ReferencedFields>,
    /// Lists of allowed folders; each path of a call must lie beneath one folder of each list.
    allowed_paths: Vec<Vec<String>>,
    pub(crate) denies_approvals: bool,
}

/// Decision on one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyDecision {
    /// The call is allowed.
    Allow(DecisionReason),
    /// The call needs an approval.
    RequireApproval(DecisionReason),
    /// The call is refused, and the caller is notified.
    Deny(DecisionReason),
}

/// A decision with the rule that made it.
#[derive(Debug)]
pub(crate) struct TracedDecision {
    pub(crate) decision: PolicyDecision,
    pub(crate) rule: Option<Arc<CompiledRule>>,
    /// Error of a condition that could not be evaluated.
    pub(crate) evaluation_error: Option<String>,
}

/// Decides one call: a denial precedes an approval, an approval precedes permission.
pub fn decide_call(residual: &ResidualPolicy, request: &PolicyRequest<'_>) -> PolicyDecision {
    match &residual.deferred {
        None => decide_without_call(residual),
        Some(later) => later.decide_call(residual, request).decision,
    }
}

fn decide_without_call(residual: &ResidualPolicy) -> PolicyDecision {
    match residual.approval_reason {
        Some(reason) => PolicyDecision::RequireApproval(reason),
        None if residual.needs_caution => PolicyDecision::Allow(DecisionReason::Caution),
        None => PolicyDecision::Allow(DecisionReason::Allowed),
    }
}

impl ResidualPolicy {
    /// Returns all reasons why this call needs an approval, sorted: reason codes of the tool, and
    /// each rule by name and content hash. An approval covers these reasons and no others.
    pub fn approval_reasons(&self, request: &PolicyRequest<'_>) -> Vec<String> {
        let mut holds: Vec<_> =
            self.tool_approval_reasons.iter().map(|it| it.as_str().to_owned()).collect();
        let rules = self
            .deferred
            .iter()
            .flat_map(|later| later.rules.iter().map(move |rule| (later, rule)));
        let mut given = None;
        for (later, rule) in
            rules.filter(|(_, rule)| rule.definition.effect == RuleEffect::RequireApproval)
        {
            let applies = rule.is_active_at(request.now)
                && rule.condition.as_ref().is_none_or(|condition| {
                    let given = given.get_or_insert_with(|| later.build_inputs(request));
                    // An evaluation error denies the call and is not a matter of approval.
                    given
                        .as_ref()
                        .is_ok_and(|it| condition.evaluate(it.cel_context()).unwrap_or(true))
                });
            if applies {
                holds.push(rule.approval_id());
            }
        }
        holds.sort_unstable();
        holds.dedup();
        holds
    }

    pub(crate) fn decide_traced(&self, request: &PolicyRequest<'_>) -> TracedDecision {
        match &self.deferred {
            None => TracedDecision {
                decision: decide_without_call(self),
                rule: None,
                evaluation_error: None,
            },
            Some(later) => later.decide_call(self, request),
        }
    }
}

impl PartialEq for DeferredChecks {
    fn eq(&self, other: &Self) -> bool {
        self.rule_pointers().eq(other.rule_pointers())
            && self.denies_approvals == other.denies_approvals
            && self.allowed_paths == other.allowed_paths
    }
}
impl Eq for DeferredChecks {}

impl Hash for DeferredChecks {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rule_pointers().for_each(|rule| rule.hash(state));
        (&self.allowed_paths, self.denies_approvals).hash(state);
    }
}

impl DeferredChecks {
    pub(crate) fn new(
        rules: Vec<Arc<CompiledRule>>,
        paths: Vec<Vec<String>>,
        denies_approvals: bool,
    ) -> Self {
        let mut named =
            rules.iter().filter_map(|rule| Some(&rule.condition.as_ref()?.referenced_fields));
        let first = named.next();
        let wants = named.fold(None, |all: Option<ReferencedFields>, wants| {
            let mut all = all.or_else(|| first.cloned()).unwrap_or_default();
            all.merge_with(wants);
            Some(all)
        });
        Self { rules, combined_fields: wants, allowed_paths: paths, denies_approvals }
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

    /// Builds the variables that its conditions reference.
    fn build_inputs<'v>(
        &self,
        asking: &PolicyRequest<'v>,
    ) -> Result<ConditionInputs<'v>, EvaluationError> {
        let of_one =
            || self.rules.iter().find_map(|rule| Some(&rule.condition.as_ref()?.referenced_fields));
        match self.combined_fields.as_ref().or_else(of_one) {
            Some(wants) => ConditionInputs::from_request(asking, wants),
            None => ConditionInputs::from_request(asking, &ReferencedFields::default()),
        }
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

    fn decide_call(&self, residual: &ResidualPolicy, asking: &PolicyRequest<'_>) -> TracedDecision {
        let plainly = |decision| TracedDecision { decision, rule: None, evaluation_error: None };
        if let Some((outside, _)) = self.find_path_outside(asking) {
            return plainly(PolicyDecision::Deny(outside.reason));
        }
        let mut held = None;
        let mut given = None;
        for rule in self.rules.iter().filter(|rule| rule.is_active_at(asking.now)) {
            let applies = match &rule.condition {
                None => Ok(true),
                Some(condition) => match given.get_or_insert_with(|| self.build_inputs(asking)) {
                    Ok(given) => condition.evaluate(given.cel_context()),
                    Err(fault) => Err(fault.clone()),
                },
            };
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
