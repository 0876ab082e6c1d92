//! Compiled layers: groups expanded, conditions compiled, examples checked.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tool::{Digest, Safety, Wall};

use crate::at::shown;
use crate::condition::{Condition, Given};
use crate::groups::{WEB, WRITE};
use crate::lens::Seeded;
use crate::select::{Groups, Seen, Select};
use crate::{Effect, Layer, Permissions, Reason, Rule, Rules, Slip, Word};

/// Compiled rules of one layer.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    /// Definition in the file, for explanations.
    pub(crate) written: Layer,
    safety_limit: Option<Safety>,
    categories: Option<HashSet<String>>,
    allow: Option<Select>,
    deny: Select,
    permissions: Option<ReadyPermissions>,
    pub(crate) rules: Vec<Arc<ReadyRule>>,
}

#[derive(Debug)]
struct ReadyPermissions {
    web_access: bool,
    categories: HashSet<String>,
    allowed: Select,
    forbidden: Select,
}

/// A rule in compiled form.
#[derive(Debug)]
pub(crate) struct ReadyRule {
    /// Definition in the file.
    pub(crate) written: Rule,
    tools: Option<Select>,
    pub(crate) condition: Option<Condition>,
}

impl ReadyRule {
    /// Returns its name and a hash of its content: a changed rule under the same name is another
    /// rule.
    pub(crate) fn id(&self) -> String {
        let text = serde_json::to_vec(&self.written)
            .unwrap_or_else(|_| format!("{:?}", self.written).into_bytes());
        let hash = Digest(Sha256::digest(&text).into());
        let short: String = hash.to_string().chars().skip(7).take(16).collect();
        format!("rule {} {short}", self.written.name)
    }
}

/// Compiles layers and collects diagnostics.
pub(crate) struct Reading<'a> {
    pub(crate) groups: &'a Groups,
    pub(crate) own_categories: &'a [String],
    pub(crate) slips: Vec<Slip>,
}

impl Reading<'_> {
    pub(crate) fn layer(&mut self, layer: &Layer) -> Ready {
        let groups = self.groups;
        let lists = [layer.allow.as_deref().unwrap_or_default(), &layer.deny];
        for list in lists {
            groups.check(list, &mut self.slips);
        }
        let own = layer.permissions.as_ref().map(|permissions| self.permissions(permissions));
        let categories = layer.categories.as_deref().map(|words| self.categories(words));
        let mut names = BTreeSet::new();
        let rules = layer.rules.iter().filter_map(|rule| {
            if !names.insert(rule.name.as_str()) {
                let told = format!("there is a rule {} already in this layer", shown(&rule.name));
                self.slips.push(Slip::new(rule.at, told, "give it another name"));
            }
            self.rule(rule).map(Arc::new)
        });
        let rules = rules.collect();
        Ready {
            safety_limit: layer.safety_limit,
            categories,
            allow: layer.allow.as_deref().map(|list| groups.select(list)),
            deny: groups.select(&layer.deny),
            permissions: own,
            rules,
            written: layer.clone(),
        }
    }

    fn permissions(&mut self, written: &Permissions) -> ReadyPermissions {
        let groups = self.groups;
        for list in [&written.allowed_tools, &written.forbidden_tools] {
            groups.check(list, &mut self.slips);
        }
        ReadyPermissions {
            web_access: written.web_access,
            categories: self.categories(&written.allowed_categories),
            allowed: groups.select(&written.allowed_tools),
            forbidden: groups.select(&written.forbidden_tools),
        }
    }

    fn categories(&mut self, words: &[Word]) -> HashSet<String> {
        for Word { text, at } in words {
            let known =
                Rules::CATEGORIES.contains(&text.as_str()) || self.own_categories.contains(text);
            if !known {
                let told = format!("unknown category {}", shown(text));
                let all = Rules::CATEGORIES.join(", ");
                let fix = format!("known are {all}; name your own in `policy.own_categories`");
                self.slips.push(Slip::new(*at, told, fix));
            }
        }
        words.iter().map(|word| word.text.clone()).collect()
    }

    fn rule(&mut self, rule: &Rule) -> Option<ReadyRule> {
        if let Some(tools) = &rule.tools {
            self.groups.check(tools, &mut self.slips);
        }
        let condition = match &rule.when {
            None => None,
            Some(when) => match Condition::read(&when.text) {
                Ok(condition) => Some(condition),
                Err((told, fix)) => {
                    self.slips.push(Slip::new(when.at, told, fix));
                    return None;
                }
            },
        };
        let tools = rule.tools.as_deref().map(|tools| self.groups.select(tools));
        let ready = ReadyRule { written: rule.clone(), tools, condition };
        self.examples(&ready);
        Some(ready)
    }

    /// Evaluates the examples of a rule.
    fn examples(&mut self, rule: &ReadyRule) {
        for example in &rule.written.examples {
            let Some(condition) = &rule.condition else {
                let told = "an example of a rule without a condition";
                self.slips.push(Slip::new(example.at, told, "say `when`, or take the example out"));
                continue;
            };
            let given = Given::example(&example.args, &example.facts);
            let told = match given.and_then(|given| condition.holds(given.context())) {
                Ok(applies) if applies == example.applies => continue,
                Ok(true) => "the rule applies to this example, which says it does not".to_owned(),
                Ok(false) => {
                    "the rule does not apply to this example, which says it does".to_owned()
                }
                // An evaluation error denies, so for a rule that denies it counts as applied.
                Err(_) if example.applies && rule.written.effect == Effect::Deny => continue,
                Err(fault) => {
                    format!("the condition cannot be worked out on this example: {}", fault.0)
                }
            };
            let fix =
                "change the condition or the example; ask for what may be missing with `has(…)`";
            self.slips.push(Slip::new(example.at, told, fix));
        }
    }
}

impl Ready {
    /// Returns the reason why this layer hides a tool, if it does. Every check only restricts, so
    /// their order affects only the reported reason.
    pub(crate) fn refuses(&self, seen: &Seen<'_>, now: Wall, seeded: Seeded) -> Option<Reason> {
        let (traits, tool) = (seen.tool.traits, &self.written);
        let in_category =
            |wanted: &HashSet<String>| traits.categories.iter().any(|c| wanted.contains(c));
        let rescued = seeded == Seeded::AllowBeatsDeny
            && self.allow.as_ref().is_some_and(|allow| allow.fits(seen));
        let allow = self.allow.as_ref().filter(|_| {
            seeded != Seeded::EmptyAllowIsAll
                || tool.allow.as_ref().is_some_and(|list| !list.is_empty())
        });
        if self.deny.fits(seen) && !rescued {
            Some(Reason::DenyRule)
        } else if allow.is_some_and(|allow| !allow.fits(seen)) {
            Some(Reason::NotAllowed)
        } else if self.safety_limit.is_some_and(|limit| traits.safety > limit) {
            Some(Reason::SafetyLimit)
        } else if self.categories.as_ref().is_some_and(|wanted| !in_category(wanted)) {
            Some(Reason::Category)
        } else if tool.read_only && seen.marks & WRITE != 0 {
            Some(Reason::ReadOnly)
        } else if tool.no_web && seen.marks & WEB != 0 {
            Some(Reason::NoWeb)
        } else if let Some(permissions) = &self.permissions {
            permissions
                .refuse(seen, in_category(&permissions.categories))
                .or_else(|| self.timed(seen, now))
        } else {
            self.timed(seen, now)
        }
    }

    fn timed(&self, seen: &Seen<'_>, now: Wall) -> Option<Reason> {
        self.rules.iter().any(|rule| rule.hides(seen, now)).then_some(Reason::Rule)
    }

    /// Iterates over the rules that must be evaluated for each call of a tool.
    pub(crate) fn later<'a>(
        &'a self,
        seen: &'a Seen<'_>,
    ) -> impl Iterator<Item = &'a Arc<ReadyRule>> {
        self.rules.iter().filter(|rule| !rule.hiding() && rule.speaks_of(seen))
    }
}

impl ReadyPermissions {
    /// Checks in the tool-file registry's order: forbidden, allowed by name, by category.
    fn refuse(&self, seen: &Seen<'_>, in_category: bool) -> Option<Reason> {
        if self.forbidden.fits(seen) {
            Some(Reason::Forbidden)
        } else if self.allowed.fits(seen) {
            None
        } else if !in_category {
            Some(Reason::RoleCategory)
        } else if seen.marks & WEB != 0 && !self.web_access {
            Some(Reason::WebAccess)
        } else {
            None
        }
    }
}

impl ReadyRule {
    /// Returns true if the rule decides visibility and needs no call.
    fn hiding(&self) -> bool {
        self.written.effect == Effect::Deny && self.condition.is_none()
    }

    pub(crate) fn speaks_of(&self, seen: &Seen<'_>) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.fits(seen))
    }

    pub(crate) fn in_time(&self, now: Wall) -> bool {
        self.written.time.as_ref().is_none_or(|time| time.holds(now))
    }

    /// Returns true if the rule hides a tool now.
    pub(crate) fn hides(&self, seen: &Seen<'_>, now: Wall) -> bool {
        self.hiding() && self.speaks_of(seen) && self.in_time(now)
    }

    /// Returns the next time at which its visibility effect may change.
    pub(crate) fn changes(&self, now: Wall) -> Option<Wall> {
        self.written.time.as_ref().filter(|_| self.hiding())?.changes(now)
    }
}
