//! Explanations of decisions. The effective policy makes the decision; only its explanation is
//! computed here.

use std::borrow::Cow;

use serde::Serialize;

use crate::decide::Decision;
use crate::lens::{Gate, Test};
use crate::select::Seen;
use crate::{Asking, At, Pattern, Policy, Reason};

/// A decision with its explanation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// `hidden`, `allow`, `hold` or `deny`.
    pub decision: &'static str,
    /// Reason code of the decision.
    pub reason: Reason,
    /// Reason, as a message for people.
    pub text: Cow<'static, str>,
    /// Layer that decided, such as ``role `worker` ``.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer: Option<String>,
    /// Rule that decided: a pattern of a list, or the name of a rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Position in the operator's file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<At>,
    /// Error of a condition that could not be evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

impl Explanation {
    /// Creates an explanation without details.
    pub fn new(decision: &'static str, reason: Reason) -> Self {
        let (layer, rule, place, fault) = (None, None, None, None);
        Self { decision, reason, text: reason.text().into(), layer, rule, place, fault }
    }

    /// Explains a tool that does not exist, or that the caller may not know of.
    pub fn unknown() -> Self {
        Self::new("hidden", Reason::Unknown)
    }
}

impl Policy {
    /// Explains the decision on a call.
    pub fn explain(&self, asking: &Asking<'_>) -> Explanation {
        let lens = self.lens(asking.rights, asking.by, asking.now);
        let seen = Seen::of(asking.tool);
        if let Some((gate, reason)) = lens.refused(&seen) {
            return self.hidden(gate, reason, (&seen, asking));
        }
        let residual = lens.residual(&seen);
        let verdict = residual.verdict(asking);
        let mut told = match verdict.decision {
            Decision::Allow(reason) => Explanation::new("allow", reason),
            Decision::Hold(reason) => Explanation::new("hold", reason),
            Decision::Deny(reason) => Explanation::new("deny", reason),
        };
        told.text = residual.sentence(asking, told.reason);
        if let Some(rule) = &verdict.rule {
            let of_rule = |gate: &&Gate<'_>| match gate.test {
                Test::Layer(layer) => {
                    layer.rules.iter().any(|own| std::sync::Arc::ptr_eq(own, rule))
                }
                _ => false,
            };
            told.layer = lens.gates.iter().find(of_rule).map(|gate| gate.name.clone());
            told.rule = Some(rule.written.name.clone());
            told.place = rule.written.at.known();
        }
        told.fault = verdict.fault;
        told
    }

    fn hidden(
        &self,
        gate: &Gate<'_>,
        reason: Reason,
        (seen, asking): (&Seen<'_>, &Asking<'_>),
    ) -> Explanation {
        let mut told = Explanation::new("hidden", reason);
        told.layer = Some(gate.name.clone());
        let Test::Layer(layer) = gate.test else { return told };
        let written = &layer.written;
        let own = written.permissions.as_ref();
        let forbidden = own.map(|own| own.forbidden_tools.as_slice()).unwrap_or_default();
        let which = |list: &[Pattern]| {
            let found = self.groups().which(list, seen)?;
            Some((found.to_string(), found.place()))
        };
        let named = match reason {
            Reason::DenyRule => which(&written.deny),
            Reason::Forbidden => which(forbidden),
            Reason::Rule => {
                let hiding = layer.rules.iter().find(|rule| rule.hides(seen, asking.now));
                hiding.map(|rule| (rule.written.name.clone(), rule.written.at))
            }
            _ => None,
        };
        let (rule, at) = named.map_or((None, written.at), |(rule, at)| (Some(rule), at));
        told.rule = rule;
        told.place = at.known();
        told
    }
}
