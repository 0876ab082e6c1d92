//! What policy is asked: of a call in the pipeline, and of one that is only thought of.

use std::sync::Arc;

use catalog::Entry;
use identity::Principal;
use policy::{Asking, Decision, Explanation, Facts, Policy, Residual, Taint};
use tool::{Args, CallerType};

use crate::Gateway;

impl Gateway {
    /// The second stage, of one call.
    pub(crate) fn decide(
        &self,
        who: (&Principal, CallerType),
        (entry, residual): (&Entry, &Residual),
        args: &Args,
    ) -> Decision {
        policy::decide(residual, &self.asking(who, entry, args))
    }

    /// Everything that holds a call.
    pub(crate) fn holds(
        &self,
        who: (&Principal, CallerType),
        (entry, residual): (&Entry, &Residual),
        args: &Args,
    ) -> Vec<String> {
        residual.holds(&self.asking(who, entry, args))
    }

    /// What would become of a call, and why; `None` where the catalog has no such tool. It is for who
    /// may know of every tool: to anyone else a hidden tool is one that is not there.
    pub fn explain(
        &self,
        who: (&Principal, CallerType),
        name: &str,
        args: &Args,
    ) -> Option<Explanation> {
        let (catalog, policy) = (self.parts.catalog.load(), self.parts.policy.load());
        let (_, entry) = catalog.find(name)?;
        Some(policy.explain(&self.asking(who, entry, args)))
    }

    /// The policy in force.
    pub fn policy(&self) -> Arc<Policy> {
        self.parts.policy.load_full()
    }

    fn asking<'a>(
        &self,
        (principal, by): (&'a Principal, CallerType),
        entry: &'a Entry,
        args: &'a Args,
    ) -> Asking<'a> {
        Asking {
            caller: principal.caller(),
            rights: principal.rights(),
            by,
            tool: Facts::of(&entry.key, &entry.tool),
            args: args.value(),
            now: self.parts.clock.wall(),
            // Nothing tracks it yet: see docs/design/007-policy.md.
            taint: Taint::default(),
        }
    }
}
