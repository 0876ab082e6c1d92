//! Second stage of the policy: decides one call from the residual.

use std::sync::Arc;

use crate::compiled_layer::CompiledRule;
use crate::deferred_checks::DeferredChecks;
use crate::{DecisionReason, PolicyRequest};

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

pub(crate) fn decide_without_call(residual: &ResidualPolicy) -> PolicyDecision {
    match residual.approval_reason {
        Some(reason) => PolicyDecision::RequireApproval(reason),
        None if residual.needs_caution => PolicyDecision::Allow(DecisionReason::Caution),
        None => PolicyDecision::Allow(DecisionReason::Allowed),
    }
}

impl ResidualPolicy {
    /// Returns the number of rules that are evaluated for each call.
    pub fn rule_count(&self) -> usize {
        self.deferred.as_ref().map_or(0, |checks| checks.rules.len())
    }

    /// Returns all reasons why this call needs an approval, sorted: reason codes of the tool, and
    /// each rule by name and content hash. An approval covers these reasons and no others.
    pub fn approval_reasons(&self, request: &PolicyRequest<'_>) -> Vec<String> {
        let mut holds: Vec<_> =
            self.tool_approval_reasons.iter().map(|it| it.as_str().to_owned()).collect();
        let rules = self.deferred.iter().flat_map(|checks| checks.approval_rules(request));
        holds.extend(rules.map(|rule| rule.approval_id()));
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
