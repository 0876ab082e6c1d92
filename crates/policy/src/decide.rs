//! The second stage: what becomes of one call.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::condition::{Fault, Given, Wants};
use crate::paths::Outside;
use crate::ready::ReadyRule;
use crate::{Asking, Effect, Reason, paths};

/// What the first stage leaves to the second. Where the same is left of two tools, one will do for both.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
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
    rules: Vec<Arc<ReadyRule>>,
    /// What the conditions of all of them name, where there are several.
    wants: Option<Wants>,
    /// A path of a call lies beneath one folder of each of these lists.
    paths: Vec<Vec<String>>,
    no_approvals: bool,
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
    /// Everything that holds this call, sorted: reason codes for what the tool is, and each rule by its name
    /// and a hash of what it says. Who agrees to a call agrees to these, and to no other.
    pub fn holds(&self, asking: &Asking<'_>) -> Vec<String> {
        let mut holds: Vec<_> = self.holds.iter().map(|it| it.as_str().to_owned()).collect();
        let rules =
            self.later.iter().flat_map(|later| later.rules.iter().map(move |rule| (later, rule)));
        let mut given = None;
        for (later, rule) in rules.filter(|(_, rule)| rule.written.effect == Effect::Hold) {
            let applies = rule.in_time(asking.now)
                && rule.condition.as_ref().is_none_or(|condition| {
                    let given = given.get_or_insert_with(|| later.given(asking));
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

    /// What its conditions name of a call.
    fn given<'v>(&self, asking: &Asking<'v>) -> Result<Given<'v>, Fault> {
        let of_one = || self.rules.iter().find_map(|rule| Some(&rule.condition.as_ref()?.wants));
        match self.wants.as_ref().or_else(of_one) {
            Some(wants) => Given::of(asking, wants),
            None => Given::of(asking, &Wants::default()),
        }
    }

    /// Its rules by where they are: of one policy, each is there once.
    fn places(&self) -> impl Iterator<Item = *const ReadyRule> {
        self.rules.iter().map(Arc::as_ptr)
    }

    /// The path of a call that is not beneath the folders of one of the lists, and that list.
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
