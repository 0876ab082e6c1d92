//! Second stage of the policy: decides one call from the residual.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::condition::{Fault, Given, Wants};
use crate::paths::Outside;
use crate::ready::ReadyRule;
use crate::{Asking, Effect, Reason, paths};

/// Remainder of the first stage for the second. Tools with the same remainder can share it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Residual {
    /// First reason why each call needs an approval.
    pub hold: Option<Reason>,
    /// True if the call is recorded as one that needs caution (safety level cautious).
    pub caution: bool,
    /// All reasons of the tool for an approval, of which `hold` is the first.
    pub(crate) holds: Vec<Reason>,
    /// Checks that need the call itself.
    pub(crate) later: Option<Arc<Later>>,
}

#[derive(Debug)]
pub(crate) struct Later {
    rules: Vec<Arc<ReadyRule>>,
    /// Combined references of all conditions, if there are several.
    wants: Option<Wants>,
    /// Lists of allowed folders; each path of a call must lie beneath one folder of each list.
    paths: Vec<Vec<String>>,
    no_approvals: bool,
}

/// Decision on one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The call is allowed.
    Allow(Reason),
    /// The call needs an approval.
    Hold(Reason),
    /// The call is refused, and the caller is notified.
    Deny(Reason),
}

/// A decision with the rule that made it.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) decision: Decision,
    pub(crate) rule: Option<Arc<ReadyRule>>,
    /// Error of a condition that could not be evaluated.
    pub(crate) fault: Option<String>,
}

/// Decides one call: a denial precedes an approval, an approval precedes permission.
pub fn decide(residual: &Residual, asking: &Asking<'_>) -> Decision {
    match &residual.later {
        None => plain(residual),
        Some(later) => later.judge(residual, asking).decision,
    }
}

fn plain(residual: &Residual) -> Decision {
    match residual.hold {
        Some(reason) => Decision::Hold(reason),
        None if residual.caution => Decision::Allow(Reason::Caution),
        None => Decision::Allow(Reason::Allowed),
    }
}

impl Residual {
    /// Returns all reasons why this call needs an approval, sorted: reason codes of the tool, and
    /// each rule by name and content hash. An approval covers these reasons and no others.
    pub fn holds(&self, asking: &Asking<'_>) -> Vec<String> {
        let mut holds: Vec<_> = self.holds.iter().map(|it| it.as_str().to_owned()).collect();
        let rules =
            self.later.iter().flat_map(|later| later.rules.iter().map(move |rule| (later, rule)));
        let mut given = None;
        for (later, rule) in rules.filter(|(_, rule)| rule.written.effect == Effect::Hold) {
            let applies = rule.in_time(asking.now)
                && rule.condition.as_ref().is_none_or(|condition| {
                    let given = given.get_or_insert_with(|| later.given(asking));
                    // An evaluation error denies the call and is not a matter of approval.
                    given.as_ref().is_ok_and(|it| condition.holds(it.context()).unwrap_or(true))
                });
            if applies {
                holds.push(rule.id());
            }
        }
        holds.sort_unstable();
        holds.dedup();
        holds
    }

    pub(crate) fn verdict(&self, asking: &Asking<'_>) -> Verdict {
        match &self.later {
            None => Verdict { decision: plain(self), rule: None, fault: None },
            Some(later) => later.judge(self, asking),
        }
    }
}

impl PartialEq for Later {
    fn eq(&self, other: &Self) -> bool {
        self.places().eq(other.places())
            && self.no_approvals == other.no_approvals
            && self.paths == other.paths
    }
}
impl Eq for Later {}

impl Hash for Later {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.places().for_each(|rule| rule.hash(state));
        (&self.paths, self.no_approvals).hash(state);
    }
}

impl Later {
    pub(crate) fn new(
        rules: Vec<Arc<ReadyRule>>,
        paths: Vec<Vec<String>>,
        no_approvals: bool,
    ) -> Self {
        let mut named = rules.iter().filter_map(|rule| Some(&rule.condition.as_ref()?.wants));
        let first = named.next();
        let wants = named.fold(None, |all: Option<Wants>, wants| {
            let mut all = all.or_else(|| first.cloned()).unwrap_or_default();
            all.join(wants);
            Some(all)
        });
        Self { rules, wants, paths, no_approvals }
    }

    /// Builds the variables that its conditions reference.
    fn given<'v>(&self, asking: &Asking<'v>) -> Result<Given<'v>, Fault> {
        let of_one = || self.rules.iter().find_map(|rule| Some(&rule.condition.as_ref()?.wants));
        match self.wants.as_ref().or_else(of_one) {
            Some(wants) => Given::of(asking, wants),
            None => Given::of(asking, &Wants::default()),
        }
    }

    /// Returns its rules by address: within one policy, each exists once.
    fn places(&self) -> impl Iterator<Item = *const ReadyRule> {
        self.rules.iter().map(Arc::as_ptr)
    }

    /// Returns the path of a call that is outside one of the lists, and that list.
    pub(crate) fn outside<'a>(&self, asking: &Asking<'a>) -> Option<(Outside<'a>, &[String])> {
        let base = asking.tool.traits.base_folders.as_deref();
        self.paths.iter().find_map(|allowed| {
            paths::outside(asking.args, allowed, base).map(|outside| (outside, allowed.as_slice()))
        })
    }

    fn judge(&self, residual: &Residual, asking: &Asking<'_>) -> Verdict {
        let plainly = |decision| Verdict { decision, rule: None, fault: None };
        if let Some((outside, _)) = self.outside(asking) {
            return plainly(Decision::Deny(outside.reason));
        }
        let mut held = None;
        let mut given = None;
        for rule in self.rules.iter().filter(|rule| rule.in_time(asking.now)) {
            let applies = match &rule.condition {
                None => Ok(true),
                Some(condition) => match given.get_or_insert_with(|| self.given(asking)) {
                    Ok(given) => condition.holds(given.context()),
                    Err(fault) => Err(fault.clone()),
                },
            };
            let own = |reason, fault| Verdict {
                decision: Decision::Deny(reason),
                rule: Some(Arc::clone(rule)),
                fault,
            };
            match (applies, rule.written.effect) {
                (Ok(true), Effect::Deny) => return own(Reason::Rule, None),
                (Err(fault), _) => return own(Reason::RuleFault, Some(fault.0)),
                (Ok(true), Effect::Hold) => held = held.or(Some(rule)),
                (Ok(false), _) => {}
            }
        }
        let verdict = match (residual.hold, held) {
            (None, Some(rule)) => Verdict {
                decision: Decision::Hold(Reason::RuleHold),
                rule: Some(Arc::clone(rule)),
                fault: None,
            },
            _ => plainly(plain(residual)),
        };
        match verdict.decision {
            Decision::Hold(_) if self.no_approvals => {
                Verdict { decision: Decision::Deny(Reason::NoApprovals), ..verdict }
            }
            _ => verdict,
        }
    }
}
