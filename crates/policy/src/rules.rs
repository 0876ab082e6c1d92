//! The operator's rules, as the file has them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tool::{Digest, Json, Safety, Scope};

use crate::{At, Hours, Off, Pattern};

/// What the operator allows, everywhere. What is absent is no rule; an empty list means: none.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Rules {
    /// For everyone.
    pub global: Layer,
    /// For the keys of an organisation. One that is neither here nor the machine's own has nothing.
    pub orgs: BTreeMap<String, Layer>,
    /// For the keys with a role. Where there are any, a role that is not here has nothing.
    pub roles: BTreeMap<String, Layer>,
    /// The role of keys without one.
    pub default_role: Option<Word>,
    /// For the keys with a persona, beside its modules.
    pub personas: BTreeMap<String, Layer>,
    /// For a caller's own task types. Those of [`Rules::TASKS`] take the network away without being here.
    pub tasks: BTreeMap<String, Layer>,
    /// The operator's groups.
    pub groups: BTreeMap<String, Group>,
    /// What a scope asks for (spec 3's `permissions`).
    pub scopes: BTreeMap<Scope, ScopeRule>,
    /// Categories beside [`Rules::CATEGORIES`].
    pub own_categories: Vec<String>,
    /// The feature flags that are off.
    pub off: Off,
}

/// Rules of one layer. Each can only take away.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Layer {
    /// The most dangerous a tool may be.
    pub safety_limit: Option<Safety>,
    /// A tool must be in one of these.
    pub categories: Option<Vec<Word>>,
    /// A tool must fit one of these.
    pub allow: Option<Vec<Pattern>>,
    /// A tool must fit none of these.
    pub deny: Vec<Pattern>,
    /// Whether tools with effects are taken away.
    pub read_only: bool,
    /// Whether tools that reach the network are taken away.
    pub no_web: bool,
    /// Spec 3's flat permissions.
    pub permissions: Option<Permissions>,
    /// What is decided with more than names.
    pub rules: Vec<Rule>,
    /// Where it stands.
    #[serde(skip)]
    pub at: At,
}

/// A name in the file, with its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Word {
    /// The name.
    pub text: String,
    /// Its place.
    #[serde(skip)]
    pub at: At,
}

/// A group of the operator's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Group {
    /// What is in it: tools, sources, other groups.
    pub members: Vec<Pattern>,
    /// Where it stands.
    #[serde(skip)]
    pub at: At,
}

/// Spec 3's `ToolPermissions`: forbidden, then allowed by name, then by category; nothing else is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Permissions {
    /// Whether tools that reach the network may be used by their category.
    pub web_access: bool,
    /// The categories.
    pub allowed_categories: Vec<Word>,
    /// Tools that may be used whatever their category.
    pub allowed_tools: Vec<Pattern>,
    /// Tools that may not. Wins.
    pub forbidden_tools: Vec<Pattern>,
}

/// What a scope asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ScopeRule {
    /// Whether a call needs an approval. Nothing said: as shipped.
    pub requires_approval: Option<bool>,
    /// Folders, absolute: what a call names must lie beneath one. Only for `filesystem`.
    pub allowed_paths: Option<Vec<String>>,
}

/// What a rule does where it applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Effect {
    /// The call does not run.
    #[serde(rename = "deny")]
    Deny,
    /// The call needs an approval.
    #[serde(rename = "hold")]
    Hold,
}

/// A rule that looks at more than names.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rule {
    /// Its name, for explanations and records.
    pub name: String,
    /// What it does.
    pub effect: Effect,
    /// The tools it is for; all where absent.
    pub tools: Option<Vec<Pattern>>,
    /// A condition on the call, in CEL.
    pub when: Option<Word>,
    /// When it holds; always where absent.
    pub time: Option<Hours>,
    /// Tried when the rules are read.
    pub examples: Vec<Example>,
    /// Where it stands.
    #[serde(skip)]
    pub at: At,
}

/// A call that a rule's condition must be true of, or not.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Example {
    /// The arguments.
    pub args: Value,
    /// Facts beside them: `principal`, `tool`, `now`, `taint`, `via`, as conditions have them.
    pub facts: serde_json::Map<String, Value>,
    /// Whether the rule applies.
    pub applies: bool,
    /// Where it stands.
    #[serde(skip)]
    pub at: At,
}

impl Rules {
    /// Categories that every file may name: spec 3's, and spec 1's.
    pub const CATEGORIES: &'static [&'static str] = tool::traits::CATEGORIES;
    /// Spec 3's task types that use no network.
    pub const TASKS: &'static [&'static str] = &["math", "thinking", "instruction_precision"];

    /// SHA-256 over the rules: the same rules, the same value, wherever they stand in the file.
    pub fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        hash.update(b"toolkeep policy 2\n");
        hash.update(Json::of(self).bytes());
        Digest(hash.finalize().into())
    }

    /// All layers, with what each is called.
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
