//! Positions of the tools of a view by their keys.

use std::hash::BuildHasher as _;

use tool::{FastHashState, ToolKey};

/// Positions by hash, eight bytes for each tool. Tools whose hashes are equal are all candidates.
#[derive(Debug)]
pub(super) struct ToolPositions {
    hash_state: FastHashState,
    sorted: Box<[(u32, u32)]>,
}

impl ToolPositions {
    /// Reads the keys of tools in their order.
    pub(super) fn new<'a>(tools: impl Iterator<Item = &'a ToolKey>) -> Self {
        let hash_state = FastHashState::default();
        let hashes = tools.map(|tool| short_hash(&hash_state, tool)).zip(0..);
        let mut sorted: Vec<(u32, u32)> = hashes.collect();
        sorted.sort_unstable();
        Self { hash_state, sorted: sorted.into() }
    }

    /// Returns the positions at which a tool may be.
    pub(super) fn candidates(&self, tool: &ToolKey) -> impl Iterator<Item = usize> {
        let hash = short_hash(&self.hash_state, tool);
        let begin = self.sorted.partition_point(|(it, _)| *it < hash);
        let rest = self.sorted.get(begin..).unwrap_or_default().iter();
        rest.take_while(move |(it, _)| *it == hash).map(|(_, position)| *position as usize)
    }
}

/// Returns the upper half of the hash of a key.
fn short_hash(state: &FastHashState, tool: &ToolKey) -> u32 {
    u32::try_from(state.hash_one(tool) >> 32).unwrap_or_default()
}
