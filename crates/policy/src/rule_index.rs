//! Index of the rules of a layer by what they name, so that finding the rules of a tool does not
//! visit the others.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::compiled_layer::CompiledRule;
use crate::tool_groups::GroupMask;
use crate::tool_pattern::glob_matches;
use crate::tool_selector::{ClassifiedTool, ToolSelector};

/// Position of a rule in its index.
pub(crate) type RuleId = u32;

type NameMap = HashMap<Box<str>, Vec<RuleId>, foldhash::fast::RandomState>;

/// Rules of a layer in the order of the file.
#[derive(Debug, Default)]
pub(crate) struct RuleIndex {
    rules: Vec<Arc<CompiledRule>>,
    /// Rules that concern every tool.
    for_every_tool: Vec<RuleId>,
    /// Rules by the bits of their group masks.
    by_group: BTreeMap<u32, Vec<RuleId>>,
    by_name: NameMap,
    by_source: NameMap,
    name_globs: GlobIndex,
    source_globs: GlobIndex,
}

impl RuleIndex {
    pub(crate) fn new<'a>(rules: impl Iterator<Item = &'a Arc<CompiledRule>>) -> Self {
        let mut index = Self::default();
        for (id, rule) in (0..).zip(rules) {
            index.rules.push(Arc::clone(rule));
            match rule.selector().filter(|selector| !selector.matches_every_tool()) {
                None => index.for_every_tool.push(id),
                Some(selector) => index.add_selector(selector, id),
            }
        }
        index
    }

    fn add_selector(&mut self, selector: &ToolSelector, id: RuleId) {
        let parts = selector.parts();
        for bit in (0..GroupMask::BITS).filter(|bit| parts.group_mask & (1 << bit) != 0) {
            self.by_group.entry(bit).or_default().push(id);
        }
        for name in parts.names {
            self.by_name.entry(name.clone()).or_default().push(id);
        }
        for source in parts.sources {
            self.by_source.entry(source.clone()).or_default().push(id);
        }
        parts.globs.iter().for_each(|glob| self.name_globs.add_glob(glob, id));
        parts.source_globs.iter().for_each(|glob| self.source_globs.add_glob(glob, id));
    }

    /// Returns true if it has no rules.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Iterates over the rules that concern every tool.
    pub(crate) fn rules_for_every_tool(&self) -> impl Iterator<Item = &Arc<CompiledRule>> {
        self.for_every_tool.iter().filter_map(|id| self.rule(*id))
    }

    /// Returns the rule at a position.
    pub(crate) fn rule(&self, id: RuleId) -> Option<&Arc<CompiledRule>> {
        self.rules.get(usize::try_from(id).ok()?)
    }

    /// Returns the rules that concern the tool and not every tool, in the order of the file.
    pub(crate) fn find_specific(&self, classified: &ClassifiedTool<'_>) -> Vec<RuleId> {
        let mut found = Vec::new();
        if self.rules.len() == self.for_every_tool.len() {
            return found;
        }
        let mut add = |ids: &Vec<RuleId>| found.extend(ids);
        let groups = self.by_group.iter();
        for (_, ids) in groups.filter(|(bit, _)| classified.group_mask & (1 << **bit) != 0) {
            add(ids);
        }
        for name in classified.names() {
            self.by_name.get(name).into_iter().for_each(&mut add);
            self.name_globs.find_matching(name, &mut add);
        }
        self.by_source.get(classified.tool.source).into_iter().for_each(&mut add);
        self.source_globs.find_matching(classified.tool.source, &mut add);
        if found.len() > 1 {
            found.sort_unstable();
            found.dedup();
        }
        found
    }

    /// Iterates over the rules of every tool together with the specific ones, in the order of the
    /// file.
    pub(crate) fn merge_rules<'a>(
        &'a self,
        specific: &'a [RuleId],
    ) -> impl Iterator<Item = &'a Arc<CompiledRule>> {
        let (mut every, mut some) =
            (self.for_every_tool.iter().peekable(), specific.iter().peekable());
        let ids = std::iter::from_fn(move || match (every.peek(), some.peek()) {
            (Some(one), Some(other)) if one < other => every.next(),
            (Some(_), None) => every.next(),
            _ => some.next(),
        });
        ids.filter_map(|id| self.rule(*id))
    }
}

/// Patterns with `*`, by their literal beginnings, or by their literal ends if they begin with `*`.
#[derive(Debug, Default)]
struct GlobIndex {
    by_prefix: AffixMap,
    by_suffix: AffixMap,
}

/// Patterns of one literal beginning or end.
#[derive(Debug, Default)]
struct AffixMap {
    /// Lengths that occur, in bytes, ascending.
    lengths: Vec<usize>,
    globs: HashMap<Box<str>, Vec<Glob>, foldhash::fast::RandomState>,
}

#[derive(Debug)]
struct Glob {
    pattern: Box<str>,
    rules: Vec<RuleId>,
}

impl GlobIndex {
    fn add_glob(&mut self, pattern: &str, id: RuleId) {
        let prefix = pattern.split('*').next().unwrap_or_default();
        if prefix.is_empty() {
            let suffix = pattern.rsplit('*').next().unwrap_or_default();
            self.by_suffix.add_glob(suffix, pattern, id);
        } else {
            self.by_prefix.add_glob(prefix, pattern, id);
        }
    }

    fn find_matching(&self, text: &str, found: &mut impl FnMut(&Vec<RuleId>)) {
        // Patterns are ASCII: a length within a character of the text matches none.
        let prefixes = self.by_prefix.lengths.iter().take_while(|length| **length <= text.len());
        for prefix in prefixes.filter_map(|length| text.get(..*length)) {
            self.by_prefix.find_matching(prefix, text, found);
        }
        let suffixes = self.by_suffix.lengths.iter();
        for start in suffixes.map_while(|length| text.len().checked_sub(*length)) {
            if let Some(suffix) = text.get(start..) {
                self.by_suffix.find_matching(suffix, text, found);
            }
        }
    }
}

impl AffixMap {
    fn add_glob(&mut self, affix: &str, pattern: &str, id: RuleId) {
        if let Err(place) = self.lengths.binary_search(&affix.len()) {
            self.lengths.insert(place, affix.len());
        }
        let globs = self.globs.entry(affix.into()).or_default();
        match globs.iter_mut().find(|glob| &*glob.pattern == pattern) {
            Some(known) => known.rules.push(id),
            None => globs.push(Glob { pattern: pattern.into(), rules: vec![id] }),
        }
    }

    fn find_matching(&self, affix: &str, text: &str, found: &mut impl FnMut(&Vec<RuleId>)) {
        let globs = self.globs.get(affix).into_iter().flatten();
        for glob in globs.filter(|glob| glob_matches(&glob.pattern, text)) {
            found(&glob.rules);
        }
    }
}
