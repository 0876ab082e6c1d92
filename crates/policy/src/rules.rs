//! The policy document: the operator's rules as parsed from the file.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tool::{Digest, Json, Safety, Scope};

use crate::{At, Hours, Off, Pattern};

/// The operator's rules for everyone. An absent rule does not restrict; an empty list allows none.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Rules {
    /// Layer for all callers.
    pub global: Layer,
    /// Layers for keys of an organisation. An organisation that is neither here nor the default has
    /// no tools.
    pub orgs: BTreeMap<String, Layer>,
    /// Layers for keys with a role. If there are any, an unknown role has no tools.
    pub roles: BTreeMap<String, Layer>,
    /// Role of keys without a role.
    pub default_role: Option<Word>,
    /// Layers for keys with a persona, in addition to its modules.
    pub personas: BTreeMap<String, Layer>,
    /// Layers for custom task types. Those of [`Rules::TASKS`] deny the network without being
    /// listed.
    pub tasks: BTreeMap<String, Layer>,
    /// Tool groups of the operator.
    pub groups: BTreeMap<String, Group>,
    /// Requirements of access scopes (`permissions` in tool files).
    pub scopes: BTreeMap<Scope, ScopeRule>,
    /// Categories in addition to [`Rules::CATEGORIES`].
    pub own_categories: Vec<String>,
    /// Feature flags that are disabled.
    pub off: Off,
}

/// Rules of one layer. Each can only restrict.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Layer {
    /// Maximum safety level of a tool.
    pub safety_limit: Option<Safety>,
    /// Categories of which a tool must have one.
    pub categories: Option<Vec<Word>>,
    /// Patterns of which a tool must match one.
    pub allow: Option<Vec<Pattern>>,
    /// Patterns of which a tool must match none.
    pub deny: Vec<Pattern>,
    /// True if tools with effects are hidden.
    pub read_only: bool,
    /// True if tools that use the network are hidden.
    pub no_web: bool,
    /// Flat permissions of the tool-file registry.
    pub permissions: Option<Permissions>,
    /// Rules that decide on more than names.
    pub rules: Vec<Rule>,
    /// Position in the file.
    #[serde(skip)]
    pub at: At,
}

/// A name with its position in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Word {
    /// Text of the name.
    pub text: String,
    /// Position in the file.
    #[serde(skip)]
    pub at: At,
}

/// A group defined by the operator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Members: tools, sources, other groups.
    pub members: Vec<Pattern>,
    /// Position in the file.
    #[serde(skip)]
    pub at: At,
}

/// Flat permissions of the tool-file registry: forbidden, then allowed by name, then by category;
/// all else is denied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Permissions {
    /// True if tools that use the network are allowed by category.
    pub web_access: bool,
    /// Allowed categories of tools.
    pub allowed_categories: Vec<Word>,
    /// Tools allowed whatever their category.
    pub allowed_tools: Vec<Pattern>,
    /// Forbidden tools; takes precedence.
    pub forbidden_tools: Vec<Pattern>,
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
pub enum Effect {
    /// The call is denied.
    #[serde(rename = "deny")]
    Deny,
    /// The call needs an approval.
    #[serde(rename = "hold")]
    Hold,
}

/// A rule that decides on more than names.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rule {
    /// Name in explanations and records.
    pub name: String,
    /// Effect of the rule.
    pub effect: Effect,
    /// Tools to which it applies; all if absent.
    pub tools: Option<Vec<Pattern>>,
    /// Condition on the call, in CEL.
    pub when: Option<Word>,
    /// Time window of the rule; always if absent.
    pub time: Option<Hours>,
    /// Examples that are checked when the rules are parsed.
    pub examples: Vec<Example>,
    /// Position in the file.
    #[serde(skip)]
    pub at: At,
}

/// An example call on which a rule must apply, or not.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Example {
    /// Arguments of the call.
    pub args: Value,
    /// Other variables: `principal`, `tool`, `now`, `taint`, `via`, as in conditions.
    pub facts: serde_json::Map<String, Value>,
    /// True if the rule must apply.
    pub applies: bool,
    /// Position in the file.
    #[serde(skip)]
    pub at: At,
}

impl Rules {
    /// Categories of the tool-file registry and of the safety-level library, which every file may
    /// use.
    pub const CATEGORIES: &'static [&'static str] = tool::traits::CATEGORIES;
    /// Task types of the tool-file registry that use no network.
    pub const TASKS: &'static [&'static str] = &["math", "thinking", "instruction_precision"];

    /// Returns the SHA-256 of the rules, independent of their positions in the file.
    pub fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        hash.update(b"toolkeep policy 2\n");
        hash.update(Json::of(self).bytes());
        Digest(hash.finalize().into())
    }

    /// Iterates over all layers with their names.
    pub(crate) fn layers(&self) -> impl Iterator<Item = (String, &Layer)> {
        let named = [
            ("org", &self.orgs),
            ("role", &self.roles),
            ("persona", &self.personas),
            ("task", &self.tasks),
        ];
        let named = named.into_iter().flat_map(|(kind, layers)| {
            layers.iter().map(move |(name, layer)| (format!("{kind} `{name}`"), layer))
        });
        std::iter::once(("global".to_owned(), &self.global)).chain(named)
    }
}
