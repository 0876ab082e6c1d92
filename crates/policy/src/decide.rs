//! The second stage: what becomes of one call.

use std::sync::Arc;

use crate::condition::Given;
use crate::ready::ReadyRule;
use crate::{Asking, Effect, Reason, paths};

/// What the first stage leaves to the second.
#[derive(Debug, Clone)]
pub struct Residual {
    /// Why each call must be held, where it must.
    pub hold: Option<Reason>,
    /// Whether the call is noted as one to be careful with (spec 1's cautious).
    pub caution: bool,
    /// Everything about the tool that holds each call, of which `hold` is the first.
    pub(crate) holds: Vec<Reason>,
    /// What only the call can answer.
    pub(crate) later: Option<Arc<Later>>,
}

#[derive(Debug)]
pub(crate) struct Later {
    pub(crate) rules: Vec<Arc<ReadyRule>>,
    /// A path of a call lies beneath one folder of each of these lists.
    pub(crate) paths: Vec<Vec<String>>,
    pub(crate) no_approvals: bool,
}

/// What becomes of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It runs.
    Allow(Reason),
    /// It waits for a person.
    Hold(Reason),
    /// It does not run, and the caller is told so.
    Deny(Reason),
}

/// A decision with what made it.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) decision: Decision,
    pub(crate) rule: Option<Arc<ReadyRule>>,
    /// Why a condition could not be worked out.
    pub(crate) fault: Option<String>,
}

/// The second stage: a denial counts before a hold, a hold before leave.
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
    /// Whether the same is left of two tools, so that one residual will do for both.
    pub fn same(&self, other: &Self) -> bool {
        let later = match (&self.later, &other.later) {
            (None, None) => true,
            (Some(own), Some(other)) => own.same(other),
            _ => false,
        };
        (self.hold, self.caution, &self.holds) == (other.hold, other.caution, &other.holds) && later
    }

    /// Everything that holds this call, sorted: reason codes for what the tool is, and each rule by its name
    /// and a hash of what it says. Who agrees to a call agrees to these, and to no other.
    pub fn holds(&self, asking: &Asking<'_>) -> Vec<String> {
        let mut holds: Vec<_> = self.holds.iter().map(|it| it.as_str().to_owned()).collect();
        let rules = self.later.iter().flat_map(|later| &later.rules);
        let mut given = None;
        for rule in rules.filter(|rule| rule.written.effect == Effect::Hold) {
            let applies = rule.in_time(asking.now)
                && rule.condition.as_ref().is_none_or(|condition| {
                    let given = given.get_or_insert_with(|| Given::of(asking));
                    // What cannot be worked out denies, and is no matter for an approval.
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

impl Later {
    fn same(&self, other: &Self) -> bool {
        let rules = self.rules.iter().zip(&other.rules);
        self.rules.len() == other.rules.len()
            && self.no_approvals == other.no_approvals
            && rules.into_iter().all(|(own, other)| Arc::ptr_eq(own, other))
            && self.paths == other.paths
    }

    fn judge(&self, residual: &Residual, asking: &Asking<'_>) -> Verdict {
        let plainly = |decision| Verdict { decision, rule: None, fault: None };
        let outside = |paths: &Vec<String>| paths::outside(asking.args, paths);
        if let Some(reason) = self.paths.iter().find_map(outside) {
            return plainly(Decision::Deny(reason));
        }
        let mut held = None;
        let mut given = None;
        for rule in self.rules.iter().filter(|rule| rule.in_time(asking.now)) {
            let applies = match &rule.condition {
                None => Ok(true),
                Some(condition) => match given.get_or_insert_with(|| Given::of(asking)) {
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
