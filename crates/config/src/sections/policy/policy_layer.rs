//! One layer of the policy: rules for every key, or for the named ones.

use std::collections::BTreeMap;

use policy::{FilePosition, LocatedName, PolicyLayer, PolicyRule, ToolPattern, ToolPermissions};
use tool::SafetyLevel;

use super::super::shared_keywords::safety_level;
use super::policy_rule::{RuleKeys, policy_rule};
use super::{MAX_RULES, check_name_count, located_name, policy_position};
use crate::config_value::{ConfigValue, ValueParser};
use crate::section::{flattened, section, subsection};
use crate::value_parsers::{boolean, bounded_list, list, mapping, text};
use crate::yaml_tree::{NodeKind, shorten_text};

/// The most characters of a category, as in tool files.
const MAX_CATEGORY_CHARS: usize = 64;
/// The most characters of the name of a role, an organisation, a persona or a task type.
const MAX_NAME_CHARS: usize = 64;

section! {
    /// Rules for every key, or for the named ones.
    #[derive(Default)]
    pub(super) struct LayerKeys as "LayerKeys" {
        /// The highest safety level of an allowed tool. Default: no limit.
        safety_limit: Option<SafetyLevel> = safety_level();
        /// The allowed categories of tools; `[]` allows none. Default: all.
        categories: Option<Vec<LocatedName>> = category_list();
        /// Patterns of allowed tools; `[]` allows none. Default: all. A pattern is a tool's name with `*` for any
        /// characters, `source:NAME` for all tools of a source, or `group:NAME` for a group. The groups are read, write,
        /// code, data, web, math, all, and those of `groups`.
        allow: Option<Vec<ToolPattern>> = tool_patterns();
        /// Patterns of denied tools. It overrides `allow`.
        deny: Vec<ToolPattern> = tool_patterns();
        /// Whether tools with effects are denied. Default: `false`.
        read_only: bool = boolean();
        /// Whether tools that use the network are denied. Default: `false`.
        no_web: bool = boolean();
        /// Rules with conditions, time windows and approvals.
        rules: Vec<PolicyRule> =
            list(subsection::<RuleKeys>().map(policy_rule)).map(check_rule_count);
    }
}

section! {
    /// Rules for the named keys. Each only restricts.
    struct NamedLayerKeys as "Layer" {
        /// Rules that every layer can have.
        layer as "..": LayerKeys = flattened::<LayerKeys>();
        /// Whether tools that use the network are allowed by their category. Default: `false`.
        web_access: bool = boolean();
        /// The allowed categories of tools. If this, `allowed_tools`, `forbidden_tools` or `web_access` is set, all
        /// other tools are denied.
        allowed_categories: Vec<LocatedName> = category_list();
        /// Patterns of tools that are allowed in any category.
        allowed_tools: Vec<ToolPattern> = tool_patterns();
        /// Patterns of denied tools. It overrides the other keys.
        forbidden_tools: Vec<ToolPattern> = tool_patterns();
    }
}

impl LayerKeys {
    pub(super) fn into_layer(
        self,
        permissions: Option<ToolPermissions>,
        position: FilePosition,
    ) -> PolicyLayer {
        let Self { safety_limit, categories, allow, deny, read_only, no_web, rules } = self;
        PolicyLayer {
            safety_limit,
            categories,
            allow,
            deny,
            is_read_only: read_only,
            denies_network: no_web,
            permissions,
            rules,
            position,
        }
    }
}

/// Layers by the names of their keys.
pub(super) fn policy_layers() -> impl ValueParser<Output = BTreeMap<String, PolicyLayer>> {
    mapping(subsection::<NamedLayerKeys>().map(named_layer))
        .map(check_name_count)
        .map(check_layer_names)
}

fn named_layer(value: ConfigValue<'_>, keys: NamedLayerKeys) -> PolicyLayer {
    let NamedLayerKeys { layer, web_access, allowed_categories, allowed_tools, forbidden_tools } =
        keys;
    // Spec 3's `ToolPermissions`, if any of its keys is set.
    let keys = ["web_access", "allowed_categories", "allowed_tools", "forbidden_tools"];
    let permissions = keys.iter().any(|key| value.has_member(key)).then_some(ToolPermissions {
        allows_web: web_access,
        allowed_categories,
        allowed_tools,
        forbidden_tools,
    });
    layer.into_layer(permissions, policy_position(value))
}

fn check_layer_names(
    value: ConfigValue<'_>,
    layers: BTreeMap<String, PolicyLayer>,
) -> BTreeMap<String, PolicyLayer> {
    let fits = |c: char| c.is_alphanumeric() || "_.-".contains(c);
    for name in layers.keys() {
        if !(1..=MAX_NAME_CHARS).contains(&name.chars().count()) || !name.chars().all(fits) {
            let help = format!(
                "use letters, digits, `_`, `.` and `-`, at most {MAX_NAME_CHARS} characters"
            );
            let layer = value.find_member(name).unwrap_or(value);
            layer.report(format!("invalid name `{}`", shorten_text(name)), &help);
        }
    }
    layers
}

/// Reports a list of more rules than are allowed.
pub(super) fn check_rule_count<T>(value: ConfigValue<'_>, rules: Vec<T>) -> Vec<T> {
    if let NodeKind::List(items) = &value.node.kind
        && items.len() > MAX_RULES
    {
        let message =
            format!("{} rules are too many; at most {MAX_RULES} are allowed", items.len());
        value.report(message, "combine names with `*`");
    }
    rules
}

/// A list of tool patterns.
pub(super) fn tool_patterns() -> impl ValueParser<Output = Vec<ToolPattern>> {
    bounded_list(MAX_RULES, text().and_then(tool_pattern)).map(check_rule_count)
}

fn category_list() -> impl ValueParser<Output = Vec<LocatedName>> {
    bounded_list(MAX_RULES, text().convert_text(parse_category).map(located_name))
        .map(check_rule_count)
}

pub(super) fn tool_pattern(value: ConfigValue<'_>, text: String) -> Option<ToolPattern> {
    let report = |error: String| {
        let (message, help) = error.split_once(": use ").unwrap_or((&error, ""));
        value.report(message, &format!("use {help}"));
    };
    Some(ToolPattern::new(text).map_err(report).ok()?.with_position(policy_position(value)))
}

/// Parses a category as in tool files, to lower case.
pub(super) fn parse_category(value: ConfigValue<'_>, text: &str) -> Option<String> {
    let word = text.trim().to_lowercase();
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    if (1..=MAX_CATEGORY_CHARS).contains(&word.chars().count()) && word.chars().all(fits) {
        return Some(word);
    }
    let help = format!("use letters, digits, `_` and `-`, at most {MAX_CATEGORY_CHARS} characters");
    value.report(format!("invalid category `{}`", shorten_text(text)), &help);
    None
}
