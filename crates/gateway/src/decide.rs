//! What policy is asked: of a call in the pipeline, and of one that is only thought of.

use std::borrow::Cow;

use catalog::Entry;
use identity::Principal;
use policy::{Asking, Decision, Explanation, Facts, Policy, Residual, Taint};
use tool::{Args, CallerType, Mono, Trust, Wall};

use crate::{Gateway, View};

/// The moment at which a call is looked at: clocks are read once for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) wall: Wall,
    pub(crate) mono: Mono,
}

impl Gateway {
    pub(crate) fn now(&self) -> Moment {
        Moment { wall: self.parts.clock.wall(), mono: self.parts.clock.mono() }
    }

    /// The second stage, of one call; and why it is held or denied, in words.
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

    /// The same of a call that is only thought of: nothing is noted of whoever would make it.
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

    /// Everything that holds a call.
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

    /// What would become of a call in the snapshot of this view, and why; `None` where its catalog has no
    /// such tool. It is for who may know of every tool: to anyone else a hidden tool is one that is not
    /// there.
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

    /// What this caller has seen that makes its next call more delicate.
    pub fn taint(&self, principal: &Principal) -> Taint {
        self.taints.look(principal, self.parts.clock.mono())
    }

    /// The caller sees what this tool has to show, from the moment that it runs: also of a call that fails
    /// something may be heard.
    pub(crate) fn tainted(&self, principal: &Principal, view: &View, entry: &Entry, now: Mono) {
        let trust = view.catalog().shelf(entry.key.source.as_str()).map(|shelf| shelf.trust);
        // A source that is gone meanwhile is none that is known to be trusted.
        let trust = trust.unwrap_or(Trust::Review);
        let taint = Taint::of(&Facts::of(&entry.key, &entry.tool), trust);
        self.taints.mark(principal, taint, now);
    }

    /// The policy in force.
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
