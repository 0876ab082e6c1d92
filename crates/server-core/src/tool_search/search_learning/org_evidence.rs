//! The evidence of one organisation in memory, by tool and by stem.

use std::collections::HashMap;
use std::sync::Arc;

use search::{MAX_STEM_TOOLS, StemEvidence, ToolEvidence};
use tool::ToolKey;

/// Maximum number of tools with evidence. The one with the weakest evidence leaves first, then the oldest.
pub(super) const MAX_ORG_TOOLS: usize = 1_024;

/// A tool with its evidence for one stem.
#[derive(Debug)]
struct StemTool {
    tool: Arc<ToolKey>,
    evidence: StemEvidence,
}

/// The evidence of one organisation.
#[derive(Debug, Default)]
pub(super) struct OrgEvidence {
    tools: HashMap<Arc<ToolKey>, ToolEvidence>,
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
        self.tools.get(tool)
    }

    /// Replaces the evidence of a tool; empty evidence removes it.
    pub(super) fn set_tool(&mut self, tool: &ToolKey, evidence: ToolEvidence) {
        if let Some(before) = self.tools.remove(tool) {
            for stem in before.stems() {
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
            let place = tools.partition_point(|it| it.evidence.rank() >= of_stem.rank());
            tools.insert(place, new);
        }
        self.tools.insert(tool, evidence);
    }

    fn remove_from_stem(&mut self, stem: u64, tool: &ToolKey) {
        let Some(of_stem) = self.by_stem.get_mut(&stem) else { return };
        of_stem.retain(|it| *it.tool != *tool);
        if of_stem.is_empty() {
            self.by_stem.remove(&stem);
        }
    }

    /// Returns the tools with evidence for a stem, with its strength.
    pub(super) fn tools_of(&self, stem: u64, today: u32) -> impl Iterator<Item = (&ToolKey, f32)> {
        let of_stem = self.by_stem.get(&stem).map(Vec::as_slice).unwrap_or_default();
        let bounded = of_stem.iter().take(MAX_STEM_TOOLS);
        let tools = bounded.map(move |it| (&*it.tool, it.evidence.strength(today)));
        tools.filter(|(_, strength)| *strength > 0.0)
    }

    /// Returns the tool that leaves, if there are more than the maximum.
    pub(super) fn excess_tool(&self) -> Option<ToolKey> {
        if self.tools.len() <= MAX_ORG_TOOLS {
            return None;
        }
        let weakest = self.tools.iter().min_by_key(|(tool, it)| (it.rank(), *tool));
        weakest.map(|(tool, _)| ToolKey::clone(tool))
    }

    /// Returns the tools whose evidence is partly too old.
    pub(super) fn tools_with_expired(&self, today: u32) -> Vec<ToolKey> {
        let has_expired =
            |evidence: &ToolEvidence| evidence.stems().iter().any(|it| it.strength(today) <= 0.0);
        let old = self.tools.iter().filter(|(_, it)| has_expired(it));
        old.map(|(tool, _)| ToolKey::clone(tool)).collect()
    }

    /// Returns all tools with evidence.
    pub(super) fn all_tools(&self) -> Vec<ToolKey> {
        self.tools.keys().map(|tool| ToolKey::clone(tool)).collect()
    }

    /// Orders organisations, the one that was taught the longest time ago first, then the one with the fewest tools.
    pub(super) fn rank(&self) -> (u32, usize) {
        let newest = self.tools.values().map(|it| it.rank().1).max();
        (newest.unwrap_or_default(), self.tools.len())
    }
}

#[cfg(test)]
mod tests {
    use search::{CallerMark, ToolEvidence};
    use tool::{Org, SourceName, ToolKey, ToolName};

    use super::{MAX_ORG_TOOLS, MAX_STEM_TOOLS, OrgEvidence};

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
            evidence.add_call(stems, CallerMark { key: caller, subject: caller }, day);
        }
        evidence
    }

    fn names(evidence: &OrgEvidence, stem: u64) -> Vec<String> {
        evidence.tools_of(stem, 10).map(|(tool, _)| tool.name.to_string()).collect()
    }

    #[test]
    fn a_stem_has_its_strongest_tools_and_no_replaced_evidence() {
        let mut evidence = OrgEvidence::default();
        evidence.set_tool(&tool(1), stored(&[7, 8], 1, 10));
        evidence.set_tool(&tool(2), stored(&[7], 2, 10));
        assert_eq!(names(&evidence, 7), ["t0002", "t0001"]);
        evidence.set_tool(&tool(1), stored(&[7], 3, 10));
        assert_eq!(names(&evidence, 7), ["t0001", "t0002"]);
        assert!(names(&evidence, 8).is_empty());
        evidence.set_tool(&tool(1), ToolEvidence::default());
        assert_eq!(names(&evidence, 7), ["t0002"]);
        evidence.set_tool(&tool(2), ToolEvidence::default());
        assert!(evidence.is_empty() && evidence.by_stem.is_empty());
    }

    #[test]
    fn tools_are_bounded_and_the_weakest_leave_first() {
        let mut evidence = OrgEvidence::default();
        for number in 0..MAX_ORG_TOOLS {
            evidence.set_tool(&tool(number), stored(&[7], 2, 10));
        }
        assert_eq!(evidence.excess_tool(), None);
        assert_eq!(names(&evidence, 7).len(), MAX_STEM_TOOLS);
        evidence.set_tool(&tool(5_000), stored(&[7], 2, 9));
        assert_eq!(evidence.excess_tool(), Some(tool(5_000)), "the oldest of equals");
        evidence.set_tool(&tool(77), stored(&[7], 1, 10));
        assert_eq!(evidence.excess_tool(), Some(tool(77)), "the weakest");
        assert_eq!(evidence.tools_with_expired(190), [tool(5_000)]);
        assert_eq!(evidence.tools_with_expired(189), []);
    }
}
