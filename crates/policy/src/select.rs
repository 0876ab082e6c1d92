//! Compiled pattern lists, and the expansion of groups.

use std::collections::{BTreeMap, HashSet};

use crate::at::shown;
use crate::groups::{self, Marks};
use crate::pattern::{Of, glob};
use crate::{Facts, Group, Pattern, Slip};

/// Properties of a tool that policy checks, computed once for all layers.
#[derive(Debug, Clone)]
pub(crate) struct Seen<'a> {
    pub(crate) tool: Facts<'a>,
    pub(crate) marks: Marks,
    /// Qualified name `SOURCE.NAME`, if that is not the name itself; for a method,
    /// `SOURCE.mcp.resources.read`.
    qualified: Option<Box<str>>,
}

impl<'a> Seen<'a> {
    pub(crate) fn of(tool: Facts<'a>) -> Self {
        let rest = tool.name.strip_prefix(tool.source);
        let is_qualified = rest.is_some_and(|rest| rest.starts_with('.'));
        let qualified = (!is_qualified).then(|| format!("{}.{}", tool.source, tool.name).into());
        Self { tool, marks: groups::marks(tool.name, tool.traits), qualified }
    }
}

/// A pattern list with expanded groups. The order of the list does not count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Select {
    marks: Marks,
    names: HashSet<Box<str>, foldhash::fast::RandomState>,
    sources: HashSet<Box<str>, foldhash::fast::RandomState>,
    globs: Vec<Box<str>>,
    source_globs: Vec<Box<str>>,
}

impl Select {
    /// Returns a selector of every tool.
    fn all() -> Self {
        Self { marks: Marks::MAX, ..Self::default() }
    }

    /// Returns true if a pattern matches the tool.
    pub(crate) fn fits(&self, seen: &Seen<'_>) -> bool {
        let source = seen.tool.source;
        self.marks & seen.marks != 0
            || self.fits_name(seen.tool.name)
            || seen.qualified.as_deref().is_some_and(|name| self.fits_name(name))
            || (!self.sources.is_empty() && self.sources.contains(source))
            || self.source_globs.iter().any(|pattern| glob(pattern, source))
    }

    fn fits_name(&self, name: &str) -> bool {
        (!self.names.is_empty() && self.names.contains(name))
            || self.globs.iter().any(|pattern| glob(pattern, name))
    }

    fn add(&mut self, pattern: &Pattern) {
        match pattern.of() {
            Of::Name(name) if name.contains('*') => self.globs.push(name.into()),
            Of::Name(name) => drop(self.names.insert(name.into())),
            Of::Source(source) if source.contains('*') => self.source_globs.push(source.into()),
            Of::Source(source) => drop(self.sources.insert(source.into())),
            Of::Group(_) => {}
        }
    }
}

/// Known groups of tools.
#[derive(Debug, Clone, Default)]
pub(crate) struct Groups {
    own: BTreeMap<String, Vec<Pattern>>,
}

impl Groups {
    /// Reads the operator's groups, in addition to the built-in ones.
    pub(crate) fn read(own: &BTreeMap<String, Group>, slips: &mut Vec<Slip>) -> Self {
        let groups = own.iter().map(|(name, group)| (name.clone(), group.members.clone()));
        let groups = Self { own: groups.collect() };
        for (name, group) in own {
            if groups::known(name).is_some() {
                let told = format!("there is a group {} already", shown(name));
                slips.push(Slip::new(group.at, told, "give it another name"));
            }
            if Pattern::new(format!("group:{name}")).is_err() {
                let told = format!("{} is no name of a group", shown(name));
                slips.push(Slip::new(group.at, told, "use letters, digits, `_`, `.` and `-`"));
            }
            if groups.reaches(name, name) {
                let told = format!("the group {} holds itself", shown(name));
                slips.push(Slip::new(group.at, told, "take one of the groups out"));
            }
            groups.check(&group.members, slips);
        }
        groups
    }

    /// Reports groups that do not exist.
    pub(crate) fn check(&self, patterns: &[Pattern], slips: &mut Vec<Slip>) {
        for pattern in patterns {
            if let Of::Group(name) = pattern.of()
                && !self.has(name)
            {
                let own = self.own.keys().map(String::as_str);
                let all = groups::KNOWN.iter().map(|group| group.name).chain(own);
                let known = all.collect::<Vec<_>>().join(", ");
                let told = format!("unknown group {}", shown(name));
                slips.push(Slip::new(pattern.place(), told, format!("known are {known}")));
            }
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        groups::known(name).is_some() || self.own.contains_key(name)
    }

    /// Compiles a pattern list with expanded groups. An unknown group has no members.
    pub(crate) fn select(&self, patterns: &[Pattern]) -> Select {
        let mut select = Select::default();
        let mut opened = HashSet::new();
        let mut left: Vec<&Pattern> = patterns.iter().collect();
        while let Some(pattern) = left.pop() {
            let Of::Group(name) = pattern.of() else {
                select.add(pattern);
                continue;
            };
            if let Some(group) = groups::known(name) {
                select.marks |= group.marks;
                select.names.extend(group.names.iter().map(|name| Box::from(*name)));
            } else if opened.insert(name) {
                left.extend(self.own.get(name).into_iter().flatten());
            }
        }
        select
    }

    /// Finds the pattern of a list that matches the tool, for explanations.
    pub(crate) fn which<'p>(
        &self,
        patterns: &'p [Pattern],
        seen: &Seen<'_>,
    ) -> Option<&'p Pattern> {
        patterns.iter().find(|pattern| self.select(std::slice::from_ref(*pattern)).fits(seen))
    }

    fn reaches(&self, from: &str, wanted: &str) -> bool {
        let mut opened = HashSet::new();
        let mut left = vec![from];
        while let Some(name) = left.pop() {
            for member in self.own.get(name).into_iter().flatten() {
                if let Of::Group(next) = member.of() {
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

/// Compiles the lists of a delegation. They come from the store, after the file was checked: an
/// invalid entry can only restrict further.
pub(crate) fn delegated(
    groups: &Groups,
    allow: Option<&[String]>,
    deny: &[String],
) -> (Option<Select>, Select) {
    let read = |text: &String| {
        Pattern::new(text.as_str()).ok().filter(|pattern| match pattern.of() {
            Of::Group(name) => groups.has(name),
            _ => true,
        })
    };
    let allow = allow.map(|list| list.iter().filter_map(read).collect::<Vec<_>>());
    let denied: Option<Vec<_>> = deny.iter().map(read).collect();
    let denied = denied.map_or_else(Select::all, |denied| groups.select(&denied));
    (allow.map(|list| groups.select(&list)), denied)
}
