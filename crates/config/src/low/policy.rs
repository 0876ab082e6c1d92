//! The rules, as they are written.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use crate::field::Field;

/// Who may call what. What stands here holds for every key; what stands under `orgs`, `roles`,
/// `personas` and `tasks` besides for those that it names. Each rule only takes away: what it takes is
/// neither listed nor found, whatever level a key has.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Policy {
    /// The most dangerous a tool may be.
    pub(crate) safety_limit: Field<SafetyWord>,
    /// A tool must be in one of these categories; `[]`: none is.
    pub(crate) categories: Field<Vec<Field<String>>>,
    /// A tool must fit one of these patterns; `[]`: none does. A pattern is a tool's name, in which `*`
    /// stands for any characters, `source:NAME` for all tools of a source, or `group:NAME` for a group:
    /// read, write, code, data, web, math, all, or one of `groups`.
    pub(crate) allow: Field<Vec<Field<String>>>,
    /// A tool must fit none of these patterns. Wins over `allow`.
    pub(crate) deny: Field<Vec<Field<String>>>,
    /// Whether tools with effects are taken away.
    pub(crate) read_only: Field<bool>,
    /// Whether tools that reach the network are taken away.
    pub(crate) no_web: Field<bool>,
    /// Rules that look at more than names.
    pub(crate) rules: Field<Vec<Field<Rule>>>,
    /// Groups of your own, by name: patterns.
    pub(crate) groups: Field<BTreeMap<String, Field<Vec<Field<String>>>>>,
    /// For the keys of an organisation. One other than `default` has only what its `allow` names.
    pub(crate) orgs: Field<BTreeMap<String, Field<Layer>>>,
    /// For the keys with a role. Where there are any, a role that is not here has nothing.
    pub(crate) roles: Field<BTreeMap<String, Field<Layer>>>,
    /// The role of keys without one.
    pub(crate) default_role: Field<String>,
    /// For the keys with a persona, beside its modules.
    pub(crate) personas: Field<BTreeMap<String, Field<Layer>>>,
    /// For calls that say they belong to a task of this type.
    pub(crate) tasks: Field<BTreeMap<String, Field<Layer>>>,
    /// What tools that reach for the network, files, a shell or processor time need: `network`,
    /// `filesystem`, `shell`, `compute`.
    pub(crate) permissions: Field<BTreeMap<String, Field<ScopeRule>>>,
    /// Categories of your tools beside the known ones.
    pub(crate) own_categories: Field<Vec<Field<String>>>,
    /// Feature flags: one that is off only takes away.
    pub(crate) features: Field<BTreeMap<String, Field<bool>>>,
}

/// Rules for some keys. Each only takes away.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Layer {
    /// The most dangerous a tool may be.
    pub(crate) safety_limit: Field<SafetyWord>,
    /// A tool must be in one of these categories; `[]`: none is.
    pub(crate) categories: Field<Vec<Field<String>>>,
    /// A tool must fit one of these patterns; `[]`: none does. A pattern is a tool's name, in which `*`
    /// stands for any characters, `source:NAME` for all tools of a source, or `group:NAME` for a group:
    /// read, write, code, data, web, math, all, or one of `groups`.
    pub(crate) allow: Field<Vec<Field<String>>>,
    /// A tool must fit none of these patterns. Wins over `allow`.
    pub(crate) deny: Field<Vec<Field<String>>>,
    /// Whether tools with effects are taken away.
    pub(crate) read_only: Field<bool>,
    /// Whether tools that reach the network are taken away.
    pub(crate) no_web: Field<bool>,
    /// Rules that look at more than names.
    pub(crate) rules: Field<Vec<Field<Rule>>>,
    /// Whether tools that reach the network may be used by their category.
    pub(crate) web_access: Field<bool>,
    /// Categories of which tools may be used. Where this, `allowed_tools`, `forbidden_tools` or
    /// `web_access` stands, nothing else may be.
    pub(crate) allowed_categories: Field<Vec<Field<String>>>,
    /// Tools that may be used whatever their category.
    pub(crate) allowed_tools: Field<Vec<Field<String>>>,
    /// Tools that may not be used. Wins.
    pub(crate) forbidden_tools: Field<Vec<Field<String>>>,
}

/// What a scope needs.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ScopeRule {
    /// For people.
    pub(crate) description: Field<String>,
    /// Whether a call needs an approval. Default: for `shell`, and for `filesystem` where a call has
    /// effects.
    pub(crate) requires_approval: Field<bool>,
    /// Folders, absolute, beneath which everything must lie that a call names. For `filesystem`.
    pub(crate) allowed_paths: Field<Vec<Field<String>>>,
}

/// A rule.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["name", "effect"]))]
pub(crate) struct Rule {
    /// Its name, for explanations.
    pub(crate) name: Field<String>,
    /// What becomes of a call that it applies to. `deny` without `when` takes the tool away.
    pub(crate) effect: Field<EffectWord>,
    /// The tools it is for, as in `deny`; all where absent.
    pub(crate) tools: Field<Vec<Field<String>>>,
    /// A condition in CEL over `args`, `principal`, `tool`, `now`, `taint` and `via`. Where it cannot be
    /// worked out, the call is denied.
    pub(crate) when: Field<String>,
    /// When it holds; always where absent.
    pub(crate) time: Field<Time>,
    /// Calls that the condition must be true of, or not; tried when the file is read.
    pub(crate) examples: Field<Vec<Field<Example>>>,
}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EffectWord {
    /// The call does not run.
    Deny,
    /// The call needs an approval.
    Hold,
}

/// Days and hours. What is absent is no limit.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Time {
    /// `mon` to `sun`.
    pub(crate) days: Field<Vec<Field<String>>>,
    /// Such as `09:00-17:30` or `22:00-06:00`.
    pub(crate) hours: Field<String>,
    /// Such as `Europe/Berlin`. Default: UTC.
    pub(crate) zone: Field<String>,
    /// From then on, such as `2026-12-24T18:00:00Z`.
    pub(crate) since: Field<String>,
    /// Up to then.
    pub(crate) until: Field<String>,
}

/// A call that a condition is tried on.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["applies"]))]
pub(crate) struct Example {
    /// Its arguments.
    pub(crate) args: Field<Any>,
    /// Who makes it: `org`, `subject`, `key`, `level`, `roles`, `persona`, `agent`.
    pub(crate) principal: Field<Any>,
    /// The tool: `name`, `source`, `level`, `safety`, `categories`, `scopes`, `effects`, `destructive`.
    pub(crate) tool: Field<Any>,
    /// When, such as `2026-12-24T18:00:00Z`.
    pub(crate) now: Field<Any>,
    /// What the session has seen: `untrusted`, `private`.
    pub(crate) taint: Field<Any>,
    /// `direct` or `chain`.
    pub(crate) via: Field<Any>,
    /// Whether the rule applies to it.
    pub(crate) applies: Field<bool>,
}

/// Any value.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Any(pub(crate) serde_json::Value);

impl<'de> Deserialize<'de> for Any {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde_json::Value::deserialize(deserializer).map(Self)
    }
}

impl JsonSchema for Any {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Any".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({})
    }
}

/// How much harm a call can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SafetyWord {
    /// What runs at once.
    Safe,
    /// What runs, and says so in the log and the record.
    Cautious,
    /// The same as `cautious`.
    Moderate,
    /// What needs an approval.
    Dangerous,
}
