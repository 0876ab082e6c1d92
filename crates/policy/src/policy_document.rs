//! The policy document: the operator's rules as parsed from the file.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tool::{AccessScope, Digest, Json, SafetyLevel};

use crate::{DisabledFeatures, FilePosition, TimeWindow, ToolPattern};

/// The operator's rules for everyone. An absent rule does not restrict; an empty list allows none.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PolicyDocument {
    /// Layer for all callers.
    pub global: PolicyLayer,
    /// Layers for keys of an organisation. An organisation that is neither here nor the default has
    /// no tools.
    pub orgs: BTreeMap<String, PolicyLayer>,
    /// Layers for keys with a role. If there are any, an unknown role has no tools.
    pub roles: BTreeMap<String, PolicyLayer>,
    /// Role of keys without a role.
    pub default_role: Option<LocatedName>,
    /// Layers for keys with a persona, in addition to its modules.
    pub personas: BTreeMap<String, PolicyLayer>,
    /// Layers for custom task types. Those of [`PolicyDocument::OFFLINE_TASK_TYPES`] deny the network without being
    /// listed.
    #[serde(rename = "tasks")]
    pub task_layers: BTreeMap<String, PolicyLayer>,
    /// Tool groups of the operator.
    pub groups: BTreeMap<String, ToolGroup>,
    /// Requirements of access scopes (`permissions` in tool files).
    pub scopes: BTreeMap<AccessScope, ScopeRule>,
    /// Categories in addition to [`PolicyDocument::CATEGORIES`].
    pub own_categories: Vec<String>,
    /// Feature flags that are disabled.
    #[serde(rename = "off")]
    pub disabled_features: DisabledFeatures,
}

/// Rules of one layer. Each can only restrict.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PolicyLayer {
    /// Maximum safety level of a tool.
    pub safety_limit: Option<SafetyLevel>,
    /// Categories of which a tool must have one.
    pub categories: Option<Vec<LocatedName>>,
    /// Patterns of which a tool must match one.
    pub allow: Option<Vec<ToolPattern>>,
    /// Patterns of which a tool must match none.
    pub deny: Vec<ToolPattern>,
    /// True if tools with effects are hidden.
    #[serde(rename = "read_only")]
    pub is_read_only: bool,
    /// True if tools that use the network are hidden.
    #[serde(rename = "no_web")]
    pub denies_network: bool,
    /// Flat permissions of the research registry.
    pub permissions: Option<ToolPermissions>,
    /// Rules that decide on more than names.
    pub rules: Vec<PolicyRule>,
    /// Position in the file.
    #[serde(skip)]
    pub position: FilePosition,
}

/// A name with its position in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LocatedName {
    /// Text of the name.
    pub text: String,
    /// Position in the file.
    #[serde(skip)]
    pub position: FilePosition,
}

/// A group defined by the operator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ToolGroup {
    /// Members: tools, sources, other groups.
    pub members: Vec<ToolPattern>,
    /// Position in the file.
    #[serde(skip)]
    pub position: FilePosition,
}

/// Flat permissions of the research registry: forbidden, then allowed by name, then by category;
/// all else is denied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ToolPermissions {
    /// True if tools that use the network are allowed by category.
    #[serde(rename = "web_access")]
    pub allows_web: bool,
    /// Allowed categories of tools.
    pub allowed_categories: Vec<LocatedName>,
    /// Tools allowed whatever their category.
    pub allowed_tools: Vec<ToolPattern>,
    /// Forbidden tools; takes precedence.
    pub forbidden_tools: Vec<ToolPattern>,
}

/// Requirements of an access scope.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ScopeRule {
    /// Whether a call needs an approval. Absent: the default.
    pub requires_approval: Option<bool>,
    /// Absolute folders beneath which all paths of a call must lie. Only for `filesystem`.
    pub allowed_paths: Option<Vec<String>>,
}

/// Effect of a rule that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum RuleEffect {
    /// The call is denied.
    #[serde(rename = "deny")]
    Deny,
    /// The call needs an approval.
    #[serde(rename = "hold")]
    RequireApproval,
}

/// A rule that decides on more than names.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PolicyRule {
    /// Name in explanations and records.
    pub name: String,
    /// Effect of the rule.
    pub effect: RuleEffect,
    /// Tools to which it applies; all if absent.
    pub tools: Option<Vec<ToolPattern>>,
    /// Condition on the call, in CEL.
    #[serde(rename = "when")]
    pub condition: Option<LocatedName>,
    /// Time window of the rule; always if absent.
    #[serde(rename = "time")]
    pub time_window: Option<TimeWindow>,
    /// Examples that are checked when the rules are parsed.
    pub examples: Vec<RuleExample>,
    /// Position in the file.
    #[serde(skip)]
    pub position: FilePosition,
}

/// An example call on which a rule must apply, or not.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleExample {
    /// Arguments of the call.
    #[serde(rename = "args")]
    pub arguments: Value,
    /// Other variables: `principal`, `tool`, `now`, `taint`, `via`, as in conditions.
    pub facts: serde_json::Map<String, Value>,
    /// True if the rule must apply.
    #[serde(rename = "applies")]
    pub should_apply: bool,
    /// Position in the file.
    #[serde(skip)]
    pub position: FilePosition,
}

impl PolicyDocument {
    /// Categories of the research registry and of the safety-level library, which every file may
    /// use.
    pub const CATEGORIES: &'static [&'static str] = tool::tool_traits::CATEGORIES;
    /// Task types of the research registry that use no network.
    pub const OFFLINE_TASK_TYPES: &'static [&'static str] =
        &["math", "thinking", "instruction_precision"];

    /// Returns the SHA-256 of the rules, independent of their positions in the file.
    pub fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        hash.update(b"toolkeep policy 2\n");
        hash.update(Json::encode(self).bytes());
        Digest(hash.finalize().into())
    }

    /// Iterates over all layers with their names.
    pub(crate) fn named_layers(&self) -> impl Iterator<Item = (String, &PolicyLayer)> {
        let named = [
            ("org", &self.orgs),
            ("role", &self.roles),
            ("persona", &self.personas),
            ("task", &self.task_layers),
        ];
        let named = named.into_iter().flat_map(|(kind, layers)| {
            layers.iter().map(move |(name, layer)| (format!("{kind} `{name}`"), layer))
        });
        std::iter::once(("global".to_owned(), &self.global)).chain(named)
    }
}
