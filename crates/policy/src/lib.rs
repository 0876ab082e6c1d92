//! Who may call what, in two stages of one engine.
//!
//! [`Policy::admit`] asks of a rights class and a tool: hidden, or visible with a residual. It makes
//! the view, and is cached with it. [`decide`] asks of one call what only the call can answer.
//! Default deny, deny wins, and what a caller sends can only narrow. Pure: no I/O, no clock.

mod facts;
mod pattern;
mod reason;
mod rules;

use identity::RightsClass;
use tool::{CallerType, Digest, Safety};

pub use facts::Facts;
pub use pattern::Pattern;
pub use reason::Reason;
pub use rules::Rules;

/// The rules in force, with their hash, which every record carries.
#[derive(Debug, Clone)]
pub struct Policy {
    rules: Rules,
    digest: Digest,
}

/// Whether a tool exists for a rights class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It does not exist: same answer as an unknown name.
    Hidden(Reason),
    /// It exists; the residual is left for the call itself.
    Visible(Residual),
}

/// What the first stage leaves to the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Residual {
    /// Why each call must be held, where it must.
    pub hold: Option<Reason>,
    /// Whether the call is noted as one to be careful with (spec 1's cautious).
    pub caution: bool,
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

impl Policy {
    /// With these rules.
    pub fn new(rules: Rules) -> Self {
        let digest = rules.digest();
        Self { rules, digest }
    }

    /// Names these rules in records.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The first stage. Every test can only hide; none takes back what another hid.
    pub fn admit(&self, rights: &RightsClass, by: CallerType, tool: &Facts<'_>) -> Admission {
        match self.hidden(rights, by, tool) {
            Some(reason) => Admission::Hidden(reason),
            None => Admission::Visible(residual(tool)),
        }
    }

    fn hidden(&self, rights: &RightsClass, by: CallerType, tool: &Facts<'_>) -> Option<Reason> {
        let traits = tool.traits;
        let in_category = |wanted: &[String]| traits.categories.iter().any(|c| wanted.contains(c));
        let matches = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.fits(tool));
        let rules = &self.rules;
        if rights.org() != tool.org {
            Some(Reason::OtherOrg)
        } else if matches(&rules.deny) {
            Some(Reason::DenyRule)
        } else if rules.allow.as_deref().is_some_and(|allow| !matches(allow)) {
            Some(Reason::NotAllowed)
        } else if rights.level() < traits.level {
            Some(Reason::Level)
        } else if !rights.allows_source(tool.source) {
            Some(Reason::PersonaModules)
        } else if rules.safety_limit.is_some_and(|limit| traits.safety > limit) {
            Some(Reason::SafetyLimit)
        } else if rules.categories.as_deref().is_some_and(|wanted| !in_category(wanted)) {
            Some(Reason::Category)
        } else if !traits.callers.contains(&by) {
            Some(Reason::CallerType)
        } else {
            None
        }
    }
}

impl Default for Policy {
    /// No rules of the operator: levels and personas alone.
    fn default() -> Self {
        Self::new(Rules::default())
    }
}

fn residual(tool: &Facts<'_>) -> Residual {
    let traits = tool.traits;
    let hold = if traits.safety == Safety::Dangerous {
        Some(Reason::Dangerous)
    } else if traits.destructive {
        Some(Reason::Destructive)
    } else {
        None
    };
    Residual { hold, caution: traits.safety == Safety::Cautious }
}

/// The second stage.
pub fn decide(residual: Residual) -> Decision {
    match residual.hold {
        Some(reason) => Decision::Hold(reason),
        None if residual.caution => Decision::Allow(Reason::Caution),
        None => Decision::Allow(Reason::Allowed),
    }
}

#[cfg(test)]
mod tests;
