//! The operator's rules. Here a value that was left empty is a fault, while it is as no key at all
//! elsewhere: nobody shall believe in a rule that is none.

mod layer;
mod rule;

use std::collections::BTreeMap;

use policy::{Group, Off, Policy, Rules, ScopeRule, Word};
use tool::Scope;

use super::Resolver;
use crate::environment::Environment;
use crate::field::Field;
use crate::low;
use crate::node::{Kind, Node, shorten};
use crate::{Fault, Place};

/// The most layers, groups or rules under one key.
const NAMES: usize = 1_000;
/// What the variables of feature flags begin with.
const VARIABLE: &str = "ORCHESTRATOR_";

/// A place, as policy has it.
fn at(place: Place) -> policy::At {
    policy::At { line: place.line, column: place.column }
}

impl Resolver<'_> {
    /// The rules. Whether they may be used is for the faults to say.
    pub(super) fn policy(&self, low: Option<&low::Policy>) -> Policy {
        let none = low::Policy::default();
        let low = low.unwrap_or(&none);
        let before = self.sink.count();
        let rules = Rules {
            global: self.global(low),
            orgs: self.layers(&low.orgs),
            roles: self.layers(&low.roles),
            default_role: low.default_role.given().map(word),
            personas: self.layers(&low.personas),
            tasks: self.layers(&low.tasks),
            groups: self.groups(&low.groups),
            scopes: self.scopes(&low.permissions),
            own_categories: self.own_categories(&low.own_categories),
            off: self.off(&low.features),
        };
        Policy::new(rules).unwrap_or_else(|slips| {
            for slip in slips {
                let place = slip
                    .at
                    .known()
                    .map_or(Place::TOP, |at| Place { line: at.line, column: at.column });
                self.sink.tell(place, slip.message, &slip.fix);
            }
            debug_assert!(self.sink.count() > before, "a policy that is refused says why");
            Policy::default()
        })
    }

    /// The values under a key that has names of the operator's.
    fn named<'a, T>(
        &self,
        field: &'a Field<BTreeMap<String, Field<T>>>,
    ) -> impl Iterator<Item = (&'a String, &'a T, Place)> {
        if let Some((all, place)) = field.given()
            && all.len() > NAMES
        {
            let told = format!("these are {} names; {NAMES} are allowed", all.len());
            self.sink.tell(place, told, "");
        }
        let all = field.get().into_iter().flatten().take(NAMES);
        all.filter_map(|(name, value)| value.given().map(|(value, place)| (name, value, place)))
    }

    fn groups(
        &self,
        low: &Field<BTreeMap<String, Field<Vec<Field<String>>>>>,
    ) -> BTreeMap<String, Group> {
        let named = low.get().into_iter().flatten().take(NAMES);
        let group = |(name, members): (&String, &Field<Vec<Field<String>>>)| {
            let (_, place) = members.given()?;
            let members = self.patterns(members).unwrap_or_default();
            Some((name.clone(), Group { members, at: at(place) }))
        };
        named.filter_map(group).collect()
    }

    fn scopes(
        &self,
        low: &Field<BTreeMap<String, Field<low::ScopeRule>>>,
    ) -> BTreeMap<Scope, ScopeRule> {
        let mut scopes = BTreeMap::new();
        for (name, rule, place) in self.named(low) {
            let scope = match name.parse::<Scope>() {
                Ok(scope) => scope,
                Err(error) => {
                    self.sink.tell(
                        place,
                        format!("unknown scope `{}`", shorten(name)),
                        &format!("use one of {}", error.allowed),
                    );
                    continue;
                }
            };
            if scope != Scope::Filesystem
                && let Some((_, place)) = rule.allowed_paths.given()
            {
                self.sink.tell(place, "`allowed_paths` is for `filesystem`", "remove it");
            }
            let paths = rule.allowed_paths.get().map(|paths| {
                paths.iter().filter_map(Field::given).filter_map(|it| self.folder(it)).collect()
            });
            let requires_approval = rule.requires_approval.get().copied();
            scopes.insert(scope, ScopeRule { requires_approval, allowed_paths: paths });
        }
        scopes
    }

    fn folder(&self, (text, place): (&String, Place)) -> Option<String> {
        let plain = text.starts_with('/') && !text.split('/').any(|part| part == "..");
        if plain && text.len() <= 4096 {
            return Some(text.clone());
        }
        let told = format!("`{}` is no absolute path", shorten(text));
        self.sink.tell(place, told, "write it whole, such as `/srv/files/`");
        None
    }

    fn own_categories(&self, low: &Field<Vec<Field<String>>>) -> Vec<String> {
        self.rules(low, layer::category).unwrap_or_default()
    }

    /// The flags that the file or the environment switches off.
    fn off(&self, low: &Field<BTreeMap<String, Field<bool>>>) -> Off {
        let mut off = Off::default();
        for (name, on, place) in self.named(low) {
            let mut tried = Off::default();
            match tried.switch_off(name) {
                Ok(()) if *on => {}
                // It was tried just now.
                Ok(()) => drop(off.switch_off(name)),
                Err(told) => {
                    self.sink.tell(place, told, &format!("use one of {}", Off::NAMES.join(", ")));
                }
            }
        }
        for name in Off::NAMES {
            let variable = format!("{VARIABLE}{}", name.to_uppercase());
            match flag(self.environment, &variable) {
                None | Some(Ok(true)) => {}
                // It is one of the names.
                Some(Ok(false)) => drop(off.switch_off(name)),
                Some(Err(text)) => {
                    let told = format!("`{}` is neither true nor false", shorten(&text));
                    self.sink.add(
                        Fault::flag(&variable, told).fix("say `true` or `false`, or unset it"),
                    );
                }
            }
        }
        off
    }

    /// Tells of every rule that holds nothing, after the variables are in.
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
                    let told = format!("`{}` holds nothing", shorten(&key.text));
                    self.sink.tell(key.place, told, fix);
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

fn word((text, place): (&String, Place)) -> Word {
    Word { text: text.clone(), at: at(place) }
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
