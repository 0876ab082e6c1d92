//! The latest searches of each caller, in memory: which query found which tools.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use search::MAX_QUERY_STEMS;
use tool::{MonotonicTime, ToolKey};

/// Maximum number of callers; those whose last search is the oldest leave first.
const MAX_CALLERS: usize = 4_096;
/// Maximum number of queries of a caller.
const MAX_QUERIES_OF_CALLER: usize = 32;
/// Maximum number of tools that a query found, the best ones.
const MAX_TOOLS: usize = 20;
/// Time after a search in which a call belongs to it.
const MAX_AGE: Duration = Duration::from_mins(10);

/// One query with the tools that it found.
#[derive(Debug, Clone)]
pub(super) struct QueryResults {
    stems: Vec<u64>,
    tools: Vec<ToolKey>,
}

impl QueryResults {
    /// Creates a query by the hashes of its stems.
    pub(super) fn new(mut stems: Vec<u64>) -> Self {
        stems.truncate(MAX_QUERY_STEMS);
        Self { stems, tools: Vec::new() }
    }

    /// Adds the next tool that it found.
    pub(super) fn add_tool(&mut self, tool: &ToolKey) {
        if self.tools.len() < MAX_TOOLS {
            self.tools.push(tool.clone());
        }
    }
}

/// A query as it is remembered, with its tools as hashes.
#[derive(Debug)]
struct RecentQuery {
    at: MonotonicTime,
    stems: Vec<u64>,
    tools: Vec<u64>,
}

impl RecentQuery {
    fn is_recent(&self, now: MonotonicTime) -> bool {
        now.saturating_duration_since(self.at) < MAX_AGE
    }
}

/// The latest searches of callers.
#[derive(Debug, Default)]
pub(super) struct RecentSearches {
    callers: HashMap<u64, Vec<RecentQuery>>,
    hash_state: RandomState,
}

impl RecentSearches {
    /// Remembers a search of a caller.
    pub(super) fn add_search(
        &mut self,
        caller: u64,
        queries: Vec<QueryResults>,
        now: MonotonicTime,
    ) {
        let useful = queries.into_iter().filter(|it| !it.tools.is_empty() && !it.stems.is_empty());
        let hash = |tool: &ToolKey| self.hash_state.hash_one(tool);
        let new: Vec<RecentQuery> = useful
            .map(|it| RecentQuery {
                at: now,
                tools: it.tools.iter().map(hash).collect(),
                stems: it.stems,
            })
            .collect();
        if new.is_empty() {
            return;
        }
        if self.callers.len() >= MAX_CALLERS && !self.callers.contains_key(&caller) {
            self.remove_oldest(now);
        }
        let queries = self.callers.entry(caller).or_default();
        queries.retain(|it| it.is_recent(now));
        queries.extend(new);
        let excess = queries.len().saturating_sub(MAX_QUERIES_OF_CALLER);
        queries.drain(..excess);
    }

    /// Returns the stems of the newest query of a caller that found a tool. All its queries forget that they found it:
    /// a second call teaches nothing more.
    pub(super) fn take_stems(
        &mut self,
        caller: u64,
        tool: &ToolKey,
        now: MonotonicTime,
    ) -> Vec<u64> {
        let Some(queries) = self.callers.get_mut(&caller) else { return Vec::new() };
        let hash = self.hash_state.hash_one(tool);
        queries.retain(|it| it.is_recent(now));
        let newest = queries.iter().rev().find(|it| it.tools.contains(&hash));
        let stems = newest.map(|it| it.stems.clone()).unwrap_or_default();
        for query in queries.iter_mut() {
            query.tools.retain(|it| *it != hash);
        }
        queries.retain(|it| !it.tools.is_empty());
        if queries.is_empty() {
            self.callers.remove(&caller);
        }
        stems
    }

    /// Removes callers without a recent search, or else the one whose last search is the oldest.
    fn remove_oldest(&mut self, now: MonotonicTime) {
        self.callers.retain(|_, queries| queries.iter().any(|it| it.is_recent(now)));
        if self.callers.len() < MAX_CALLERS {
            return;
        }
        let last = |queries: &Vec<RecentQuery>| queries.last().map(|it| it.at);
        let oldest = self.callers.iter().min_by_key(|(_, queries)| last(queries));
        if let Some(caller) = oldest.map(|(caller, _)| *caller) {
            self.callers.remove(&caller);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tool::{MonotonicTime, Org, SourceName, ToolKey, ToolName};

    use super::{
        MAX_AGE, MAX_CALLERS, MAX_QUERIES_OF_CALLER, MAX_QUERY_STEMS, MAX_TOOLS, QueryResults,
        RecentSearches,
    };

    fn tool(name: &str) -> ToolKey {
        ToolKey {
            org: Org::default(),
            source: SourceName::new("s").unwrap(),
            name: ToolName::new(name).unwrap(),
        }
    }

    fn found(stems: &[u64], tools: &[&str]) -> QueryResults {
        let mut found = QueryResults::new(stems.to_vec());
        for name in tools {
            found.add_tool(&tool(name));
        }
        found
    }

    fn at(seconds: u64) -> MonotonicTime {
        MonotonicTime(Duration::from_secs(seconds))
    }

    #[test]
    fn a_call_takes_the_stems_of_its_callers_newest_query_once() {
        let mut recent = RecentSearches::default();
        recent.add_search(1, vec![found(&[1, 2], &["a", "b"]), found(&[3], &["c"])], at(0));
        recent.add_search(1, vec![found(&[2, 4], &["a"])], at(1));
        assert!(recent.take_stems(2, &tool("a"), at(2)).is_empty(), "another caller");
        assert!(recent.take_stems(1, &tool("z"), at(2)).is_empty(), "a tool that was not found");
        assert_eq!(recent.take_stems(1, &tool("a"), at(2)), [2, 4], "the newest query alone");
        assert!(recent.take_stems(1, &tool("a"), at(2)).is_empty(), "the second call");
        assert_eq!(recent.take_stems(1, &tool("b"), at(2)), [1, 2]);
        assert!(recent.take_stems(1, &tool("c"), at(0).saturating_add(MAX_AGE)).is_empty());
        assert!(recent.callers.is_empty());
    }

    #[test]
    fn everything_that_is_remembered_has_a_bound() {
        let mut recent = RecentSearches::default();
        let stems: Vec<u64> = (0..100).collect();
        let names: Vec<String> = (0..100).map(|it| format!("t{it}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for _ in 0..100 {
            recent.add_search(0, vec![found(&stems, &names)], at(0));
        }
        let queries = &recent.callers[&0];
        assert_eq!(queries.len(), MAX_QUERIES_OF_CALLER);
        assert_eq!((queries[0].stems.len(), queries[0].tools.len()), (MAX_QUERY_STEMS, MAX_TOOLS));
        for caller in 1..=MAX_CALLERS as u64 {
            recent.add_search(caller, vec![found(&[1], &["a"])], at(1));
        }
        assert_eq!(recent.callers.len(), MAX_CALLERS);
        assert!(!recent.callers.contains_key(&0), "the oldest leaves");
        recent.add_search(u64::MAX, vec![found(&[1], &["a"])], at(1).saturating_add(MAX_AGE));
        assert_eq!(recent.callers.len(), 1, "those without a recent search leave together");
    }
}
