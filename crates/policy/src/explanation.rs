//! Explanations of decisions. The effective policy makes the decision; only its explanation is
//! computed here.

use std::borrow::Cow;

use serde::Serialize;

use crate::decision::PolicyDecision;
use crate::effective_policy::{LayerCheck, VisibilityCheck};
use crate::tool_selector::ClassifiedTool;
use crate::{DecisionReason, FilePosition, Policy, PolicyRequest, ToolPattern};

/// A decision with its explanation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DecisionExplanation {
    /// `hidden`, `allow`, `hold` or `deny`.
    pub decision: &'static str,
    /// Reason code of the decision.
    pub reason: DecisionReason,
    /// Reason, as a message for people.
    #[serde(rename = "text")]
    pub reason_text: Cow<'static, str>,
    /// Layer that decided, such as ``role `worker` ``.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer: Option<String>,
    /// Rule that decided: a pattern of a list, or the name of a rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Position in the operator's file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "place")]
    pub position: Option<FilePosition>,
    /// Error of a condition that could not be evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "fault")]
    pub evaluation_error: Option<String>,
}

impl DecisionExplanation {
    /// Creates an explanation without details.
    pub fn new(decision: &'static str, reason: DecisionReason) -> Self {
        let (layer, rule, place, fault) = (None, None, None, None);
        Self {
            decision,
            reason,
            reason_text: reason.text().into(),
            layer,
            rule,
            position: place,
            evaluation_error: fault,
        }
    }

    /// Explains a tool that does not exist, or that the caller may not know of.
    pub fn unknown_tool() -> Self {
        Self::new("hidden", DecisionReason::Unknown)
    }
}

impl Policy {
    /// Explains the decision on a call.
    pub fn explain(&self, request: &PolicyRequest<'_>) -> DecisionExplanation {
        let lens = self.for_class(request.rights, request.caller_type, request.now);
        let seen = ClassifiedTool::from_facts(request.tool);
        if let Some((gate, reason)) = lens.find_hiding_check(&seen) {
            return self.hidden(gate, reason, (&seen, request));
        }
        let residual = lens.residual_of(&seen);
        let verdict = residual.decide_traced(request);
        let mut told = match verdict.decision {
            PolicyDecision::Allow(reason) => DecisionExplanation::new("allow", reason),
            PolicyDecision::RequireApproval(reason) => DecisionExplanation::new("hold", reason),
            PolicyDecision::Deny(reason) => DecisionExplanation::new("deny", reason),
        };
        told.reason_text = residual.decision_message(request, told.reason);
        if let Some(rule) = &verdict.rule {
            let of_rule = |gate: &&LayerCheck<'_>| match gate.check {
                VisibilityCheck::Layer(layer) => {
                    layer.rules.iter().any(|own| std::sync::Arc::ptr_eq(own, rule))
                }
                _ => false,
            };
            told.layer = lens.checks.iter().find(of_rule).map(|gate| gate.name.clone());
            told.rule = Some(rule.definition.name.clone());
            told.position = rule.definition.position.if_in_file();
        }
        told.evaluation_error = verdict.evaluation_error;
        told
    }

    fn hidden(
        &self,
        gate: &LayerCheck<'_>,
        reason: DecisionReason,
        (seen, asking): (&ClassifiedTool<'_>, &PolicyRequest<'_>),
    ) -> DecisionExplanation {
        let mut told = DecisionExplanation::new("hidden", reason);
        told.layer = Some(gate.name.clone());
        let VisibilityCheck::Layer(layer) = gate.check else { return told };
        let written = &layer.definition;
        let own = written.permissions.as_ref();
        let forbidden = own.map(|own| own.forbidden_tools.as_slice()).unwrap_or_default();
        let which = |list: &[ToolPattern]| {
            let found = self.tool_groups().find_matching(list, seen)?;
            Some((found.to_string(), found.position()))
        };
        let named = match reason {
            DecisionReason::DenyRule => which(&written.deny),
            DecisionReason::Forbidden => which(forbidden),
            DecisionReason::Rule => {
                let hiding = layer.rules.iter().find(|rule| rule.hides_tool(seen, asking.now));
                hiding.map(|rule| (rule.definition.name.clone(), rule.definition.position))
            }
            _ => None,
        };
        let (rule, at) = named.map_or((None, written.position), |(rule, at)| (Some(rule), at));
        told.rule = rule;
        told.position = at.if_in_file();
        told
    }
}
