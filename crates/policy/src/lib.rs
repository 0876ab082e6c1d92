//! Authorisation of calls in two stages: the visibility of a tool, then the decision on each call.
//!
//! [`EffectivePolicy::admit_tool`] decides for a rights class whether a tool is hidden or visible
//! with a residual; the result is cached in the view. [`decide_call`] evaluates the residual for
//! one call. Default deny, deny wins, every layer only narrows, and callers' input can only narrow.
//! Pure: no I/O, no clock.

mod compiled_layer;
mod compiled_policy;
mod condition;
mod decision;
mod decision_message;
mod decision_reason;
mod deferred_checks;
mod diagnostics;
mod effective_policy;
mod explanation;
mod feature_flags;
mod item_pattern;
mod path_check;
mod policy_diff;
mod policy_document;
mod policy_request;
mod rule_index;
mod time_window;
mod tool_access;
mod tool_facts;
mod tool_groups;
mod tool_pattern;
mod tool_selector;
mod toolset_definition;

pub use compiled_policy::{Policy, ToolInventory};
pub use decision::{PolicyDecision, ResidualPolicy, decide_call};
pub use decision_reason::DecisionReason;
pub use diagnostics::{FilePosition, PolicyDiagnostic};
pub use effective_policy::{EffectivePolicy, ToolAdmission};
pub use explanation::DecisionExplanation;
pub use feature_flags::DisabledFeatures;
pub use item_pattern::{ItemPattern, ToolMatcher};
pub use policy_diff::{PolicyChange, diff_documents};
pub use policy_document::{
    LocatedName, PolicyDocument, PolicyLayer, PolicyRule, RuleEffect, RuleExample, ScopeRule,
    ToolGroup, ToolPermissions,
};
pub use policy_request::{PolicyRequest, SessionTaint};
pub use time_window::{TimeWindow, TimeWindowError, TimeWindowField, TimeWindowSpec};
pub use tool_access::{ToolAccess, ToolAccessKind};
pub use tool_facts::ToolFacts;
pub use tool_pattern::ToolPattern;
pub use toolset_definition::{
    GRANT_TO_ALL, ToolsetDefinition, ToolsetDefinitionError, ToolsetEntry, ToolsetItemKind,
};

#[cfg(test)]
mod tests;
