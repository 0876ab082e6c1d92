//! The policy: rules that restrict calls.
//!
//! Here an empty value is an error; elsewhere it counts as absent. Otherwise an operator could rely on a rule that does
//! not exist.

mod policy_layer;
mod policy_rule;

use std::collections::BTreeMap;

use policy::{
    DisabledFeatures, LocatedName, Policy, PolicyDocument, PolicyLayer, ScopeRule, ToolGroup,
};
use tool::AccessScope;

use self::policy_layer::{
    LayerKeys, check_rule_count, parse_category, policy_layers, tool_pattern,
};
use crate::config_value::{ConfigValue, ValueParser as _};
use crate::environment::Environment;
use crate::file_context::FileContext;
use crate::section::{flattened, section, subsection};
use crate::value_parsers::{boolean, bounded_list, list, mapping, text};
use crate::yaml_tree::{NodeKind, YamlNode, shorten_text};
use crate::{ConfigError, ConfigPosition};

/// The most rules of one list. Each is evaluated for every tool.
const MAX_RULES: usize = 1_000;
/// The most layers, groups or rules under one key.
const MAX_NAMED_ENTRIES: usize = 1_000;
/// The prefix of the environment variables of feature flags.
const FEATURE_VARIABLE_PREFIX: &str = "ORCHESTRATOR_";

section! {
    /// The policy: which keys may make which calls. Rules here apply to every key; rules under `orgs`, `roles`,
    /// `personas` and `tasks` apply to the named ones as well. Each rule only restricts. A denied tool is neither listed
    /// nor found, at any level of the key.
    #[derive(Default)]
    pub(crate) struct PolicyKeys as "Policy" {
        /// Rules for every key.
        global as "..": LayerKeys = flattened::<LayerKeys>();
        /// Your own groups of tools: lists of patterns, by name.
        groups: BTreeMap<String, ToolGroup> =
            mapping(bounded_list(MAX_RULES, text().and_then(tool_pattern)).map(tool_group)).map(check_name_count);
        /// Rules for the keys of an organisation, by its name. One other than `default` may only use the tools of its `allow`.
        orgs: BTreeMap<String, PolicyLayer> = policy_layers();
        /// Rules for the keys with a role, by its name. If any role is listed, an unlisted one may use no tool.
        roles: BTreeMap<String, PolicyLayer> = policy_layers();
        /// The role of keys without a role. Default: none.
        default_role: Option<LocatedName> = text().map(located_name);
        /// Rules for the keys with a persona, by its name, besides its modules.
        personas: BTreeMap<String, PolicyLayer> = policy_layers();
        /// Rules for calls of a task type, by its name.
        tasks: BTreeMap<String, PolicyLayer> = policy_layers();
        /// Requirements of tools that use a scope, by its name: `network`, `filesystem`, `shell` or `compute`.
        permissions: BTreeMap<AccessScope, ScopeRule> =
            mapping(subsection::<ScopeKeys>()).map(check_name_count).map(scope_rules);
        /// Categories of your tools besides the built-in ones.
        own_categories: Vec<String> =
            bounded_list(MAX_RULES, text().convert_text(parse_category)).map(check_rule_count);
        /// Feature flags: `false` disables the feature. The variable `ORCHESTRATOR_FEATURE` can disable one too.
        features: DisabledFeatures =
            mapping(boolean()).map(check_name_count).map(disabled_features);
    }
}

section! {
    /// Requirements of tools that use a scope.
    struct ScopeKeys as "ScopeRule" {
        /// A note for readers of the file.
        _description as "description": Option<String> = text();
        /// Whether a call needs an approval. Default: `true` for `shell`, and for `filesystem` if the call has effects.
        requires_approval: Option<bool> = boolean();
        /// Absolute folders that contain every path a call may name. Only for `filesystem`.
        allowed_paths: Option<Vec<String>> = list(text().and_then(absolute_folder));
    }
}

impl FileContext<'_> {
    /// Compiles the policy. The result is only usable if no error is reported.
    pub(crate) fn compile_policy(&self, keys: PolicyKeys) -> Policy {
        let errors_before = self.errors.error_count();
        let document = PolicyDocument {
            global: keys.global.into_layer(None, policy::FilePosition::default()),
            orgs: keys.orgs,
            roles: keys.roles,
            default_role: keys.default_role,
            personas: keys.personas,
            task_layers: keys.tasks,
            groups: keys.groups,
            scopes: keys.permissions,
            own_categories: keys.own_categories,
            disabled_features: self.disable_features_by_variables(keys.features),
        };
        Policy::new(document).unwrap_or_else(|policy_errors| {
            for error in policy_errors {
                let position =
                    error.position.if_in_file().map_or(ConfigPosition::START, |position| {
                        ConfigPosition { line: position.line, column: position.column }
                    });
                self.errors.report(position, error.message, &error.help);
            }
            debug_assert!(
                self.errors.error_count() > errors_before,
                "a rejected policy has errors"
            );
            Policy::default()
        })
    }

    fn disable_features_by_variables(&self, mut disabled: DisabledFeatures) -> DisabledFeatures {
        for name in DisabledFeatures::NAMES {
            let variable = format!("{FEATURE_VARIABLE_PREFIX}{}", name.to_uppercase());
            match parse_feature_variable(self.environment, &variable) {
                None | Some(Ok(true)) => {}
                // Cannot fail: the name is one of the known features.
                Some(Ok(false)) => drop(disabled.disable_feature(name)),
                Some(Err(text)) => {
                    let message = format!("invalid boolean `{}`", shorten_text(&text));
                    let error = ConfigError::for_flag(&variable, message);
                    self.errors
                        .push_error(error.with_help("set it to `true` or `false`, or unset it"));
                }
            }
        }
        disabled
    }

    /// Reports every empty value of the policy, after variable expansion.
    pub(crate) fn report_empty_policy_keys(&self, file: &YamlNode) {
        let Some(policy) = file.find_value("policy") else { return };
        if policy.kind == NodeKind::Null {
            let help = "remove it, or add a rule";
            return self.errors.report(policy.position, "`policy` is empty", help);
        }
        self.report_empty_keys_in(policy);
    }

    fn report_empty_keys_in(&self, node: &YamlNode) {
        let NodeKind::Map(entries) = &node.kind else { return };
        for (key, value) in entries {
            let help = match key.text.as_str() {
                "safety_limit" => "remove it, or write `safe`, `cautious` or `dangerous`",
                // The arguments of an example call may be null.
                "examples" => continue,
                _ => "remove it, or write `[]` for an empty list",
            };
            match &value.kind {
                NodeKind::Null => {
                    let message = format!("`{}` is empty", shorten_text(&key.text));
                    self.errors.report(key.position, message, help);
                }
                NodeKind::List(items) => {
                    for item in items {
                        if item.kind == NodeKind::Null {
                            self.errors.report(item.position, "this item is empty", "remove it");
                        }
                        self.report_empty_keys_in(item);
                    }
                }
                NodeKind::Map(_) => self.report_empty_keys_in(value),
                NodeKind::Invalid | NodeKind::Scalar(_) => {}
            }
        }
    }
}

/// Converts the position of a value.
pub(super) fn policy_position(value: ConfigValue<'_>) -> policy::FilePosition {
    let ConfigPosition { line, column } = value.node.position;
    policy::FilePosition { line, column }
}

fn located_name(value: ConfigValue<'_>, text: String) -> LocatedName {
    LocatedName { text, position: policy_position(value) }
}

fn tool_group(value: ConfigValue<'_>, members: Vec<policy::ToolPattern>) -> ToolGroup {
    ToolGroup { members: check_rule_count(value, members), position: policy_position(value) }
}

/// Reports more names than are allowed.
fn check_name_count<T>(value: ConfigValue<'_>, named: BTreeMap<String, T>) -> BTreeMap<String, T> {
    let count = named.len();
    if count > MAX_NAMED_ENTRIES {
        value.report(
            format!("{count} names are too many; at most {MAX_NAMED_ENTRIES} are allowed"),
            "",
        );
    }
    named
}

fn scope_rules(
    value: ConfigValue<'_>,
    rules: BTreeMap<String, ScopeKeys>,
) -> BTreeMap<AccessScope, ScopeRule> {
    let mut scopes = BTreeMap::new();
    for (name, rule) in rules {
        let scope = value.find_member(&name).unwrap_or(value);
        match name.parse::<AccessScope>() {
            Ok(access_scope) => {
                if access_scope != AccessScope::Filesystem
                    && let Some(paths) = scope.find_member("allowed_paths")
                {
                    paths.report("`allowed_paths` is only for `filesystem`", "remove it");
                }
                let ScopeKeys { requires_approval, allowed_paths, .. } = rule;
                scopes.insert(access_scope, ScopeRule { requires_approval, allowed_paths });
            }
            Err(error) => {
                let help = format!("use one of {}", error.allowed);
                scope.report(format!("unknown scope `{}`", shorten_text(&name)), &help);
            }
        }
    }
    scopes
}

fn absolute_folder(value: ConfigValue<'_>, text: String) -> Option<String> {
    let is_absolute = text.starts_with('/') && !text.split('/').any(|part| part == "..");
    if is_absolute && text.len() <= 4096 {
        return Some(text);
    }
    let message = format!("`{}` is not an absolute path", shorten_text(&text));
    value.report(message, "write it from the root and without `..`, such as `/srv/files/`");
    None
}

/// Reads the features that the file disables.
fn disabled_features(value: ConfigValue<'_>, flags: BTreeMap<String, bool>) -> DisabledFeatures {
    let mut disabled = DisabledFeatures::default();
    for (name, is_enabled) in flags {
        let before = disabled;
        if let Err(message) = disabled.disable_feature(&name) {
            let help = format!("use one of {}", DisabledFeatures::NAMES.join(", "));
            value.find_member(&name).unwrap_or(value).report(message, &help);
        }
        if is_enabled {
            disabled = before;
        }
    }
    disabled
}

/// Parses the environment variable of a feature, as the program of spec 3 does.
fn parse_feature_variable(
    environment: &Environment,
    variable: &str,
) -> Option<Result<bool, String>> {
    let text = environment.get(variable)?;
    Some(match text.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" | "" => Ok(false),
        _ => Err(text.to_owned()),
    })
}

#[cfg(test)]
mod tests;
