//! Policy decisions of the call pipeline, their explanations, and the taint that a call leaves on
//! its caller.

use std::borrow::Cow;

use catalog::CatalogEntry;
use identity::Principal;
use policy::{
    DecisionExplanation, Policy, PolicyDecision, PolicyRequest, ResidualPolicy, SessionTaint,
    ToolFacts,
};
use tool::{CallArguments, CallerType, MonotonicTime, SourceTrust, WallTime};

use crate::{CallTarget, CatalogView, Gateway};

/// Wall-clock and monotonic time, read once per call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockReading {
    pub(crate) wall: WallTime,
    pub(crate) mono: MonotonicTime,
}

impl Gateway {
    pub(crate) fn read_clocks(&self) -> ClockReading {
        ClockReading {
            wall: self.components.clock.wall_now(),
            mono: self.components.clock.monotonic_now(),
        }
    }

    /// Decides one call by policy; returns the reason text if it is pending or denied.
    pub(crate) fn decide_policy(
        &self,
        caller: (&Principal, CallerType),
        (entry, residual): (&CatalogEntry, &ResidualPolicy),
        args: &CallArguments,
        now: ClockReading,
    ) -> (PolicyDecision, Cow<'static, str>) {
        let taint = self.taint_tracker.touch_caller(caller.0, now.mono);
        decide_residual(residual, &policy_request(caller, entry, (args, taint), now.wall))
    }

    /// Decides a hypothetical call; nothing is recorded about its caller.
    pub(crate) fn preview_decision(
        &self,
        caller: (&Principal, CallerType),
        (entry, residual): (&CatalogEntry, &ResidualPolicy),
        args: &CallArguments,
    ) -> (PolicyDecision, Cow<'static, str>) {
        let now = self.read_clocks();
        let taint = self.taint_tracker.peek_caller(caller.0, now.mono);
        decide_residual(residual, &policy_request(caller, entry, (args, taint), now.wall))
    }

    /// Returns all reasons why a call needs an approval.
    pub(crate) fn approval_reasons(
        &self,
        caller: (&Principal, CallerType),
        (entry, residual): (&CatalogEntry, &ResidualPolicy),
        args: &CallArguments,
        now: ClockReading,
    ) -> Vec<String> {
        let taint = self.taint_tracker.peek_caller(caller.0, now.mono);
        residual.approval_reasons(&policy_request(caller, entry, (args, taint), now.wall))
    }

    /// Explains the decision on a call in this view's snapshot; `None` if the catalog has no such
    /// tool. For callers who may know of every tool: to others a hidden tool does not exist.
    pub fn explain_decision(
        &self,
        view: &CatalogView,
        caller: (&Principal, CallerType),
        name: &str,
        args: &CallArguments,
    ) -> Option<DecisionExplanation> {
        let (_, entry) = view.full_catalog().find_tool(name)?;
        let now = self.components.clock.wall_now();
        Some(view.policy().explain(&policy_request(
            caller,
            entry,
            (args, self.caller_taint(caller.0)),
            now,
        )))
    }

    /// Returns the taint of this caller.
    pub fn caller_taint(&self, caller: &Principal) -> SessionTaint {
        self.taint_tracker.peek_caller(caller, self.components.clock.monotonic_now())
    }

    /// Marks the caller with the taint of this tool, from the start of the call: a failed call may
    /// reveal content too.
    pub(crate) fn mark_taint(
        &self,
        caller: &Principal,
        view: &CatalogView,
        entry: &CatalogEntry,
        now: MonotonicTime,
    ) {
        let trust = view
            .full_catalog()
            .find_source(entry.tool_key.source.as_str())
            .map(|shelf| shelf.trust);
        // A source that was removed meanwhile is not known to be trusted.
        let trust = trust.unwrap_or(SourceTrust::Review);
        let taint =
            SessionTaint::from_tool(&ToolFacts::from_tool(&entry.tool_key, &entry.tool), trust);
        self.taint_tracker.mark_caller(caller, taint, now);
    }

    /// Marks the caller with the taint of a method whose call goes on, because it has delivered
    /// something now: a taint lasts an hour, and such a call may last longer.
    pub fn mark_delivery(&self, caller: &Principal, target: &CallTarget) {
        let view = self.view_for(caller, CallerType::Direct);
        if let Some((entry, _)) = view.find_target(target) {
            self.mark_taint(caller, &view, entry, self.components.clock.monotonic_now());
        }
    }

    /// Returns the active policy.
    pub fn active_policy(&self) -> Policy {
        self.components.current.policy()
    }
}

fn decide_residual(
    residual: &ResidualPolicy,
    asking: &PolicyRequest<'_>,
) -> (PolicyDecision, Cow<'static, str>) {
    let decision = policy::decide_call(residual, asking);
    let why = match decision {
        PolicyDecision::Allow(_) => Cow::Borrowed(""),
        PolicyDecision::RequireApproval(reason) | PolicyDecision::Deny(reason) => {
            residual.decision_message(asking, reason)
        }
    };
    (decision, why)
}

fn policy_request<'a>(
    (principal, by): (&'a Principal, CallerType),
    entry: &'a CatalogEntry,
    (args, taint): (&'a CallArguments, SessionTaint),
    now: WallTime,
) -> PolicyRequest<'a> {
    let (caller, rights) = (principal.caller(), principal.rights_class());
    PolicyRequest {
        caller,
        rights,
        caller_type: by,
        tool: ToolFacts::from_tool(&entry.tool_key, &entry.tool),
        arguments: args,
        now,
        taint,
    }
}
