//! Compiled pattern lists, and the expansion of groups.

use std::collections::{BTreeMap, HashSet};

use crate::diagnostics::quote_excerpt;
use crate::tool_groups::{self, GROUP_ALL, GroupMask};
use crate::tool_pattern::{PatternTarget, glob_matches};
use crate::{PolicyDiagnostic, ToolFacts, ToolGroup, ToolPattern};

/// Properties of a tool that policy checks, computed once for all layers.
#[derive(Debug, Clone)]
pub(crate) struct ClassifiedTool<'a> {
    pub(crate) tool: ToolFacts<'a>,
    pub(crate) group_mask: GroupMask,
    /// Qualified name `SOURCE.NAME`, if that is not the name itself; for a method,
    /// `SOURCE.mcp.resources.read`.
    qualified_name: Option<Box<str>>,
}

impl<'a> ClassifiedTool<'a> {
    pub(crate) fn from_facts(tool: ToolFacts<'a>) -> Self {
        let rest = tool.name.strip_prefix(tool.source);
        let is_qualified = rest.is_some_and(|rest| rest.starts_with('.'));
        let qualified = (!is_qualified).then(|| format!("{}.{}", tool.source, tool.name).into());
        Self {
            tool,
            group_mask: tool_groups::group_mask(tool.name, tool.traits),
            qualified_name: qualified,
        }
    }

    /// Iterates over the names by which patterns select the tool.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.tool.name).chain(self.qualified_name.as_deref())
    }
}

/// A pattern list with expanded groups. The order of the list does not count.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolSelector {
    group_mask: GroupMask,
    names: HashSet<Box<str>, foldhash::fast::RandomState>,
    sources: HashSet<Box<str>, foldhash::fast::RandomState>,
    globs: Vec<Box<str>>,
    source_globs: Vec<Box<str>>,
}

/// The parts of a selector, of which any may match.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SelectorParts<'a> {
    pub(crate) group_mask: GroupMask,
    pub(crate) names: &'a HashSet<Box<str>, foldhash::fast::RandomState>,
    pub(crate) sources: &'a HashSet<Box<str>, foldhash::fast::RandomState>,
    pub(crate) globs: &'a [Box<str>],
    pub(crate) source_globs: &'a [Box<str>],
}

impl ToolSelector {
    /// Returns a selector of every tool.
    fn match_all() -> Self {
        Self { group_mask: GroupMask::MAX, ..Self::default() }
    }

    /// Returns its parts, for an index.
    pub(crate) fn parts(&self) -> SelectorParts<'_> {
        let Self { group_mask, names, sources, globs, source_globs } = self;
        SelectorParts { group_mask: *group_mask, names, sources, globs, source_globs }
    }

    /// Returns true if it matches every tool whatever its name and traits.
    pub(crate) fn matches_every_tool(&self) -> bool {
        let mut globs = self.globs.iter().chain(&self.source_globs);
        self.group_mask & GROUP_ALL != 0 || globs.any(|glob| glob.chars().all(|c| c == '*'))
    }

    /// Returns true if a pattern matches the tool.
    pub(crate) fn matches_tool(&self, classified: &ClassifiedTool<'_>) -> bool {
        let source = classified.tool.source;
        self.group_mask & classified.group_mask != 0
            || self.matches_name(classified.tool.name)
            || classified.qualified_name.as_deref().is_some_and(|name| self.matches_name(name))
            || (!self.sources.is_empty() && self.sources.contains(source))
            || self.source_globs.iter().any(|pattern| glob_matches(pattern, source))
    }

    fn matches_name(&self, name: &str) -> bool {
        (!self.names.is_empty() && self.names.contains(name))
            || self.globs.iter().any(|pattern| glob_matches(pattern, name))
    }

    fn add_pattern(&mut self, pattern: &ToolPattern) {
        match pattern.target() {
            PatternTarget::Name(name) if name.contains('*') => self.globs.push(name.into()),
            PatternTarget::Name(name) => drop(self.names.insert(name.into())),
            PatternTarget::Source(source) if source.contains('*') => {
                self.source_globs.push(source.into());
            }
            PatternTarget::Source(source) => drop(self.sources.insert(source.into())),
            PatternTarget::Group(_) => {}
        }
    }
}

/// Known groups of tools.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolGroups {
    operator_groups: BTreeMap<String, Vec<ToolPattern>>,
}

impl ToolGroups {
    /// Reads the operator's groups, in addition to the built-in ones.
    pub(crate) fn from_document(
        declared: &BTreeMap<String, ToolGroup>,
        diagnostics: &mut Vec<PolicyDiagnostic>,
    ) -> Self {
        let groups = declared.iter().map(|(name, group)| (name.clone(), group.members.clone()));
        let groups = Self { operator_groups: groups.collect() };
        for (name, group) in declared {
            if tool_groups::find_builtin_group(name).is_some() {
                let told = format!("the group {} is already defined", quote_excerpt(name));
                diagnostics.push(PolicyDiagnostic::new(
                    group.position,
                    told,
                    "choose another name",
                ));
            }
            if ToolPattern::new(format!("group:{name}")).is_err() {
                let told = format!("invalid group name {}", quote_excerpt(name));
                diagnostics.push(PolicyDiagnostic::new(
                    group.position,
                    told,
                    "use letters, digits, `_`, `.` and `-`",
                ));
            }
            if groups.contains_group(name, name) {
                let told = format!("the group {} contains itself", quote_excerpt(name));
                diagnostics.push(PolicyDiagnostic::new(
                    group.position,
                    told,
                    "remove one of the groups",
                ));
            }
            groups.report_unknown_groups(&group.members, diagnostics);
        }
        groups
    }

    /// Reports groups that do not exist.
    pub(crate) fn report_unknown_groups(
        &self,
        patterns: &[ToolPattern],
        diagnostics: &mut Vec<PolicyDiagnostic>,
    ) {
        for pattern in patterns {
            if let PatternTarget::Group(name) = pattern.target()
                && !self.group_exists(name)
            {
                let own = self.operator_groups.keys().map(String::as_str);
                let all = tool_groups::BUILTIN_GROUPS.iter().map(|group| group.name).chain(own);
                let known = all.collect::<Vec<_>>().join(", ");
                let told = format!("unknown group {}", quote_excerpt(name));
                diagnostics.push(PolicyDiagnostic::new(
                    pattern.position(),
                    told,
                    format!("use one of {known}"),
                ));
            }
        }
    }

    pub(crate) fn group_exists(&self, name: &str) -> bool {
        tool_groups::find_builtin_group(name).is_some() || self.operator_groups.contains_key(name)
    }

    /// Compiles a pattern list with expanded groups. An unknown group has no members.
    pub(crate) fn compile_patterns(&self, patterns: &[ToolPattern]) -> ToolSelector {
        let mut select = ToolSelector::default();
        let mut opened = HashSet::new();
        let mut left: Vec<&ToolPattern> = patterns.iter().collect();
        while let Some(pattern) = left.pop() {
            let PatternTarget::Group(name) = pattern.target() else {
                select.add_pattern(pattern);
                continue;
            };
            if let Some(group) = tool_groups::find_builtin_group(name) {
                select.group_mask |= group.mask;
                select.names.extend(group.tool_names.iter().map(|name| Box::from(*name)));
            } else if opened.insert(name) {
                left.extend(self.operator_groups.get(name).into_iter().flatten());
            }
        }
        select
    }

    /// Finds the pattern of a list that matches the tool, for explanations.
    pub(crate) fn find_matching<'p>(
        &self,
        patterns: &'p [ToolPattern],
        classified: &ClassifiedTool<'_>,
    ) -> Option<&'p ToolPattern> {
        patterns.iter().find(|pattern| {
            self.compile_patterns(std::slice::from_ref(*pattern)).matches_tool(classified)
        })
    }

    fn contains_group(&self, from: &str, wanted: &str) -> bool {
        let mut opened = HashSet::new();
        let mut left = vec![from];
        while let Some(name) = left.pop() {
            for member in self.operator_groups.get(name).into_iter().flatten() {
                if let PatternTarget::Group(next) = member.target() {
                    if next == wanted {
                        return true;
                    }
                    if opened.insert(next) {
                        left.push(next);
                    }
                }
            }
        }
        false
    }
}

/// Compiled lists of a delegation, or of an organisation's stored tools.
#[derive(Debug)]
pub(crate) struct DelegationLists {
    /// Allowed tools; `None` is no limit.
    pub(crate) allowed: Option<ToolSelector>,
    /// Denied tools.
    pub(crate) denied: ToolSelector,
}

/// Compiles the lists of a delegation. They come from the store, after the file was checked: an
/// invalid entry can only restrict further.
pub(crate) fn compile_delegation(
    groups: &ToolGroups,
    allow: Option<&[String]>,
    deny: &[String],
) -> DelegationLists {
    let read = |text: &String| {
        ToolPattern::new(text.as_str()).ok().filter(|pattern| match pattern.target() {
            PatternTarget::Group(name) => groups.group_exists(name),
            _ => true,
        })
    };
    let allow = allow.map(|list| list.iter().filter_map(read).collect::<Vec<_>>());
    let denied: Option<Vec<_>> = deny.iter().map(read).collect();
    DelegationLists {
        allowed: allow.map(|list| groups.compile_patterns(&list)),
        denied: denied
            .map_or_else(ToolSelector::match_all, |denied| groups.compile_patterns(&denied)),
    }
}
