//! The evidence of one organisation in memory, by tool and by stem.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use search::{StemEvidence, ToolEvidence};
use tool::ToolKey;

/// Maximum number of tools with evidence. The one with the weakest evidence leaves first, then the oldest.
pub(super) const MAX_ORG_TOOLS: usize = 1_024;

/// A tool with its evidence for one stem.
#[derive(Debug)]
struct StemTool {
    tool: Arc<ToolKey>,
    evidence: StemEvidence,
}

impl StemTool {
    /// Orders tools, the strongest first; equal ones by their keys, so that all servers agree.
    fn order(&self) -> (Reverse<(usize, u32)>, &ToolKey) {
        (Reverse(self.evidence.rank()), &*self.tool)
    }
}

/// A tool with its evidence and the name of its row.
#[derive(Debug)]
struct LearnedRow {
    evidence: ToolEvidence,
    name: String,
}

/// The evidence of one organisation.
#[derive(Debug, Default)]
pub(super) struct OrgEvidence {
    tools: HashMap<Arc<ToolKey>, LearnedRow>,
    /// Tools by the names of their rows.
    by_row: HashMap<String, Arc<ToolKey>>,
    /// Tools of each stem, the strongest first.
    by_stem: HashMap<u64, Vec<StemTool>>,
}

impl OrgEvidence {
    /// Returns true if no tool has evidence.
    pub(super) fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Returns the evidence of a tool.
    pub(super) fn tool(&self, tool: &ToolKey) -> Option<&ToolEvidence> {
        self.tools.get(tool).map(|it| &it.evidence)
    }

    /// Returns the tool with this row.
    pub(super) fn tool_of_row(&self, name: &str) -> Option<ToolKey> {
        self.by_row.get(name).map(|tool| ToolKey::clone(tool))
    }

    /// Replaces the evidence of a tool, whose row has this name; empty evidence removes it.
    pub(super) fn set_tool(&mut self, (tool, name): (&ToolKey, &str), evidence: ToolEvidence) {
        if let Some(before) = self.tools.remove(tool) {
            self.by_row.remove(&before.name);
            for stem in before.evidence.stems() {
                self.remove_from_stem(stem.stem, tool);
            }
        }
        if evidence.is_empty() {
            return;
        }
        let tool = Arc::new(tool.clone());
        for of_stem in evidence.stems() {
            let tools = self.by_stem.entry(of_stem.stem).or_default();
            let new = StemTool { tool: Arc::clone(&tool), evidence: of_stem.clone() };
            let place = tools.partition_point(|it| it.order() < new.order());
            tools.insert(place, new);
        }
        self.by_row.insert(name.to_owned(), Arc::clone(&tool));
        self.tools.insert(tool, LearnedRow { evidence, name: name.to_owned() });
    }

    fn remove_from_stem(&mut self, stem: u64, tool: &ToolKey) {
        let Some(of_stem) = self.by_stem.get_mut(&stem) else { return };
        of_stem.retain(|it| *it.tool != *tool);
        if of_stem.is_empty() {
            self.by_stem.remove(&stem);
        }
    }

    /// Returns the tools with evidence for a stem, the strongest first, with its strength. Evidence that is too old
    /// is none.
    pub(super) fn tools_of(&self, stem: u64, today: u32) -> impl Iterator<Item = (&ToolKey, f32)> {
        let of_stem = self.by_stem.get(&stem).map(Vec::as_slice).unwrap_or_default().iter();
        let tools = of_stem.map(move |it| (&*it.tool, it.evidence.strength(today)));
        tools.filter(|(_, strength)| *strength > 0.0)
    }

    /// Returns the tool that leaves, if there are more than the maximum.
    pub(super) fn excess_tool(&self) -> Option<ToolKey> {
        if self.tools.len() <= MAX_ORG_TOOLS {
            return None;
        }
        let weakest = self.tools.iter().min_by_key(|(tool, it)| (it.evidence.rank(), *tool));
        weakest.map(|(tool, _)| ToolKey::clone(tool))
    }

    /// Returns the tools whose evidence is partly too old.
    pub(super) fn tools_with_expired(&self, today: u32) -> Vec<ToolKey> {
        let has_expired =
            |it: &LearnedRow| it.evidence.stems().iter().any(|it| it.strength(today) <= 0.0);
        let old = self.tools.iter().filter(|(_, it)| has_expired(it));
        old.map(|(tool, _)| ToolKey::clone(tool)).collect()
    }

    /// Returns all tools with evidence.
    pub(super) fn all_tools(&self) -> Vec<ToolKey> {
        self.tools.keys().map(|tool| ToolKey::clone(tool)).collect()
    }

    /// Returns the day of the last call.
    pub(super) fn last_day(&self) -> u32 {
        self.tools.values().map(|it| it.evidence.rank().1).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use search::{CallerHashes, ToolEvidence};
    use tool::{Org, SourceName, ToolKey, ToolName};

    use super::{MAX_ORG_TOOLS, OrgEvidence};

    fn tool(number: usize) -> ToolKey {
        ToolKey {
            org: Org::default(),
            source: SourceName::new("s").unwrap(),
            name: ToolName::new(format!("t{number:04}")).unwrap(),
        }
    }

    fn stored(stems: &[u64], callers: u32, day: u32) -> ToolEvidence {
        let mut evidence = ToolEvidence::default();
        for caller in 0..callers {
            evidence.add_call(stems, CallerHashes { root_key: caller, subject: caller }, day);
        }
        evidence
    }

    fn set(evidence: &mut OrgEvidence, number: usize, of_tool: ToolEvidence) {
        evidence.set_tool((&tool(number), &format!("row{number}")), of_tool);
    }

    fn names(evidence: &OrgEvidence, stem: u64) -> Vec<String> {
        evidence.tools_of(stem, 10).map(|(tool, _)| tool.name.to_string()).collect()
    }

    #[test]
    fn a_stem_has_its_strongest_tools_and_no_replaced_evidence() {
        let mut evidence = OrgEvidence::default();
        set(&mut evidence, 1, stored(&[7, 8], 1, 10));
        set(&mut evidence, 2, stored(&[7], 2, 10));
        assert_eq!(names(&evidence, 7), ["t0002", "t0001"]);
        set(&mut evidence, 1, stored(&[7], 3, 10));
        assert_eq!(names(&evidence, 7), ["t0001", "t0002"]);
        assert!(names(&evidence, 8).is_empty());
        set(&mut evidence, 1, ToolEvidence::default());
        assert_eq!(names(&evidence, 7), ["t0002"]);
        set(&mut evidence, 2, ToolEvidence::default());
        assert!(evidence.is_empty() && evidence.by_stem.is_empty() && evidence.by_row.is_empty());
    }

    #[test]
    fn tools_are_bounded_and_the_weakest_leave_first() {
        let mut evidence = OrgEvidence::default();
        for number in 0..MAX_ORG_TOOLS {
            set(&mut evidence, number, stored(&[7], 2, 10));
        }
        assert_eq!(evidence.excess_tool(), None);
        assert_eq!(names(&evidence, 7).len(), MAX_ORG_TOOLS);
        set(&mut evidence, 5_000, stored(&[7], 2, 9));
        assert_eq!(evidence.excess_tool(), Some(tool(5_000)), "the oldest of equals");
        set(&mut evidence, 77, stored(&[7], 1, 10));
        assert_eq!(evidence.excess_tool(), Some(tool(77)), "the weakest");
        assert_eq!(evidence.tools_with_expired(190), [tool(5_000)]);
        assert_eq!(evidence.tools_with_expired(189), []);
    }

    #[test]
    fn equal_evidence_is_in_the_order_of_the_tools_whatever_came_first() {
        let learned = |numbers: [usize; 3]| {
            let mut evidence = OrgEvidence::default();
            for number in numbers {
                set(&mut evidence, number, stored(&[7], 1, 10));
            }
            names(&evidence, 7)
        };
        assert_eq!(learned([1, 2, 3]), ["t0001", "t0002", "t0003"]);
        assert_eq!(learned([3, 1, 2]), learned([1, 2, 3]));
    }

    #[test]
    fn evidence_that_is_too_old_takes_no_place() {
        let mut evidence = OrgEvidence::default();
        set(&mut evidence, 1, stored(&[7], 3, 10));
        set(&mut evidence, 2, stored(&[7], 1, 100));
        let found = |today| {
            let tools = evidence.tools_of(7, today).map(|(tool, _)| tool.name.to_string());
            tools.collect::<Vec<_>>()
        };
        assert_eq!(found(190), ["t0001", "t0002"], "control");
        assert_eq!(found(191), ["t0002"]);
    }
}
