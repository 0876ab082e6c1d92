//! The validated, compiled policy and its digest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use identity::RightsClass;
use tool::{CallerType, Digest, Wall};

use crate::at::shown;
use crate::pattern::Of;
use crate::ready::{Reading, Ready, ReadyRule};
use crate::select::Groups;
use crate::{Layer, Lens, Pattern, Rules, Slip};

/// Maximum number of rules of one list: each may be tried on every tool.
const LIST: usize = 1_000;

/// The compiled policy with its digest, which every record carries. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Policy(Arc<Parts>);

#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) rules: Rules,
    digest: Digest,
    pub(crate) groups: Groups,
    pub(crate) global: Ready,
    pub(crate) orgs: BTreeMap<String, Ready>,
    pub(crate) roles: BTreeMap<String, Ready>,
    pub(crate) personas: BTreeMap<String, Ready>,
    pub(crate) tasks: BTreeMap<String, Ready>,
    /// True if any rule hides tools by time; read on every call.
    times: bool,
}

impl Policy {
    /// Validates and compiles a policy document atomically.
    ///
    /// # Errors
    /// All diagnostics of the document.
    pub fn new(rules: Rules) -> Result<Self, Vec<Slip>> {
        let mut slips = Vec::new();
        let groups = Groups::read(&rules.groups, &mut slips);
        let own_categories = rules.own_categories.as_slice();
        let mut reading = Reading { groups: &groups, own_categories, slips };
        let global = reading.layer(&rules.global);
        let mut all = |layers: &BTreeMap<String, Layer>| -> BTreeMap<String, Ready> {
            let ready = layers.iter().map(|(name, layer)| (name.clone(), reading.layer(layer)));
            ready.collect()
        };
        let (orgs, roles) = (all(&rules.orgs), all(&rules.roles));
        let (personas, tasks) = (all(&rules.personas), all(&rules.tasks));
        let mut slips = reading.slips;
        if let Some(role) =
            rules.default_role.as_ref().filter(|role| !roles.contains_key(&role.text))
        {
            let told = format!("unknown role {}", shown(&role.text));
            slips.push(Slip::new(role.at, told, "say it in `policy.roles`"));
        }
        bounds(&rules, &mut slips);
        if !slips.is_empty() {
            slips.sort_by_key(|slip| (slip.at.line, slip.at.column));
            return Err(slips);
        }
        let digest = rules.digest();
        let times = false;
        let parts = Parts { rules, digest, groups, global, orgs, roles, personas, tasks, times };
        let times = parts.hiding_changes(Wall(0)).next().is_some();
        Ok(Self(Arc::new(Parts { times, ..parts })))
    }

    /// Returns the digest that identifies the policy in records.
    pub fn digest(&self) -> Digest {
        self.0.digest
    }

    /// Returns true if both are the same instance: results computed under one hold under the other.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the policy document.
    pub fn rules(&self) -> &Rules {
        &self.0.rules
    }

    pub(crate) fn groups(&self) -> &Groups {
        &self.0.groups
    }

    #[cfg(test)]
    pub(crate) fn parts(&self) -> &Parts {
        &self.0
    }

    /// Returns the effective policy for one rights class and caller type, at one time.
    pub fn lens<'a>(&'a self, rights: &'a RightsClass, by: CallerType, now: Wall) -> Lens<'a> {
        Lens::new(&self.0, rights, by, now)
    }

    /// Returns true if any rule hides tools by time; only then do admissions expire.
    pub fn has_times(&self) -> bool {
        self.0.times
    }

    /// Returns the time until which current admissions are valid; `None` if they never expire.
    pub fn valid_until(&self, now: Wall) -> Option<Wall> {
        self.0.hiding_changes(now).min()
    }

    /// Returns true if callers may declare a task of this type.
    pub fn knows_task(&self, word: &str) -> bool {
        Rules::TASKS.contains(&word) || self.0.tasks.contains_key(word)
    }

    /// Iterates over the known task types.
    pub fn tasks(&self) -> impl Iterator<Item = &str> {
        let own = self.0.tasks.keys().map(String::as_str).filter(|own| !Rules::TASKS.contains(own));
        Rules::TASKS.iter().copied().chain(own)
    }

    /// Iterates over patterns that match nothing in the inventory: mistakes, or tools that do not
    /// exist yet.
    pub fn unmatched<'a>(
        &'a self,
        inventory: &'a Inventory<'a>,
    ) -> impl Iterator<Item = &'a Pattern> {
        let rules = &self.0.rules;
        let listed = rules.layers().flat_map(|(_, layer)| lists(layer)).flatten();
        let members = rules.groups.values().flat_map(|group| &group.members);
        listed.chain(members).filter(move |pattern| !inventory.has(pattern))
    }
}

/// Existing tools and sources, as patterns name them.
#[derive(Debug, Clone, Copy)]
pub struct Inventory<'a> {
    /// Tool names: each by its own name and as `SOURCE.NAME`.
    pub tools: &'a BTreeSet<String>,
    /// Names of all sources.
    pub sources: &'a BTreeSet<String>,
    /// Sources whose tools are not known.
    pub unlisted: &'a BTreeSet<String>,
}

impl Inventory<'_> {
    /// Returns true if a pattern matches something, or may match a tool of an unlisted source.
    fn has(&self, pattern: &Pattern) -> bool {
        let of_method = |name: &str| tool::METHODS.iter().any(|(method, _)| name.ends_with(method));
        let of_unlisted = |name: &str| {
            let of = |source: &String| name.strip_prefix(source.as_str());
            self.unlisted.iter().filter_map(of).any(|rest| rest.starts_with('.'))
        };
        match pattern.of() {
            // A wildcard pattern is not a mistake if it matches nothing.
            Of::Name(name) | Of::Source(name) if name.contains('*') => true,
            Of::Name(name) => self.tools.contains(name) || of_method(name) || of_unlisted(name),
            Of::Source(name) => self.sources.contains(name),
            // An unknown group is already an error.
            Of::Group(_) => true,
        }
    }
}

impl Default for Policy {
    /// Returns a policy without operator rules: levels, personas and defaults apply.
    fn default() -> Self {
        Self::new(Rules::default()).unwrap_or_else(|_| Self::closed())
    }
}

impl Policy {
    /// Returns a policy that denies everything.
    fn closed() -> Self {
        let rules =
            Rules { off: crate::Off { tools: true, ..Default::default() }, ..Rules::default() };
        let digest = rules.digest();
        let (groups, global) = (Groups::default(), Ready::default());
        let none = BTreeMap::new;
        let (orgs, roles, personas, tasks, times) = (none(), none(), none(), none(), false);
        let parts = Parts { rules, digest, groups, global, orgs, roles, personas, tasks, times };
        Self(Arc::new(parts))
    }
}

impl Parts {
    /// Iterates over the rules of all layers.
    fn ready(&self) -> impl Iterator<Item = &Arc<ReadyRule>> {
        let Self { global, orgs, roles, personas, tasks, .. } = self;
        let named = [orgs, roles, personas, tasks].into_iter().flat_map(BTreeMap::values);
        std::iter::once(global).chain(named).flat_map(|layer| &layer.rules)
    }

    fn hiding_changes(&self, now: Wall) -> impl Iterator<Item = Wall> {
        self.ready().filter_map(move |rule| rule.changes(now))
    }
}

/// Iterates over all pattern lists of a layer.
fn lists(layer: &Layer) -> impl Iterator<Item = &[Pattern]> {
    let own = layer.permissions.iter();
    let own = own.flat_map(|own| [own.allowed_tools.as_slice(), &own.forbidden_tools]);
    let rules = layer.rules.iter().filter_map(|rule| rule.tools.as_deref());
    let plain = [layer.allow.as_deref().unwrap_or_default(), layer.deny.as_slice()];
    plain.into_iter().chain(own).chain(rules)
}

fn bounds(rules: &Rules, slips: &mut Vec<Slip>) {
    for (name, layer) in rules.layers() {
        let longest = lists(layer).map(<[Pattern]>::len).max().unwrap_or_default();
        let most = longest.max(layer.rules.len());
        if most > LIST {
            let told = format!("{name}: these are {most} rules; {LIST} are allowed");
            slips.push(Slip::new(layer.at, told, "`*` stands for many names at once"));
        }
    }
}
