//! Authorisation of calls, in two stages of one decision.
//!
//! [`Lens::admit`] decides for a rights class whether a tool is hidden or visible with a residual;
//! the result is cached in the view. [`decide`] evaluates the residual for one call. Default deny,
//! deny wins, every layer only narrows, and callers' input can only narrow. Pure: no I/O, no clock.

mod asking;
mod at;
mod condition;
mod decide;
mod diff;
mod explain;
mod facts;
mod features;
mod groups;
mod hours;
mod lens;
mod paths;
mod pattern;
mod policy;
mod ready;
mod reason;
mod rules;
mod select;
mod sentence;

pub use asking::{Asking, Taint};
pub use at::{At, Slip};
pub use decide::{Decision, Residual, decide};
pub use diff::{Change, diff};
pub use explain::Explanation;
pub use facts::Facts;
pub use features::Off;
pub use hours::{Hours, HoursFault, HoursPart, HoursText};
pub use lens::{Admission, Lens};
pub use pattern::Pattern;
pub use policy::{Inventory, Policy};
pub use reason::Reason;
pub use rules::{Effect, Example, Group, Layer, Permissions, Rule, Rules, ScopeRule, Word};

#[cfg(test)]
mod tests;
