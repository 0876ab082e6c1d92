//! The validated, compiled policy and its digest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use identity::RightsClass;
use tool::{CallerType, Digest, WallTime};

use crate::compiled_layer::{CompiledLayer, CompiledRule, LayerCompiler};
use crate::condition::OperandTable;
use crate::deferred_checks::CheckInterner;
use crate::diagnostics::quote_excerpt;
use crate::tool_pattern::PatternTarget;
use crate::tool_selector::ToolGroups;
use crate::{EffectivePolicy, PolicyDiagnostic, PolicyDocument, PolicyLayer, ToolPattern};

/// Maximum number of rules of one list: each may be tried on every tool.
const MAX_LIST_RULES: usize = 1_000;

/// The compiled policy with its digest, which every record carries. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Policy(Arc<CompiledPolicy>);

#[derive(Debug)]
pub(crate) struct CompiledPolicy {
    pub(crate) document: PolicyDocument,
    digest: Digest,
    pub(crate) groups: ToolGroups,
    pub(crate) global: CompiledLayer,
    pub(crate) orgs: BTreeMap<String, CompiledLayer>,
    pub(crate) roles: BTreeMap<String, CompiledLayer>,
    pub(crate) personas: BTreeMap<String, CompiledLayer>,
    pub(crate) tasks: BTreeMap<String, CompiledLayer>,
    /// True if any rule hides tools by time; read on every call.
    is_time_dependent: bool,
    /// Checks that views of several rights classes share.
    pub(crate) shared_checks: CheckInterner,
}

impl Policy {
    /// Validates and compiles a policy document atomically.
    ///
    /// # Errors
    /// All diagnostics of the document.
    pub fn new(document: PolicyDocument) -> Result<Self, Vec<PolicyDiagnostic>> {
        let mut slips = Vec::new();
        let groups = ToolGroups::from_document(&document.groups, &mut slips);
        let own_categories = document.own_categories.as_slice();
        let operands = OperandTable::default();
        let mut reading =
            LayerCompiler { groups: &groups, own_categories, operands, diagnostics: slips };
        let global = reading.compile_layer(&document.global);
        let mut all = |layers: &BTreeMap<String, PolicyLayer>| -> BTreeMap<String, CompiledLayer> {
            let ready =
                layers.iter().map(|(name, layer)| (name.clone(), reading.compile_layer(layer)));
            ready.collect()
        };
        let (orgs, roles) = (all(&document.orgs), all(&document.roles));
        let (personas, tasks) = (all(&document.personas), all(&document.task_layers));
        let mut slips = reading.diagnostics;
        if let Some(role) =
            document.default_role.as_ref().filter(|role| !roles.contains_key(&role.text))
        {
            let told = format!("unknown role {}", quote_excerpt(&role.text));
            slips.push(PolicyDiagnostic::new(role.position, told, "define it in `policy.roles`"));
        }
        check_list_lengths(&document, &mut slips);
        if !slips.is_empty() {
            slips.sort_by_key(|slip| (slip.position.line, slip.position.column));
            return Err(slips);
        }
        let digest = document.digest();
        let times = false;
        let parts = CompiledPolicy {
            document,
            digest,
            groups,
            global,
            orgs,
            roles,
            personas,
            tasks,
            is_time_dependent: times,
            shared_checks: CheckInterner::default(),
        };
        let times = parts.visibility_changes(WallTime(0)).next().is_some();
        Ok(Self(Arc::new(CompiledPolicy { is_time_dependent: times, ..parts })))
    }

    /// Returns the digest that identifies the policy in records.
    pub fn digest(&self) -> Digest {
        self.0.digest
    }

    /// Returns true if both are the same instance: results computed under one hold under the other.
    pub fn is_same_policy(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the policy document.
    pub fn document(&self) -> &PolicyDocument {
        &self.0.document
    }

    pub(crate) fn tool_groups(&self) -> &ToolGroups {
        &self.0.groups
    }

    #[cfg(test)]
    pub(crate) fn compiled(&self) -> &CompiledPolicy {
        &self.0
    }

    /// Returns the effective policy for one rights class and caller type, at one time.
    pub fn for_class<'a>(
        &'a self,
        rights: &'a RightsClass,
        caller_type: CallerType,
        now: WallTime,
    ) -> EffectivePolicy<'a> {
        EffectivePolicy::new(&self.0, rights, caller_type, now)
    }

    /// Returns true if any rule hides tools by time; only then do admissions expire.
    pub fn is_time_dependent(&self) -> bool {
        self.0.is_time_dependent
    }

    /// Returns the time until which current admissions are valid; `None` if they never expire.
    pub fn visibility_valid_until(&self, now: WallTime) -> Option<WallTime> {
        self.0.visibility_changes(now).min()
    }

    /// Returns true if callers may declare a task of this type.
    pub fn is_known_task_type(&self, task_type: &str) -> bool {
        PolicyDocument::OFFLINE_TASK_TYPES.contains(&task_type)
            || self.0.tasks.contains_key(task_type)
    }

    /// Iterates over the known task types.
    pub fn task_types(&self) -> impl Iterator<Item = &str> {
        let own = self
            .0
            .tasks
            .keys()
            .map(String::as_str)
            .filter(|own| !PolicyDocument::OFFLINE_TASK_TYPES.contains(own));
        PolicyDocument::OFFLINE_TASK_TYPES.iter().copied().chain(own)
    }

    /// Iterates over patterns that match nothing in the inventory: mistakes, or tools that do not
    /// exist yet.
    pub fn unmatched_patterns<'a>(
        &'a self,
        inventory: &'a ToolInventory<'a>,
    ) -> impl Iterator<Item = &'a ToolPattern> {
        let rules = &self.0.document;
        let listed = rules.named_layers().flat_map(|(_, layer)| pattern_lists(layer)).flatten();
        let members = rules.groups.values().flat_map(|group| &group.members);
        listed.chain(members).filter(move |pattern| !inventory.may_match(pattern))
    }
}

/// Existing tools and sources, as patterns name them.
#[derive(Debug, Clone, Copy)]
pub struct ToolInventory<'a> {
    /// Tool names: each by its own name and as `SOURCE.NAME`.
    pub tool_names: &'a BTreeSet<String>,
    /// Names of all sources.
    pub source_names: &'a BTreeSet<String>,
    /// Sources whose tools are not known.
    pub unlisted_sources: &'a BTreeSet<String>,
}

impl ToolInventory<'_> {
    /// Returns true if a pattern matches something, or may match a tool of an unlisted source.
    fn may_match(&self, pattern: &ToolPattern) -> bool {
        // Methods of extensions are known to their sources alone.
        let of_method = |name: &str| {
            tool::MCP_METHODS.iter().any(|it| name.ends_with(it.name))
                || name.starts_with("mcp.")
                || name.contains(".mcp.")
        };
        let of_unlisted = |name: &str| {
            let of = |source: &String| name.strip_prefix(source.as_str());
            self.unlisted_sources.iter().filter_map(of).any(|rest| rest.starts_with('.'))
        };
        match pattern.target() {
            // A wildcard pattern is not a mistake if it matches nothing.
            PatternTarget::Name(name) | PatternTarget::Source(name) if name.contains('*') => true,
            PatternTarget::Name(name) => {
                self.tool_names.contains(name) || of_method(name) || of_unlisted(name)
            }
            PatternTarget::Source(name) => self.source_names.contains(name),
            // An unknown group is already an error.
            PatternTarget::Group(_) => true,
        }
    }
}

impl Default for Policy {
    /// Returns a policy without operator rules: levels, personas and defaults apply.
    fn default() -> Self {
        Self::new(PolicyDocument::default()).unwrap_or_else(|_| Self::deny_all())
    }
}

impl Policy {
    /// Returns a policy that denies everything.
    fn deny_all() -> Self {
        let rules = PolicyDocument {
            disabled_features: crate::DisabledFeatures { tools: true, ..Default::default() },
            ..PolicyDocument::default()
        };
        let digest = rules.digest();
        let (groups, global) = (ToolGroups::default(), CompiledLayer::default());
        let none = BTreeMap::new;
        let (orgs, roles, personas, tasks, times) = (none(), none(), none(), none(), false);
        let parts = CompiledPolicy {
            document: rules,
            digest,
            groups,
            global,
            orgs,
            roles,
            personas,
            tasks,
            is_time_dependent: times,
            shared_checks: CheckInterner::default(),
        };
        Self(Arc::new(parts))
    }
}

impl CompiledPolicy {
    /// Iterates over the rules of all layers.
    fn compiled_rules(&self) -> impl Iterator<Item = &Arc<CompiledRule>> {
        let Self { global, orgs, roles, personas, tasks, .. } = self;
        let named = [orgs, roles, personas, tasks].into_iter().flat_map(BTreeMap::values);
        std::iter::once(global).chain(named).flat_map(|layer| &layer.rules)
    }

    fn visibility_changes(&self, now: WallTime) -> impl Iterator<Item = WallTime> {
        self.compiled_rules().filter_map(move |rule| rule.next_change(now))
    }
}

/// Iterates over all pattern lists of a layer.
fn pattern_lists(layer: &PolicyLayer) -> impl Iterator<Item = &[ToolPattern]> {
    let own = layer.permissions.iter();
    let own = own.flat_map(|own| [own.allowed_tools.as_slice(), &own.forbidden_tools]);
    let rules = layer.rules.iter().filter_map(|rule| rule.tools.as_deref());
    let plain = [layer.allow.as_deref().unwrap_or_default(), layer.deny.as_slice()];
    plain.into_iter().chain(own).chain(rules)
}

fn check_list_lengths(rules: &PolicyDocument, slips: &mut Vec<PolicyDiagnostic>) {
    for (name, layer) in rules.named_layers() {
        let longest = pattern_lists(layer).map(<[ToolPattern]>::len).max().unwrap_or_default();
        let most = longest.max(layer.rules.len());
        if most > MAX_LIST_RULES {
            let told = format!(
                "{name}: {most} patterns are too many; the maximum is \
                {MAX_LIST_RULES}"
            );
            slips.push(PolicyDiagnostic::new(layer.position, told, "combine names with `*`"));
        }
    }
}
