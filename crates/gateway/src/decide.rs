//! Policy questions of the pipeline about a call, explanations, and the taint that a call leaves.

use std::borrow::Cow;

use catalog::Entry;
use identity::Principal;
use policy::{Asking, Decision, Explanation, Facts, Policy, Residual, Taint};
use tool::{Args, CallerType, Mono, Trust, Wall};

use crate::{Gateway, View};

/// Wall-clock and monotonic time, read once per call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) wall: Wall,
    pub(crate) mono: Mono,
}

impl Gateway {
    pub(crate) fn now(&self) -> Moment {
        Moment { wall: self.parts.clock.wall(), mono: self.parts.clock.mono() }
    }

    /// Decides one call by policy; returns the reason text if it is pending or denied.
    pub(crate) fn decide(
        &self,
        who: (&Principal, CallerType),
        (entry, residual): (&Entry, &Residual),
        args: &Args,
        now: Moment,
    ) -> (Decision, Cow<'static, str>) {
        let taint = self.taints.of(who.0, now.mono);
        decided(residual, &asking(who, entry, (args, taint), now.wall))
    }

    /// Decides a hypothetical call; nothing is recorded about its caller.
    pub(crate) fn consider(
        &self,
        who: (&Principal, CallerType),
        (entry, residual): (&Entry, &Residual),
        args: &Args,
    ) -> (Decision, Cow<'static, str>) {
        let now = self.now();
        let taint = self.taints.look(who.0, now.mono);
        decided(residual, &asking(who, entry, (args, taint), now.wall))
    }

    /// Returns all reasons why a call needs an approval.
    pub(crate) fn holds(
        &self,
        who: (&Principal, CallerType),
        (entry, residual): (&Entry, &Residual),
        args: &Args,
        now: Moment,
    ) -> Vec<String> {
        let taint = self.taints.look(who.0, now.mono);
        residual.holds(&asking(who, entry, (args, taint), now.wall))
    }

    /// Explains the decision on a call in this view's snapshot; `None` if the catalog has no such
    /// tool. For callers who may know of every tool: to others a hidden tool does not exist.
    pub fn explain(
        &self,
        view: &View,
        who: (&Principal, CallerType),
        name: &str,
        args: &Args,
    ) -> Option<Explanation> {
        let (_, entry) = view.catalog().find(name)?;
        let now = self.parts.clock.wall();
        Some(view.rules().explain(&asking(who, entry, (args, self.taint(who.0)), now)))
    }

    /// Returns the taint of this caller.
    pub fn taint(&self, principal: &Principal) -> Taint {
        self.taints.look(principal, self.parts.clock.mono())
    }

    /// Marks the caller with the taint of this tool, from the start of the call: a failed call may
    /// reveal content too.
    pub(crate) fn tainted(&self, principal: &Principal, view: &View, entry: &Entry, now: Mono) {
        let trust = view.catalog().shelf(entry.key.source.as_str()).map(|shelf| shelf.trust);
        // A source that was removed meanwhile is not known to be trusted.
        let trust = trust.unwrap_or(Trust::Review);
        let taint = Taint::of(&Facts::of(&entry.key, &entry.tool), trust);
        self.taints.mark(principal, taint, now);
    }

    /// Returns the active policy.
    pub fn policy(&self) -> Policy {
        self.parts.current.rules()
    }
}

fn decided(residual: &Residual, asking: &Asking<'_>) -> (Decision, Cow<'static, str>) {
    let decision = policy::decide(residual, asking);
    let why = match decision {
        Decision::Allow(_) => Cow::Borrowed(""),
        Decision::Hold(reason) | Decision::Deny(reason) => residual.sentence(asking, reason),
    };
    (decision, why)
}

fn asking<'a>(
    (principal, by): (&'a Principal, CallerType),
    entry: &'a Entry,
    (args, taint): (&'a Args, Taint),
    now: Wall,
) -> Asking<'a> {
    let (caller, rights) = (principal.caller(), principal.rights());
    Asking { caller, rights, by, tool: Facts::of(&entry.key, &entry.tool), args, now, taint }
}
