//! The operator's rules. Here a value that was left empty is a fault, while it is as no key at all
//! elsewhere: nobody shall believe in a rule that is none.

mod layer;
mod rule;

use std::collections::BTreeMap;

use policy::{Group, Layer, Off, Policy, Rules, ScopeRule, Word};
use tool::Scope;

use self::layer::{LayerKeys, bounded, category, layers, pattern};
use crate::context::FileContext;
use crate::environment::Environment;
use crate::node::{Kind, Node, shorten};
use crate::parsers::{list, list_of, map, text, truth};
use crate::section::{flattened, section, subsection};
use crate::value::{ConfigValue, ValueParser as _};
use crate::{Fault, Place};

/// The most rules of one list: each is tried on every tool.
const RULES: usize = 1_000;
/// The most layers, groups or rules under one key.
const NAMES: usize = 1_000;
/// What the variables of feature flags begin with.
const VARIABLE: &str = "ORCHESTRATOR_";

section! {
    /// Who may call what. What stands here holds for every key; what stands under `orgs`, `roles`,
    /// `personas` and `tasks` besides for those that it names. Each rule only takes away: what it takes is
    /// neither listed nor found, whatever level a key has.
    #[derive(Default)]
    pub(crate) struct PolicyKeys as "Policy" {
        /// What holds for every key.
        global as "..": LayerKeys = flattened::<LayerKeys>();
        /// Groups of your own, by name: patterns.
        groups: BTreeMap<String, Group> = map(list_of(RULES, text().then(pattern)).map(group)).map(few);
        /// For the keys of an organisation. One other than `default` has only what its `allow` names.
        orgs: BTreeMap<String, Layer> = layers();
        /// For the keys with a role. Where there are any, a role that is not here has nothing.
        roles: BTreeMap<String, Layer> = layers();
        /// The role of keys without one.
        default_role: Option<Word> = text().map(word);
        /// For the keys with a persona, beside its modules.
        personas: BTreeMap<String, Layer> = layers();
        /// For calls that say they belong to a task of this type.
        tasks: BTreeMap<String, Layer> = layers();
        /// What tools that reach for the network, files, a shell or processor time need: `network`,
        /// `filesystem`, `shell`, `compute`.
        permissions: BTreeMap<Scope, ScopeRule> = map(subsection::<ScopeKeys>()).map(few).map(scopes);
        /// Categories of your tools beside the known ones.
        own_categories: Vec<String> = list_of(RULES, text().convert_text(category)).map(bounded);
        /// Feature flags: one that is off only takes away.
        features: Off = map(truth()).map(few).map(features);
    }
}

section! {
    /// What a scope needs.
    struct ScopeKeys as "ScopeRule" {
        /// For people.
        _description as "description": Option<String> = text();
        /// Whether a call needs an approval. Default: for `shell`, and for `filesystem` where a call has
        /// effects.
        requires_approval: Option<bool> = truth();
        /// Folders, absolute, beneath which everything must lie that a call names. For `filesystem`.
        allowed_paths: Option<Vec<String>> = list(text().then(folder));
    }
}

impl FileContext<'_> {
    /// The rules. Whether they may be used is for the faults to say.
    pub(crate) fn policy(&self, keys: PolicyKeys) -> Policy {
        let faults = self.sink.count();
        let rules = Rules {
            global: keys.global.layer(None, policy::At::default()),
            orgs: keys.orgs,
            roles: keys.roles,
            default_role: keys.default_role,
            personas: keys.personas,
            tasks: keys.tasks,
            groups: keys.groups,
            scopes: keys.permissions,
            own_categories: keys.own_categories,
            off: self.features_of_environment(keys.features),
        };
        Policy::new(rules).unwrap_or_else(|slips| {
            for slip in slips {
                let place = |at: policy::At| Place { line: at.line, column: at.column };
                let place = slip.at.known().map_or(Place::TOP, place);
                self.sink.tell(place, slip.message, &slip.fix);
            }
            debug_assert!(self.sink.count() > faults, "a policy that is refused says why");
            Policy::default()
        })
    }

    fn features_of_environment(&self, mut off: Off) -> Off {
        for name in Off::NAMES {
            let variable = format!("{VARIABLE}{}", name.to_uppercase());
            match flag(self.environment, &variable) {
                None | Some(Ok(true)) => {}
                // It is one of the names.
                Some(Ok(false)) => drop(off.switch_off(name)),
                Some(Err(text)) => {
                    let message = format!("`{}` is neither true nor false", shorten(&text));
                    let fault = Fault::flag(&variable, message);
                    self.sink.add(fault.fix("say `true` or `false`, or unset it"));
                }
            }
        }
        off
    }

    /// Reports every rule that holds nothing, after the variables are in.
    pub(crate) fn empty_rules(&self, file: &Node) {
        let Some(policy) = file.get("policy") else { return };
        if policy.kind == Kind::Null {
            let fix = "remove it, or say a rule";
            return self.sink.tell(policy.place, "`policy` holds nothing", fix);
        }
        self.empty_within(policy);
    }

    fn empty_within(&self, node: &Node) {
        let Kind::Map(entries) = &node.kind else { return };
        for (key, value) in entries {
            let fix = match key.text.as_str() {
                "safety_limit" => "remove it, or say `safe`, `cautious` or `dangerous`",
                // A call may well have an argument that holds nothing.
                "examples" => continue,
                _ => "remove it, or write `[]` for an empty list",
            };
            match &value.kind {
                Kind::Null => {
                    let message = format!("`{}` holds nothing", shorten(&key.text));
                    self.sink.tell(key.place, message, fix);
                }
                Kind::List(items) => {
                    for item in items {
                        if item.kind == Kind::Null {
                            self.sink.tell(item.place, "this item holds nothing", "remove it");
                        }
                        self.empty_within(item);
                    }
                }
                Kind::Map(_) => self.empty_within(value),
                Kind::Broken | Kind::Scalar(_) => {}
            }
        }
    }
}

/// The place of a value, as policy has it.
fn at(value: ConfigValue<'_>) -> policy::At {
    let Place { line, column } = value.node.place;
    policy::At { line, column }
}

fn word(value: ConfigValue<'_>, text: String) -> Word {
    Word { text, at: at(value) }
}

fn group(value: ConfigValue<'_>, members: Vec<policy::Pattern>) -> Group {
    Group { members: bounded(value, members), at: at(value) }
}

/// No more names than are allowed.
fn few<T>(value: ConfigValue<'_>, named: BTreeMap<String, T>) -> BTreeMap<String, T> {
    if named.len() > NAMES {
        value.fault(format!("these are {} names; {NAMES} are allowed", named.len()), "");
    }
    named
}

fn scopes(
    value: ConfigValue<'_>,
    rules: BTreeMap<String, ScopeKeys>,
) -> BTreeMap<Scope, ScopeRule> {
    let mut scopes = BTreeMap::new();
    for (name, rule) in rules {
        let place = value.member(&name).unwrap_or(value);
        match name.parse::<Scope>() {
            Ok(scope) => {
                if scope != Scope::Filesystem
                    && let Some(paths) = place.member("allowed_paths")
                {
                    paths.fault("`allowed_paths` is for `filesystem`", "remove it");
                }
                let ScopeKeys { requires_approval, allowed_paths, .. } = rule;
                scopes.insert(scope, ScopeRule { requires_approval, allowed_paths });
            }
            Err(error) => {
                let fix = format!("use one of {}", error.allowed);
                place.fault(format!("unknown scope `{}`", shorten(&name)), &fix);
            }
        }
    }
    scopes
}

fn folder(value: ConfigValue<'_>, text: String) -> Option<String> {
    let plain = text.starts_with('/') && !text.split('/').any(|part| part == "..");
    if plain && text.len() <= 4096 {
        return Some(text);
    }
    let message = format!("`{}` is no absolute path", shorten(&text));
    value.fault(message, "write it whole, such as `/srv/files/`");
    None
}

/// The flags that the file switches off.
fn features(value: ConfigValue<'_>, flags: BTreeMap<String, bool>) -> Off {
    let mut off = Off::default();
    for (name, on) in flags {
        let before = off;
        if let Err(message) = off.switch_off(&name) {
            let fix = format!("use one of {}", Off::NAMES.join(", "));
            value.member(&name).unwrap_or(value).fault(message, &fix);
        }
        if on {
            off = before;
        }
    }
    off
}

/// What a variable of a flag says, as spec 3's program reads it.
fn flag(environment: &Environment, variable: &str) -> Option<Result<bool, String>> {
    let text = environment.get(variable)?;
    Some(match text.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" | "" => Ok(false),
        _ => Err(text.to_owned()),
    })
}

#[cfg(test)]
mod tests;
